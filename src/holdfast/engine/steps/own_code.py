"""Tells the user's own code from Python's, from installed packages and from Holdfast itself."""

import os
import sysconfig
from functools import lru_cache
from pathlib import Path
from typing import Final


def _roots() -> tuple[str, ...]:
    paths = {*sysconfig.get_paths().values(), str(Path(__file__).parents[2])}
    return tuple(f"{os.path.realpath(path)}{os.sep}" for path in paths if path)


_FOREIGN: Final = _roots()
_INSTALLED: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@lru_cache(1024)
def is_own_file(file: str) -> bool:
    """Whether the code of a file is the user's. That of a notebook's cell has no file, and is."""
    return not os.path.realpath(file).startswith(_FOREIGN) and not any(part in file for part in _INSTALLED)
