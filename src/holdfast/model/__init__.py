"""The nouns: immutable, without I/O, clock or randomness. Open to every other room.

They are NamedTuples rather than frozen dataclasses: a third of the import time and of the cost to build one,
which matters when 20,000 events enter at once.
"""
