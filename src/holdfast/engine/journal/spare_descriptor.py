"""Keeps one file descriptor in reserve, so that Holdfast can import modules when no other is free.

Many modules are imported by the function that needs them first, and an import opens files. Without the
reserve, a program without free descriptors (EMFILE) would get a raw OSError in the middle of a call, perhaps
between an effect and its record. From the first entered run on, this module keeps one descriptor open and
closes it when an import finds no other. If that is not enough, an import that Holdfast needs raises
``OutOfDescriptors``; imports of other code are left alone.

It is best effort: another thread may take the descriptor that was closed.
"""

import os
import sys
from types import FrameType
from typing import Final

from holdfast.errors import OutOfDescriptors

_PACKAGE: Final = __name__.partition(".")[0]
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)


class SpareDescriptor:
    """The first finder of ``sys.meta_path``: asked before each real import.

    It never finds a module itself.
    """

    def __init__(self) -> None:
        self._fd = -1
        self._identity = (0, 0)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002 - the protocol's
        """Make sure that a descriptor is free to load the module. OutOfDescriptors if Holdfast imports it."""
        if name in sys.builtin_module_names:
            return
        self.take()
        if _find_problem() is None:
            return
        self._give_up()
        problem = _find_problem()
        if problem is not None and _is_for_us(sys._getframe(1)):  # noqa: SLF001 - only the stack knows the importer
            raise OutOfDescriptors(module=name, problem=problem)

    def take(self) -> None:
        """Open the reserve, unless it is open or no descriptor is free."""
        if self._fd >= 0:
            return
        try:
            self._fd = os.open(__file__, _FLAGS)
            status = os.fstat(self._fd)
        except OSError:
            return
        self._identity = (status.st_dev, status.st_ino)

    def _give_up(self) -> None:
        fd, self._fd = self._fd, -1
        try:
            status = os.fstat(fd)
            # A program that becomes a daemon closes all descriptors, and may have reused this number since.
            if (status.st_dev, status.st_ino) == self._identity:
                os.close(fd)
        except OSError:
            pass


_spare: Final = SpareDescriptor()


def keep_spare() -> None:
    """Keep one descriptor in reserve from now on."""
    if _spare not in sys.meta_path:
        sys.meta_path.insert(0, _spare)
    _spare.take()


def _find_problem() -> str | None:
    """The system's error for one more descriptor; None if one is free."""
    try:
        os.close(os.open(__file__, _FLAGS))
    except OSError as error:
        return error.strerror or str(error)
    return None


def _is_for_us(frame: FrameType | None) -> bool:
    """Whether a function of Holdfast caused this import, directly or through modules in between."""
    while frame is not None:
        # Frames named <module> are modules in the middle of their own import; the cause is further out.
        room = str(frame.f_globals.get("__name__"))
        if frame.f_code.co_name != "<module>" and "importlib" not in room.partition(".")[0]:
            return room.partition(".")[0] == _PACKAGE
        frame = frame.f_back
    return False
