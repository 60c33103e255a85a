"""Memory at work: facts, their index, and search."""
