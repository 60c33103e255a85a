"""What is remembered of the long lists and objects of the last state, to do nothing twice for the next one.

A *window* is 64 elements as they were encoded. *Cuts* are the runs of one level, see ``tree.py``. All of it
depends on the content alone, so it stays right whatever is stored meanwhile, and costs time if it is gone.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from holdfast.core.state.shape import Shape
from holdfast.limits import STATE_SHAPE_BYTES_MIN
from holdfast.model.named_tuple import NamedTuple

WINDOW: Final = 64
_TRIES_MAX: Final = 3
"""A program that makes new elements for each checkpoint gives every shape up after so many."""


class Window(NamedTuple):
    """Up to 64 elements of a long list or object as they were encoded last time, and their identities.

    ``ends`` are the places in the data where the elements end. ``equals`` counts the states in which the same
    data were encoded again. ``may_be_kept``: it has a shape, or one is to be made.
    """

    data: bytes
    items: list[bytes]
    ends: list[int]
    equals: int = 0
    shape: Shape | None = None
    may_be_kept: bool = False

    def unchanged(self, data: bytes) -> int:
        """How many elements the data begin with that are the same here."""
        count = len(self.ends)
        # A conversation mostly grows, so that all of them are.
        if not data.startswith(self.data[:-1]):
            count = bisect_left(self.ends, True, key=lambda end: not data.startswith(self.data[:end]))
        # ``12`` is also how ``123`` begins.
        return count - 1 if count and data[self.ends[count - 1]] not in b",]" else count

    def again(self, *, was_tried: bool) -> "Window":
        """This window after the same data were encoded again; ``was_tried``: as its shape did not hold."""
        if self.equals > _TRIES_MAX or (self.equals and not was_tried):
            return self
        equals = self.equals + 1
        may_be_kept = equals <= _TRIES_MAX and len(self.data) >= STATE_SHAPE_BYTES_MIN
        return Window(self.data, self.items, self.ends, equals, None, may_be_kept)


class Cuts(NamedTuple):
    """Where the runs of a sequence end, their identities, and how many elements each of them holds."""

    ends: list[int]
    runs: list[bytes]
    counts: list[int]

    def upto(self, size: int) -> "Cuts":
        """The runs that stay valid if the sequence is the same up to there.

        The last run may grow, so it is left out.
        """
        count = min(bisect_right(self.ends, size), max(len(self.ends) - 1, 0))
        return Cuts(self.ends[:count], self.runs[:count], self.counts[:count])


class Beginning:
    """The hash of all windows of a list but the last one, which may grow."""

    __slots__ = ("count", "state")

    def __init__(self, count: int, state: Any) -> None:
        self.count = count
        self.state = state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Beginning) and self.state.digest() == other.state.digest()

    __hash__ = None  # type: ignore[assignment]


class Long(NamedTuple):
    """A long list or object as it was planted last time."""

    windows: list[Window]
    cuts: list[Cuts]
    """Of the elements, of their runs, and so on."""
    known: tuple[bytes, ...] = ()
    """The secrets that were known: none of them is in the windows."""
    beginning: Beginning | None = None

    @property
    def may_be_kept(self) -> bool:
        """Whether one of its windows may be."""
        return True in [window.may_be_kept for window in self.windows]

    def upto(self, size: int) -> list[Cuts]:
        """The cuts that stay valid if the sequence is the same up to there."""
        found: list[Cuts] = []
        for cuts in self.cuts:
            if not size:
                break
            found.append(cuts.upto(size))
            size = len(found[-1].runs)
        return found


def hashed(
    kind: bytes, windows: Sequence[Window], last: Beginning | None, same: int
) -> tuple[bytes, Beginning]:
    """The identity of a list of several windows, and its beginning. ``same`` windows are as they were."""
    count, state = 0, sha256(kind + b"\n")
    if last is not None and last.count <= same:
        count, state = last.count, last.state.copy()
    for window in windows[count:-1]:
        state.update(b",".join(window.items) + b",")
    beginning = Beginning(len(windows) - 1, state.copy())
    state.update(b",".join(windows[-1].items))
    return b"#" + state.digest(), beginning


UNCUT: Final = Cuts([], [], [])
UNSEEN: Final = Window(b"", [], [])
NEVER: Final = Long([], [])
