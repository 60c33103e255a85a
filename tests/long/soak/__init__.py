"""``make soak``: workers that are killed every second, and a server that is restarted under them; then the books are checked."""
