"""Loop detection in a held run."""
