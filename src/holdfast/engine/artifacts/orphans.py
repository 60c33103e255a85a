"""Finds what killed attempts have left of the files they were writing: temporary files and orphans.

The journal names every file before it is begun, and its hash before it is renamed into place. So the next
attempt knows where to look. It removes a temporary file, which it recognises by its name. A file with the
announced hash, without a temporary file and without a record, is an orphan: it was renamed, and the process
was killed before it recorded the version. The attempt records and logs an orphan and relies on it as it is,
until the program writes it again.

Crash window: one append records the orphan and the premise that the run relies on from then on.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.artifacts.versions import ARTIFACTS
from holdfast.core.premises.noted_premises import PREMISES
from holdfast.core.premises.premises import NOTHING, orphaned
from holdfast.engine.artifacts import file_operations
from holdfast.engine.log import log
from holdfast.engine.premises import probes
from holdfast.engine.premises.premises import ATTEMPT_PREMISES, as_found, finding_of, look_aside, note_of
from holdfast.engine.run.features import Feature
from holdfast.engine.sync_async import Runtime
from holdfast.errors import PremiseMissing
from holdfast.model.artifacts import Underway
from holdfast.model.premises import Act, Broken, Judged, Premise

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View
    from holdfast.engine.run.held_run import HeldRun

_PREFIX = ".holdfast-"
_SAFE = re.compile(r"[^A-Za-z0-9._-]")
_RUN_CHARS = 60


def temp_name(run: str, attempt: int, token: str) -> str:
    """The name of a temporary file, which contains the run and the attempt."""
    return f"{_PREFIX}{_SAFE.sub('_', run)[:_RUN_CHARS]}-{attempt}-{token}.tmp"


def is_temp(name: str) -> bool:
    """Whether a name is one of our temporary files."""
    return name.startswith(_PREFIX) and name.endswith(".tmp")


class Orphans(Feature):
    """Looks for orphans when a run is resumed."""

    async def entered(self, runtime: Runtime) -> None:
        """Look for orphans before the premises are checked: that would report them as foreign changes."""
        if self.held.resumed and ARTIFACTS.of(self.held.view).under_way:
            ATTEMPT_PREMISES.of(self.held).orphans = await report(self.held, runtime)


async def report(held: "HeldRun", runtime: Runtime) -> list[Judged]:
    """Record and log the orphans, then remove temporary files. PremiseMissing if an orphan pauses the run."""
    view = held.view
    begun = list(ARTIFACTS.of(view).under_way.values())
    found: list[tuple[Underway, Judged]] = await look_aside(
        runtime, find_orphans, view, ATTEMPT_PREMISES.of(held).policies
    )
    for one, judged in found:
        await _record(held, runtime, one, judged)
    await look_aside(runtime, _remove_temps, begun)
    if any(judged.act == "pause" for _, judged in found):
        first = next(judged for _, judged in found if judged.act == "pause")
        raise PremiseMissing(
            run=held.run,
            premise=first.premise.id,
            recorded="as its program writes it",
            problem=first.text,
            verdict=first.verdict,
            accept=first.premise.id,
        )
    return [judged for _, judged in found]


def find_orphans(view: "View", policies: Mapping[str, Act]) -> list[tuple[Underway, Judged]]:
    """The orphans among the files that attempts were writing, each judged. Only reads."""
    found: dict[str, tuple[Underway, Judged]] = {}
    for begun in ARTIFACTS.of(view).under_way.values():
        latest = ARTIFACTS.of(view).find(begun.path)
        if not begun.sha256 or (latest is not None and latest.sha256 == begun.sha256):
            continue
        if os.path.lexists(begun.temp):
            continue  # killed before the rename: whatever has that name is an older file
        facts = probes.look_at_place(begun.place).facts
        if facts is not None and facts.get("sha256") == begun.sha256:
            noted = PREMISES.of(view).get(f"artifact:{begun.path}")
            premise = noted or Premise("artifact", begun.path, dict(NOTHING))
            found[begun.path] = begun, orphaned(premise, facts, begun.attempt, policies)
    return list(found.values())


async def _record(held: "HeldRun", runtime: Runtime, begun: Underway, judged: Judged) -> None:
    """Record an orphan together with the new premise.

    In two appends, a kill between them would make the run stop at its own orphan as at a changed file.
    """
    view, journal = held.view, held.journal
    assert journal is not None
    drafts = [finding_of(judged, orphan_of=begun.key)]
    is_noted = judged.premise.seq > 0 and judged.act != "pause"
    now = as_found(judged)
    if is_noted:
        drafts.append(note_of(now, {"via": "found"}))
    seq = await journal.append(runtime, drafts, held.clock.wall(), synced=False)
    PREMISES.of(view).broken[judged.premise.id] = Broken(seq, judged.verdict, judged.found, judged.act)
    if is_noted:
        PREMISES.of(view)[now.id] = now._replace(seq=seq)
    ARTIFACTS.of(view).under_way.pop(begun.key, None)
    ARTIFACTS.of(view).orphans[begun.path] = seq
    if judged.act != "ignore":
        log().warning("run %s: %s %s", held.run, judged.premise.id, judged.text)


def _remove_temps(begun: list[Underway]) -> None:
    for one in begun:
        directory, name = os.path.split(one.temp)
        if is_temp(name):
            with suppress(OSError), file_operations.directory(directory) as held:
                file_operations.remove(held, name)
