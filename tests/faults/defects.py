"""What these tests are known to find in the code as it stands: the one place to change when it is repaired.

A theme that is named here must find something, and one that is not must find nothing. So the list cannot be longer or
shorter than the truth.
"""

from typing import Final

OPEN: Final[dict[str, str]] = {}

DESCRIPTORS: Final[frozenset[str]] = frozenset()
"""The verbs of a run that raise a raw OSError when there are no descriptors left, or none to import a module with."""
