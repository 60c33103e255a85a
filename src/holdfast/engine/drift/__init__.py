"""Drift at work: the guard of recorded effects, and the program that recorded them."""
