"""The files of a run for people: the latest of each, their versions, and the difference of two versions."""

from collections.abc import Iterable, Mapping
from difflib import unified_diff
from typing import Final

from holdfast.model.artifacts import Artifact, Restored, Version
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.value_text import size

DIFF_BYTES_MAX: Final = 2_000_000
"""A larger text is not compared line by line."""


class ArtifactLine(NamedTuple):
    """A file of a run: its latest version, how many there are, and how the file on disk compares."""

    path: str
    version: int
    versions: int
    size_bytes: int
    sha256: str
    step: str
    point: int
    seq: int
    at: float
    copy: str
    place: str
    on_disk: str
    text: str


class VersionLine(NamedTuple):
    """One version of a file."""

    path: str
    version: int
    size_bytes: int
    sha256: str
    step: str
    point: int
    seq: int
    at: float
    copy: str


class Side(NamedTuple):
    """One of two versions that are compared; without a number, there was no such file."""

    version: int | None
    size_bytes: int
    sha256: str


class FileDiff(NamedTuple):
    """The difference of two versions of a file.

    ``how``: same, added, removed, changed; ``lines`` for texts.
    """

    path: str
    how: str
    a: Side
    b: Side
    lines: tuple[str, ...]
    text: str
    """Why a difference has no lines."""


def artifact_lines(artifacts: Iterable[Artifact]) -> list[ArtifactLine]:
    """The files, one per line."""
    return [
        ArtifactLine(
            a.version.path,
            a.version.number,
            a.versions,
            a.version.size_bytes,
            a.version.sha256,
            a.version.step,
            a.version.point,
            a.version.seq,
            a.version.at,
            a.version.copy,
            a.place,
            a.on_disk,
            a.text,
        )
        for a in artifacts
    ]


def version_lines(versions: Iterable[Version]) -> list[VersionLine]:
    """The versions, one per line."""
    return [
        VersionLine(v.path, v.number, v.size_bytes, v.sha256, v.step, v.point, v.seq, v.at, v.copy)
        for v in versions
    ]


def differs(artifacts: Iterable[Artifact]) -> bool:
    """Whether a file differs from its record."""
    return any(artifact.on_disk in {"changed", "missing", "an orphan"} for artifact in artifacts)


def is_whole(restored: Iterable[Restored]) -> bool:
    """Whether every file was restored."""
    return all(one.outcome in {"written", "there already", "left"} for one in restored)


def changes(
    before: Mapping[str, Version],
    after: Mapping[str, Version],
    contents: Mapping[str, bytes],
    names: tuple[str, str],
) -> list[FileDiff]:
    """The differences between two sets of files, whose titles are ``names``.

    ``contents`` has the contents that could be read, by hash.
    """
    return [
        _change(path, before.get(path), after.get(path), contents, names)
        for path in sorted(before.keys() | after.keys())
    ]


def _change(
    path: str,
    a: Version | None,
    b: Version | None,
    contents: Mapping[str, bytes],
    names: tuple[str, str],
) -> FileDiff:
    sides = _side(a), _side(b)
    if a is None or b is None:
        how = "added" if a is None else "removed"
    else:
        how = "same" if a.sha256 == b.sha256 else "changed"
    if how == "same":
        return FileDiff(path, how, *sides, (), "")
    texts = [_text(version, contents) for version in (a, b)]
    if texts[0] is None or texts[1] is None:
        return FileDiff(path, how, *sides, (), _why_not(a, b, contents))
    old, new = ((text or "").splitlines() for text in texts)
    lines = unified_diff(old, new, f"{path} ({names[0]})", f"{path} ({names[1]})", lineterm="")
    return FileDiff(path, how, *sides, tuple(lines), "")


def _side(version: Version | None) -> Side:
    return Side(None, 0, "") if version is None else Side(version.number, version.size_bytes, version.sha256)


def _text(version: Version | None, contents: Mapping[str, bytes]) -> str | None:
    if version is None:
        return ""
    data = contents.get(version.sha256)
    if data is None or len(data) > DIFF_BYTES_MAX or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _why_not(a: Version | None, b: Version | None, contents: Mapping[str, bytes]) -> str:
    versions = [version for version in (a, b) if version is not None]
    if any(version.sha256 not in contents for version in versions):
        return "no copy of both is kept"
    told = [f"{size(version.size_bytes)}, sha256 {version.sha256[:12]}" for version in versions]
    return f"no text, or too long for one: {' -> '.join(told)}"
