"""Files that runs make."""
