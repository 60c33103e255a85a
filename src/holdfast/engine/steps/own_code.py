"""Tells the user's own code from Python's, from installed packages and from Holdfast itself."""

import os
import sysconfig
from functools import lru_cache
from pathlib import Path
from typing import Final


def _roots() -> tuple[str, ...]:
    # Not the prefix itself: below /usr/local there may be programs of the user's.
    python = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths = {path for path in (*python, str(Path(__file__).parents[2])) if path}
    return tuple(f"{path}{os.sep}" for path in paths | {os.path.realpath(path) for path in paths})


_FOREIGN: Final = _roots()
_INSTALLED: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@lru_cache(1024)
def is_own_file(path: str) -> bool:
    """Whether a source file, or a directory of them, is the user's. A notebook's cell has no file, and is."""
    # As it is written, first: a process has hundreds of such modules, and the real path of one takes 20 µs.
    if path.startswith(_FOREIGN) or any(part in f"{path}{os.sep}" for part in _INSTALLED):
        return False
    return not f"{os.path.realpath(path)}{os.sep}".startswith(_FOREIGN)
