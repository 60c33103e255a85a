"""A module that is imported on first use, so that a run that does not use a feature never loads it.

``features`` names each module twice: as a plain import for type checkers and editors, and as ``LazyModule``
at run time.
"""

from importlib import import_module
from typing import Any


class LazyModule:
    """A module by name, imported when one of its attributes is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)  # the next read does not come here
        return value
