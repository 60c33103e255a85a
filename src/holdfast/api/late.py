"""Modules that are loaded when a method first needs one: a run that does not use a feature never loads it.

The facades name these modules twice: for type checkers and editors as plain imports, and at run time as ``LazyModule``.
"""

from importlib import import_module
from typing import Any


class LazyModule:
    """A module by its name, imported when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value
