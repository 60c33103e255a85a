"""The nouns: immutable, without I/O, clock or randomness. Every other package may use them.

They are NamedTuples rather than frozen dataclasses: a third of the import time and of the cost to build one,
which matters when 20,000 events are loaded at once.
"""
