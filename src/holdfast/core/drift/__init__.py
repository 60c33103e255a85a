"""Rules of drift: the program asks for something else than what is recorded."""
