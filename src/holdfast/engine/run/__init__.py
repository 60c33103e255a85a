"""A run held by this process: open, close, cancel, and the two drivers, blocking and async."""
