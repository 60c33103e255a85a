"""Rules of drift: the program makes another call than the one that is recorded."""
