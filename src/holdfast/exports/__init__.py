"""Exports as files: one tar file, or a directory, with the same parts.

This package knows names, bytes and the file system, and nothing of runs. The engine has the rules of export
and import; it sees an export only as named parts to write or to read.
"""
