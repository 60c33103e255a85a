"""Artifacts: the files a run made, their versions, and their state on disk."""

from typing import Final, Literal

from holdfast.model.named_tuple import NamedTuple

Copied = Literal["kept", "none", "pruned"]
"""Whether the store has a version's content: kept, never copied, or pruned with the history around it."""

OnDisk = Literal["as recorded", "changed", "missing", "an orphan", "unknown"]
"""A file compared with its record.

An orphan was written by an attempt that was killed before recording it.
"""

Outcome = Literal["written", "there already", "kept", "no copy", "left", "refused"]
"""What restoring did with a file.

``kept``: it was changed outside, and stays; ``left``: made after that point.
"""


class Version(NamedTuple):
    """One recorded content of one path. Equal content declared again is not a new version."""

    path: str
    number: int
    seq: int
    at: float
    point: int
    step: str
    """The step that made it: the one it was declared in, or the last before; empty if there was none."""
    place: str
    """Its absolute path when it was recorded."""
    inner: str
    """Its path below a directory that files are restored to."""
    size_bytes: int
    sha256: str
    mode: int
    copy: Copied
    blobs: tuple[str, ...] = ()
    """The addresses of its pieces, in order."""


class Underway(NamedTuple):
    """A file that an attempt started to write and has not recorded.

    With a hash, it was about to be moved to its place.
    """

    key: str
    seq: int
    path: str
    place: str
    temp: str
    """The name of the temporary file beside it."""
    attempt: int
    size_bytes: int = 0
    sha256: str = ""


class Artifact(NamedTuple):
    """The latest version of a path, the number of versions, and how the file on disk compares."""

    version: Version
    versions: int
    place: str
    """Where the run looks for it now. It differs from the recorded path if files were restored elsewhere."""
    on_disk: OnDisk
    text: str = ""
    """The difference in a few words."""


class Restored(NamedTuple):
    """What restoring did with one file."""

    path: str
    number: int
    place: str
    outcome: Outcome
    text: str = ""


class Stray(NamedTuple):
    """A file that no record names. ``text`` says what else is known of it."""

    place: str
    size_bytes: int
    text: str = ""


NOT_KEPT: Final[dict[str, str]] = {
    "none": "has no copy: it was tracked by its hash alone (keep=False, or a directory)",
    "pruned": "has no copy any more: that went when the history around it was compacted",
}

NO_SUCH_FILE: Final = "is no file that it had made by then"
