"""Records the files that a run made: reads each, copies it into the store and records a version of it.

Invariant: the pieces of a copy are in the store before the event that names them, or in the same append.
Crash window: killed in between, no event names the pieces, and the next prune removes them. ``write`` puts
files on disk. The record of a version is also a premise, which ``premises`` checks in the next attempt.
"""

# ruff: noqa: PTH109, PTH114, PTH116, PTH118 - pathlib is not loaded for a few names
import os
import stat
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from holdfast.codec.blobs import address_of, pack
from holdfast.core.artifacts.versions import ARTIFACTS
from holdfast.core.state.chunking import chunks
from holdfast.engine.artifacts import file_operations
from holdfast.engine.artifacts.workspace import ResolvedPath, refused_on_the_way, spot_at, spot_in
from holdfast.engine.journal.drafts import Draft
from holdfast.engine.premises import probes
from holdfast.engine.premises.premises import ATTEMPT_PREMISES, asked_path, look_aside, note_declared, note_of
from holdfast.engine.run.inputs import roots_of
from holdfast.engine.steps.marks import given, placed, record
from holdfast.engine.sync_async import Runtime
from holdfast.errors import ArtifactTooLarge, Misuse
from holdfast.limits import ARTIFACT_BYTES_MAX, PREMISE_BYTES_MAX
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.premises import Facts, Premise
from holdfast.model.store_rows import Blob

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.steps.call_identity import RequestedCall

_ATTACHED_BYTES_MAX: Final = 512_000
"""A copy up to this size goes into the store with the event that names it."""


class Content(NamedTuple):
    """The content of a file as the journal records it, and the blobs to store with the record."""

    size_bytes: int
    sha256: str
    mode: int
    pieces: tuple[str, ...] | None
    """The addresses of its copy; None where none is kept."""
    blobs: tuple[Blob, ...] = ()

    def fields(self) -> dict[str, Any]:
        """The fields of the event besides the facts of the premise."""
        fields: dict[str, Any] = {"mode": self.mode}
        return fields if self.pieces is None else {**fields, "blobs": list(self.pieces)}


async def artifact(held: "HeldRun", runtime: Runtime, path: "str | os.PathLike[str]", *, keep: bool) -> None:
    """Record a file that the run has made; a resumed attempt checks it. Synced on return.

    May raise PathRefused, ArtifactTooLarge; Misuse where there is no such file.
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
    """The facts of what is at the path now, and the content if it is a plain file."""
    roots = roots_of(held.view)
    whole = os.path.normpath(os.path.join(os.getcwd(), text))
    spot = spot_in("artifact", text, roots, is_there=True) if roots else spot_at(whole)
    if not _is_plain(spot.at):
        found = probes.look_at_place(spot.at)
        if found.facts is None:
            raise Misuse(
                problem=f"run.artifact({text!r}): it {found.problem.removesuffix(' any more')}",
                advice="write the file first; "
                "what the run needs and did not make is declared with run.depends_on(path)",
            )
        return spot, {**found.facts, **_in_workspace(spot)}, None
    try:
        with file_operations.directory(spot.root, spot.below) as directory:
            fd = file_operations.open_to_read(directory, spot.file)
    except OSError as error:
        raise refused_on_the_way("artifact", text, error, spot) from error
    try:
        if not file_operations.is_file(fd):  # replaced between the check above and the open
            raise Misuse(problem=f"run.artifact({text!r}): {spot.at} is no plain file", advice="name a file")
        content = content_of(held, spot, fd, keep=keep)
    finally:
        os.close(fd)
    return spot, facts_of(spot, content), content


def content_of(held: "HeldRun", spot: ResolvedPath, fd: int, *, keep: bool) -> Content:
    """The content of an open file, copied if ``keep``. ArtifactTooLarge before the file is read."""
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
            _check_room(held, spot, size)  # again, because the file may grow while it is read
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
        others = f"together with the copies that run {held.run} keeps already,"
        what = f"artifact {spot.name} ({size:,} bytes), {others}"
        raise ArtifactTooLarge(what=what, path=spot.at, size=kept + size, size_max=limit, unit="bytes")


def _copied(
    held: "HeldRun", data: bytes, stored: AbstractSet[str]
) -> tuple[tuple[str, ...], tuple[Blob, ...]]:
    """The addresses of the pieces, and the blobs to append with the event that names them.

    Pieces in ``stored`` are not written again. A large copy is stored here in batches: appends are bounded.
    """
    found = [(address_of(piece), piece) for piece in chunks(data)]
    new = {address: piece for address, piece in found if address not in stored}
    addresses = tuple(address for address, _ in found)
    if sum(map(len, new.values())) <= _ATTACHED_BYTES_MAX:
        blobs = [Blob(address, pack(piece)) for address, piece in new.items()]
    else:
        from holdfast.engine.transfer.blob_batch import Blobs  # late: most programs never import a run

        batches = Blobs(held.session)
        for address, piece in new.items():
            batches.put(address, piece)
        batches.flush()
        blobs = [Blob(address) for address in new]
    # Named again, so that a prune cannot remove them before the event refers to them.
    return addresses, (*blobs, *(Blob(address) for address in {*addresses} - new.keys()))


# -- the record ----------------------------------------------------------------------------------------------


def facts_of(spot: ResolvedPath, content: Content) -> Facts:
    """The facts of the premise that the file stays as it is."""
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
    """The call that made a file: the enclosing step, or the last call before."""
    return asked.here.scope.partition(":")[0] or after


def draft_of(asked: "RequestedCall", spot: ResolvedPath, facts: Facts, content: Content | None) -> Draft:
    """The event that records a version."""
    more = {"inner": spot.inner, **(content.fields() if content is not None else {})}
    event = note_of(Premise("artifact", spot.name, facts), placed(asked, more))
    return event._replace(key=asked.key, blobs=content.blobs if content is not None else ())


def note_version(held: "HeldRun", event: Draft, seq: int) -> None:
    """Add a version that is in the journal to the view."""
    body = contents_of(event.body)
    note_declared(held, Premise("artifact", body["name"], body["facts"]), seq)
    recorded = Event(seq, held.clock.wall(), event.kind, event.name, event.key, 0, event.body, 0)
    made = ARTIFACTS.of(held.view)
    made.noted(recorded, held.points, held.view.calls, held.view.last_step)
