"""Artifacts: the files a run made, version by version, and what became of them on disk."""

from typing import Final, Literal, NamedTuple

Copied = Literal["kept", "none", "pruned"]
"""Whether the store has a version's content: it does, it was never to, or it went with the history around it."""

OnDisk = Literal["as recorded", "changed", "missing", "an orphan", "unknown"]
"""A file beside its record. An orphan was written by an attempt that was killed before it could record it."""

Outcome = Literal["written", "there already", "kept", "no copy", "left", "refused"]
"""What restoring made of a file. ``kept``: it was changed outside, and is as it was found; ``left``: made after that point."""


class Version(NamedTuple):
    """One content of one path, as recorded. Equal content declared again is no new version."""

    path: str
    number: int
    seq: int
    at: float
    point: int
    step: str
    """The step that made it: the one it was declared in, or the last before; empty where there was none."""
    place: str
    """Where it lay, as a whole path."""
    inner: str
    """Where it lies below a directory that files are restored to."""
    size_bytes: int
    sha256: str
    mode: int
    copy: Copied
    blobs: tuple[str, ...] = ()
    """The addresses of its pieces, in order."""


class Underway(NamedTuple):
    """A file that an attempt began to write and has not recorded; with a hash, it was about to be put in its place."""

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
    """The latest version of a path, how many there are, and how the file on disk compares."""

    version: Version
    versions: int
    place: str
    """Where the run looks for it now: elsewhere than where it was made, if its files were brought back there."""
    on_disk: OnDisk
    text: str = ""
    """What differs, in a few words."""


class Restored(NamedTuple):
    """What restoring made of one file."""

    path: str
    number: int
    place: str
    outcome: Outcome
    text: str = ""


class Stray(NamedTuple):
    """A file that no run's record names. ``text`` says what is known of it all the same."""

    place: str
    size_bytes: int
    text: str = ""


NOT_KEPT: Final[dict[str, str]] = {
    "none": "has no copy: it was tracked by its hash alone (keep=False, or a directory)",
    "pruned": "has no copy any more: that went when the history around it was compacted",
}

NO_SUCH_FILE: Final = "is no file that it had made by then"
