"""Files a run made: what they hold is read, copied into the store and recorded, version by version.

The copy comes first: its pieces are in the store before the event that names them, or with it. Crash windows: killed in
between, the pieces belong to nobody and go with the next prune. How a file gets on disk is ``writing``'s business; what a
file means to the next attempt, that of ``premising``: the record of a version is a premise.
"""

# ruff: noqa: PTH109, PTH114, PTH116, PTH118 - pathlib is not loaded for a few names
import os
import stat
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.codec.blobs import address_of, pack
from holdfast.core.artifacts.versions import ARTIFACTS
from holdfast.core.state.chunking import chunks
from holdfast.engine.artifacts import file_operations
from holdfast.engine.artifacts.workspace import ResolvedPath, refused_on_the_way, spot_at, spot_in
from holdfast.engine.journal.journal import Draft
from holdfast.engine.premises import probes
from holdfast.engine.premises.premises import ATTEMPT_PREMISES, asked_path, look_aside, note_declared, note_of
from holdfast.engine.run.inputs import roots_of
from holdfast.engine.steps.marks import given, placed, record
from holdfast.engine.sync_async import Runtime
from holdfast.errors import ArtifactTooLarge, Misuse
from holdfast.limits import ARTIFACT_BYTES_MAX, PREMISE_BYTES_MAX
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event
from holdfast.model.premises import Facts, Premise
from holdfast.model.store_rows import Blob

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.steps.call_identity import RequestedCall

_ATTACHED_BYTES_MAX: Final = 512_000
"""A copy up to this size goes into the store with the event that names it."""


class Content(NamedTuple):
    """What a file holds: as much of it as is recorded, and what goes into the store with the record."""

    size_bytes: int
    sha256: str
    mode: int
    pieces: tuple[str, ...] | None
    """The addresses of its copy; None where none is kept."""
    blobs: tuple[Blob, ...] = ()

    def fields(self) -> dict[str, Any]:
        """What an event says of it beside its facts."""
        told: dict[str, Any] = {"mode": self.mode}
        return told if self.pieces is None else {**told, "blobs": list(self.pieces)}


async def artifact(held: "HeldRun", runtime: Runtime, path: "str | os.PathLike[str]", *, keep: bool) -> None:
    """The run has made this file: what it holds now is what a resumed attempt finds, or is told. Synced when it returns.

    PathRefused; ArtifactTooLarge; Misuse where there is no such file.
    """
    text, asked = asked_path(held, "artifact", path)
    try:
        if given(held, asked) is not None:
            return
        try:
            held.require_journal(asked.name)
            spot, facts, content = await look_aside(runtime, _take, held, text, keep)
        except BaseException:
            held.unclaim(asked.site, asked.n)
            raise
        event = draft_of(asked, spot, {**facts, "step": maker_of(asked, asked.point.after)}, content)
        note_version(held, event, await record(held, runtime, asked, event))
    finally:
        held.land(asked.site)


def _take(held: "HeldRun", text: str, keep: bool) -> tuple[ResolvedPath, Facts, Content | None]:
    """What lies there now, and of a file its content."""
    roots = roots_of(held.view)
    whole = os.path.normpath(os.path.join(os.getcwd(), text))
    spot = spot_in("artifact", text, roots, is_there=True) if roots else spot_at(whole)
    if not _is_plain(spot.at):
        found = probes.look_at_place(spot.at)
        if found.facts is None:
            raise Misuse(
                problem=f"run.artifact({text!r}): it {found.problem.removesuffix(' any more')}",
                advice="write the file first; what the run needs and did not make is declared with run.depends_on(path)",
            )
        return spot, {**found.facts, **_in_workspace(spot)}, None
    try:
        with file_operations.directory(spot.root, spot.below) as directory:
            fd = file_operations.open_to_read(directory, spot.file)
    except OSError as error:
        raise refused_on_the_way("artifact", text, error, spot) from error
    try:
        if not file_operations.is_file(fd):  # it was replaced since it was looked at
            raise Misuse(problem=f"run.artifact({text!r}): {spot.at} is no plain file", advice="name a file")
        content = content_of(held, spot, fd, keep=keep)
    finally:
        os.close(fd)
    return spot, facts_of(spot, content), content


def content_of(held: "HeldRun", spot: ResolvedPath, fd: int, *, keep: bool) -> Content:
    """What an open file holds, with a copy of it if one is to be kept. ArtifactTooLarge before it is read."""
    known = os.fstat(fd)
    if keep:
        _check_room(held, spot, known.st_size)
    elif known.st_size > PREMISE_BYTES_MAX:
        return Content(known.st_size, "", stat.S_IMODE(known.st_mode), None)
    digest, size, parts = sha256(), 0, []
    for part in file_operations.read(fd):
        digest.update(part)
        size += len(part)
        if keep:
            _check_room(held, spot, size)  # it may grow while it is read
            parts.append(part)
    content = Content(size, digest.hexdigest(), stat.S_IMODE(known.st_mode), None)
    if not keep:
        return content
    latest = ARTIFACTS.of(held.view).find(spot.name)
    stored = set(latest.blobs) if latest is not None else set()
    pieces, blobs = _copied(held, b"".join(parts), stored)
    return content._replace(pieces=pieces, blobs=blobs)


def _check_room(held: "HeldRun", spot: ResolvedPath, size: int) -> None:
    limit = ATTEMPT_PREMISES.of(held).copies_bytes_max
    if size > ARTIFACT_BYTES_MAX:
        raise ArtifactTooLarge(
            what=f"artifact {spot.name}", path=spot.at, size=size, size_max=ARTIFACT_BYTES_MAX, unit="bytes"
        )
    kept = ARTIFACTS.of(held.view).kept_bytes
    if kept + size > limit:
        what = f"artifact {spot.name} ({size:,} bytes), together with the copies that run {held.run} keeps already,"
        raise ArtifactTooLarge(what=what, path=spot.at, size=kept + size, size_max=limit, unit="bytes")


def _copied(
    held: "HeldRun", data: bytes, stored: AbstractSet[str]
) -> tuple[tuple[str, ...], tuple[Blob, ...]]:
    """The addresses of a content's pieces, and the blobs to append with the event that names them.

    Of a version that is ``stored``, only what is new is written. A large copy is put into the store here, in batches: an
    append is no place for it.
    """
    found = [(address_of(piece), piece) for piece in chunks(data)]
    new = {address: piece for address, piece in found if address not in stored}
    addresses = tuple(address for address, _ in found)
    if sum(map(len, new.values())) <= _ATTACHED_BYTES_MAX:
        blobs = [Blob(address, pack(piece)) for address, piece in new.items()]
    else:
        from holdfast.engine.transfer.import_ import Blobs  # of which most programs need nothing

        batches = Blobs(held.session)
        for address, piece in new.items():
            batches.put(address, piece)
        batches.flush()
        blobs = [Blob(address) for address in new]
    return addresses, (*blobs, *(Blob(address) for address in {*addresses} - new.keys()))


# -- the record ----------------------------------------------------------------------------------------------------


def facts_of(spot: ResolvedPath, content: Content) -> Facts:
    """What the run relies on from here: the file as it is."""
    facts: Facts = {"at": spot.at, "is": "file", "bytes": content.size_bytes}
    if os.path.islink(spot.at):
        facts["link"] = True
    if content.sha256:
        facts["sha256"] = content.sha256
    return {**facts, **_in_workspace(spot)}


def _in_workspace(spot: ResolvedPath) -> Facts:
    return {"workspace": True} if spot.is_declared else {}


def _is_plain(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and not probes.is_of_open_store(found)


def maker_of(asked: "RequestedCall", after: str) -> str:
    """The call that made a file: the step that it is declared in, or the last one before."""
    return asked.here.scope.partition(":")[0] or after


def draft_of(asked: "RequestedCall", spot: ResolvedPath, facts: Facts, content: Content | None) -> Draft:
    """The event that records a version."""
    more = {"inner": spot.inner, **(content.fields() if content is not None else {})}
    event = note_of(Premise("artifact", spot.name, facts), placed(asked, more))
    return event._replace(key=asked.key, blobs=content.blobs if content is not None else ())


def note_version(held: "HeldRun", event: Draft, seq: int) -> None:
    """The version is in the journal: this attempt counts on from it."""
    body = contents_of(event.body)
    note_declared(held, Premise("artifact", body["name"], body["facts"]), seq)
    recorded = Event(seq, held.clock.wall(), event.kind, event.name, event.key, 0, event.body, 0)
    made = ARTIFACTS.of(held.view)
    made.noted(recorded, held.points, held.view.calls, held.view.last_step)
