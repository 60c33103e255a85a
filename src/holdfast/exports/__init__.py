"""Exports as files: one tar file, or a directory, with the same parts.

This room knows names, bytes, the file system and nothing of runs; the rules of exporting and importing are the
engine's, which sees a parcel only as something to put parts into, or to read them from.
"""
