"""One descriptor in reserve, so that a verb can load what it needs also where the process has none left (EMFILE).

Many parts are imported by the function that needs them first, and an import opens files. A program that has run out of
descriptors would hear a raw OSError from the middle of a verb, perhaps between an effect and its record. So from the first
entered run on, one descriptor is held back, and given up when an import finds no other; where even that does not help, an import
of Holdfast's own is refused with ``OutOfDescriptors``. What other code imports is none of this module's business.

It is best effort: another thread may be faster to take the descriptor that was given up.
"""

import os
import sys
from types import FrameType
from typing import Final

from holdfast.errors import OutOfDescriptors

_PACKAGE: Final = __name__.partition(".")[0]
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)


class SpareDescriptor:
    """Asked before every import that is not loaded yet, as the first of ``sys.meta_path``; it finds nothing itself."""

    def __init__(self) -> None:
        self._fd = -1
        self._identity = (0, 0)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002 - the protocol's
        """See to it that there is a descriptor to load the module with. OutOfDescriptors, for one that is ours to load."""
        if name in sys.builtin_module_names:
            return
        self.take()
        if _find_problem() is None:
            return
        self._give_up()
        problem = _find_problem()
        if problem is not None and _is_for_us(sys._getframe(1)):  # noqa: SLF001 - nothing else tells who imports
            raise OutOfDescriptors(module=name, problem=problem)

    def take(self) -> None:
        """Hold one back, unless that is done already or there is none."""
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
            # The program may have closed it, as a daemon closes all it inherits, and have something else there now.
            if (status.st_dev, status.st_ino) == self._identity:
                os.close(fd)
        except OSError:
            pass


_spare: Final = SpareDescriptor()


def keep_spare() -> None:
    """Hold one descriptor back from now on."""
    if _spare not in sys.meta_path:
        sys.meta_path.insert(0, _spare)
    _spare.take()


def _find_problem() -> str | None:
    """What the system says to one more descriptor; None where there is one."""
    try:
        os.close(os.open(__file__, _FLAGS))
    except OSError as error:
        return error.strerror or str(error)
    return None


def _is_for_us(frame: FrameType | None) -> bool:
    """Whether the function that wants the module, perhaps by way of others that are being loaded, is Holdfast's."""
    while frame is not None:
        room = str(frame.f_globals.get("__name__"))
        if frame.f_code.co_name != "<module>" and "importlib" not in room.partition(".")[0]:
            return room.partition(".")[0] == _PACKAGE
        frame = frame.f_back
    return False
