"""Tells the user's own code from Python's, from installed packages and from Holdfast itself."""

import os
from functools import lru_cache
from typing import Final


def _roots() -> tuple[str, ...]:
    # Python's modules lie beside ``os``. Not the prefix itself: below /usr/local there may be programs of the
    # user's. Not by sysconfig, which reads all that Python was compiled with.
    up = os.path.dirname
    paths = {up(os.__file__), up(up(up(__file__)))}
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
