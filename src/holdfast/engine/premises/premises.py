"""Notes premises as the program reaches them, checks them when the run is resumed, and acts on the verdicts.

A declaration (``depends_on``, or an artifact) is recorded with its call site and consumed by a replay like a
mark. A replay does not look again: a file that was tampered with would become its own premise. Code is noted
in the intent of the first call of a function, which costs no write of its own. Packages are in the attempt's
record, a model is in its calls.

Crash window: a broken premise is recorded before the run stops for it. Killed in between, the next attempt
finds it again.
"""

# ruff: noqa: PTH109, PTH118, PTH119 - pathlib is not loaded for a few names
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from holdfast.codec.values import canonical
from holdfast.core.journal.event_check import UNSOUND
from holdfast.core.premises.noted_premises import PREMISES
from holdfast.core.premises.premises import (
    NOTHING,
    act_on,
    check_act,
    is_absence,
    is_broken,
    judge,
)
from holdfast.core.premises.source_change import without_texts
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.log import log
from holdfast.engine.premises import probes
from holdfast.engine.premises.attempt_premises import LOADED_BY, AttemptPremises
from holdfast.engine.run.features import Slot
from holdfast.engine.run.inputs import roots_of
from holdfast.engine.run.store_session import masked
from holdfast.engine.steps.marks import ask, given, placed, record
from holdfast.engine.sync_async import Runtime
from holdfast.errors import BadName, Misuse, PremiseMissing
from holdfast.limits import APPEND_EVENTS_MAX
from holdfast.model.calls import CallOptions
from holdfast.model.events import Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.premises import (
    PLACES,
    WORLD,
    Act,
    Broken,
    Facts,
    Judged,
    Observation,
    Premise,
)

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.steps.call_identity import RequestedCall
    from holdfast.engine.steps.step import Work
    from holdfast.model.store_rows import Record

_LATER: Final = "is checked when the program comes to it"
_ANY_MORE: Final = " any more"
_OUTSIDE: Final = PLACES | {"endpoint"}


class Premises(AttemptPremises):
    """The premises of one held run."""

    async def entered(self, runtime: Runtime) -> None:
        """Check the premises of a resumed run before its program runs."""
        if self.held.resumed:
            await check(self.held, runtime)

    def meet(
        self, runtime: Runtime, call_options: CallOptions, name: str, fn: Callable[..., Any]
    ) -> "Coroutine[Any, Any, None] | None":
        """Check the function of a call; None where this attempt has checked it before."""
        if self.met.get(name, self) is getattr(fn, "__code__", None):
            return None
        return meet(self.held, runtime, call_options, name, fn)

    def intent(self, work: "Work", fields: dict[str, Any]) -> dict[str, Any]:
        """Put new premises of the function first in its intent, so that a fold need not parse the rest."""
        if not self.to_note or work.call_options.effect == "model":
            return fields
        noted = self.to_note.pop(work.asked.name, None)
        return fields if noted is None else {"noted": notes(noted), **fields}

    async def letter(self, runtime: Runtime, record: "Record", letter: dict[str, Any]) -> None:
        """Record that a person accepts a premise as it is now. The run relies on that from then on."""
        held, premise = self.held, accepted_in(letter)
        assert held.journal is not None
        event = note_of(premise, {"via": "person", "by": letter["by"]})
        seq = await held.journal.append(runtime, [event], held.clock.wall(), consumed=(record.key,))
        note_declared(held, premise, seq)


ATTEMPT_PREMISES: Final = Slot("premises", Premises)


def accepted_in(letter: dict[str, Any]) -> Premise:
    """The premise that a letter accepts, with the facts that its writer found; without facts, any will do."""
    return Premise(letter["premise"], letter["name"], letter["facts"], letter["policy"])


# -- declared by the program ---------------------------------------------------------------------------------


async def depends_on(
    held: "HeldRun", runtime: Runtime, path: "str | os.PathLike[str]", on_change: Act | None
) -> None:
    """Declare that the run relies on a file, a directory or an endpoint. Flushed on return.

    PremiseMissing if it is not there.
    """
    if on_change is not None:
        check_act("on_change", on_change)
    text, asked = asked_path(held, "depends_on", path)
    try:
        if given(held, asked) is not None:
            return
        if probes.is_address(text):
            premise = Premise("endpoint", probes.address_of(text)[0], None, on_change)
            found = await look_aside(runtime, probes.reach, text)
        else:
            premise, found = await look_aside(runtime, _look_at_path, held, text)
            premise = premise._replace(policy=on_change)
        noted = PREMISES.of(held.view).get(premise.id)
        if found.facts is None and (noted is None or not is_absence(noted)):
            await _declared_missing(held, runtime, asked, premise, found)
        await _declare(held, runtime, asked, premise, found.facts or NOTHING)
    finally:
        held.land(asked.site)


def asked_path(held: "HeldRun", name: str, path: "str | os.PathLike[str]") -> "tuple[str, RequestedCall]":
    text = os.fsdecode(path)
    if not text:
        raise Misuse(problem=f"run.{name}({path!r}): that is no path", advice="name a file")
    if masked(text) != text and not probes.is_address(
        text
    ):  # masked, it would name another file; the next attempt would miss this one
        raise BadName(
            what="file", name=masked(text), problem="has a secret in it, and is stored in clear",
            length_max=len(text), advice="name the file after what is in it",
        )  # fmt: skip
    return text, ask(held, name, canonical({"path": text}, what=f"path of run.{name}"))


def _look_at_path(held: "HeldRun", text: str) -> tuple[Premise, Observation]:
    cwd, roots = os.getcwd(), roots_of(held.view)
    name = probes.name_of(text, cwd)
    found = probes.look_at_place(probes.find_place(name, (cwd, *roots)))
    if found.facts is not None and any(found.facts["at"].startswith(os.path.join(r, "")) for r in roots):
        found.facts["workspace"] = True
    return Premise("file", name, None), found


async def _declare(
    held: "HeldRun", runtime: Runtime, asked: "RequestedCall", premise: Premise, facts: Facts
) -> None:
    premise = premise._replace(facts=facts)
    event = note_of(premise, placed(asked, {}))._replace(key=asked.key)
    seq = await record(held, runtime, asked, event, synced=False)
    note_declared(held, premise, seq)


def note_declared(held: "HeldRun", premise: Premise, seq: int) -> None:
    """Add a recorded declaration to the view. It replaces an earlier verdict about the same premise."""
    PREMISES.of(held.view).note(premise._replace(seq=seq))
    PREMISES.of(held.view).broken.pop(premise.id, None)


async def _declared_missing(
    held: "HeldRun", runtime: Runtime, asked: "RequestedCall", premise: Premise, found: Observation
) -> None:
    """Act on a dependency that is missing when it is declared."""
    judged = act_on(judge(premise, found), ATTEMPT_PREMISES.of(held).policies)
    judged = judged._replace(text=judged.text.removesuffix(_ANY_MORE))
    held.require_journal(asked.name)
    await _append(held, runtime, [finding_of(judged)])
    if judged.act == "pause":
        held.unclaim(asked.site, asked.n)
        raise _missing(held, [judged])
    if judged.act == "warn":
        log().warning("run %s relies on %s, which %s", held.run, premise.id, judged.text)


# -- met as the program runs ---------------------------------------------------------------------------------


async def meet(
    held: "HeldRun", runtime: Runtime, call_options: CallOptions, name: str, fn: Callable[..., Any]
) -> None:
    """Compare a function, when this attempt first calls it, with the one that earlier attempts called."""
    reliance = ATTEMPT_PREMISES.of(held)
    code = reliance.met[name] = getattr(fn, "__code__", None)
    if (name, id(code)) in reliance.seen or held.journal is None:
        return
    reliance.seen[name, id(code)] = code  # held, so that no other code gets its id
    plain = probes.function_of(fn)
    if plain is None:
        return
    found: list[Premise] = []
    signature = probes.signature_of(plain) if call_options.is_tool else None
    if signature is not None:
        found.append(Premise("tool", name, {"signature": signature, "effect": call_options.effect}))
    newer: list[Premise] = []
    source = probes.source_of(plain, loaded_by=LOADED_BY)
    if source is not None:
        function = plain.__qualname__.replace("<locals>.", "")
        called = name if function == name else f"{name} ({function})"
        now = Premise("source", called, source)
        noted = PREMISES.of(held.view).get(now.id)
        if noted is not None and noted.facts is not None and "version" not in noted.facts:
            # Recorded by its tokens. It is compared that way, and the next intent records it by its tree.
            newer, now = [now], now._replace(facts=probes.tokens_of(plain, loaded_by=LOADED_BY))
        found.append(now)
    try:
        await settle(held, runtime, _compare(held, name, found))
        if newer:
            reliance.to_note.setdefault(name, []).extend(newer)
    except (
        PremiseMissing
    ):  # forgotten, so that a program that swallows the error is stopped at its next call, too
        del reliance.met[name], reliance.seen[name, id(code)]
        raise


def _compare(held: "HeldRun", step: str, found: list[Premise]) -> list[Judged]:
    """The broken premises among these. New ones are left for the step's next intent."""
    broken: list[Judged] = []
    for now in found:
        noted = PREMISES.of(held.view).get(now.id)
        if noted is None or noted.facts is None or not _is_same_function(noted.facts, now):
            ATTEMPT_PREMISES.of(held).to_note.setdefault(step, []).append(now)
            continue
        judged = act_on(judge(noted, Observation(now.facts)), ATTEMPT_PREMISES.of(held).policies)
        if is_broken(judged):
            # A changed declaration of a tool changes its source as well: one warning is enough.
            broken.append(judged._replace(act="ignore") if broken and judged.act == "warn" else judged)
    return broken


def _is_same_function(noted: Facts, now: Premise) -> bool:
    """Whether it is the same function. Another one under the same step name is not a change of the first."""
    if now.kind != "source" or now.facts is None:
        return True
    files = {os.path.basename(facts["file"]) for facts in (noted, now.facts)}
    return noted["function"] == now.facts["function"] and len(files) == 1


async def meet_model(held: "HeldRun", runtime: Runtime, name: str, model: str, provider: str) -> None:
    """Compare the model of the first call by this name with those that earlier attempts asked."""
    if name in ATTEMPT_PREMISES.of(held).models:
        return
    noted = PREMISES.of(held.view).get(f"model:{name}")
    if noted is not None and (model or provider):
        judged = judge(noted, Observation({"model": model, "provider": provider}))
        if is_broken(judged):
            await settle(held, runtime, [act_on(judged, ATTEMPT_PREMISES.of(held).policies)])
    ATTEMPT_PREMISES.of(held).models.add(name)


# -- looked at when a run is resumed -------------------------------------------------------------------------


async def check(held: "HeldRun", runtime: Runtime) -> None:
    """Check every premise that can be checked from here. PremiseMissing if one is to pause the run."""
    view, reliance = held.view, ATTEMPT_PREMISES.of(held)
    world = [premise for premise in PREMISES.of(view).values() if premise.kind in WORLD]
    takes_time = any(premise.kind in _OUTSIDE for premise in world)
    look = look_around, world, look_from(view), reliance.policies
    judged = await look_aside(runtime, *look) if takes_time else look_around(*look[1:])
    clock = judge(
        Premise("clock", "wall", {"at": held.last_at}, seq=held.entered_seq),
        Observation({"at": held.clock.wall()}),
    )
    clock = act_on(clock, reliance.policies)
    reliance.judged = (*with_orphans(judged, reliance.orphans), clock)
    # Broken in an earlier attempt and restored since: the journal has to say that the pause is over.
    healed = [one for one in judged if one.verdict == "holds" and _is_paused_by(view, one)]
    await _append(held, runtime, [note_of(one.premise, {"via": "restored"}) for one in healed])
    for one in healed:
        del PREMISES.of(view).broken[one.premise.id]
    await settle(held, runtime, [one for one in (*judged, clock) if is_broken(one)])


def with_orphans(judged: Iterable[Judged], orphans: Iterable[Judged]) -> tuple[Judged, ...]:
    """The verdicts, with those of orphans in place of "changed from outside"."""
    found = {one.premise.id: one for one in orphans}
    return (*found.values(), *(one for one in judged if one.premise.id not in found))


def look_around(
    premises: Iterable[Premise], look: "CheckLocation", policies: Mapping[str, Act]
) -> tuple[Judged, ...]:
    """Check and judge each premise, and decide the act that follows."""
    return tuple(act_on(judge(premise, look.at(premise)), policies) for premise in premises)


class CheckLocation(NamedTuple):
    """Where a check runs: the base directories of relative paths, and the program's interpreter."""

    bases: tuple[str, ...]
    python: str = sys.executable

    def at(self, premise: Premise) -> Observation:
        """The present state of a premise."""
        try:
            return self._at(premise, premise.facts or {})
        except UNSOUND:  # an imported premise may have any shape
            return Observation(None, "what is recorded of it makes no sense")

    def _at(self, premise: Premise, facts: Facts) -> Observation:
        if premise.kind in PLACES:
            return probes.look_at_place(probes.find_place(premise.name, self.bases, facts.get("at", "")))
        if premise.kind == "endpoint":
            return probes.reach(premise.name)
        if premise.kind == "package":
            return probes.look_at_package(premise.name, python=self.python)
        if premise.kind == "source" and facts:
            return probes.look_at_source(facts, self.bases)
        return Observation(None, _LATER)


def look_from(view: "View") -> CheckLocation:
    """The location of this process for checks of a run."""
    return CheckLocation((*roots_of(view), os.getcwd()))


def _is_paused_by(view: "View", judged: Judged) -> bool:
    broken = PREMISES.of(view).broken.get(judged.premise.id)
    return broken is not None and broken.act == "pause"


async def settle(held: "HeldRun", runtime: Runtime, broken: list[Judged]) -> None:
    """Record each broken premise once, then continue with what is there now, or raise PremiseMissing."""
    view = held.view
    for one in broken:
        if one.act != "ignore" and not _is_known(view, one):
            seq = await _append(held, runtime, [finding_of(one)])
            PREMISES.of(view).broken[one.premise.id] = Broken(
                seq, one.verdict, without_texts(one.found), one.act
            )
        if one.act == "warn":
            log().warning("run %s relies on %s, which %s", held.run, _label(one.premise), one.text)
        if one.act != "pause" and one.premise.kind != "clock":
            await _rely_on(held, runtime, as_found(one))
    pausing = [one for one in broken if one.act == "pause"]
    if pausing:
        raise _missing(held, pausing)


async def _rely_on(held: "HeldRun", runtime: Runtime, now: Premise) -> None:
    """Rely on what was found from now on, so that the next attempt does not report it again."""
    noted = PREMISES.of(held.view).get(now.id)
    if noted is None or noted.facts != now.facts:
        seq = await _append(held, runtime, [note_of(now, {"via": "found"})])
        PREMISES.of(held.view)[now.id] = now._replace(seq=seq)


def _is_known(view: "View", judged: Judged) -> bool:
    known = PREMISES.of(view).broken.get(judged.premise.id)
    return known is not None and (known.verdict, known.found) == (judged.verdict, without_texts(judged.found))


def as_found(judged: Judged) -> Premise:
    """The new premise: what was found, with the workspace and step of the old one."""
    noted = judged.premise.facts or {}
    found = judged.found or {**noted, **NOTHING}
    if judged.premise.kind == "model":
        found = {"asked": [*noted["asked"], [found["model"], found["provider"]]]}
    kept = {name: value for name, value in noted.items() if name in {"workspace", "step"}}
    return judged.premise._replace(facts={**kept, **found})


# -- the records ---------------------------------------------------------------------------------------------


def note_of(premise: Premise, more: dict[str, Any]) -> Draft:
    """The event that the run relies on this premise."""
    fields: dict[str, Any] = {"kind": premise.kind, "name": premise.name, **more}
    if premise.policy is not None:
        fields["policy"] = premise.policy
    return draft(Kind.PREMISE_NOTED, premise.id, "", fields, parts={"facts": premise.facts})


def finding_of(judged: Judged, **more: Any) -> Draft:
    """The event that this premise does not hold."""
    premise = judged.premise
    fields = {
        "kind": premise.kind,
        "name": premise.name,
        "verdict": judged.verdict,
        "act": judged.act,
        "noted_seq": premise.seq,
        "noted": without_texts(premise.facts),
        **more,
    }
    parts = {"text": judged.text, "found": without_texts(judged.found)}
    return draft(Kind.PREMISE_BROKEN, premise.id, "", fields, parts=parts)


async def _append(held: "HeldRun", runtime: Runtime, drafts: list[Draft]) -> int:
    journal = held.journal
    assert journal is not None
    for first in range(0, len(drafts), APPEND_EVENTS_MAX):
        some = drafts[first : first + APPEND_EVENTS_MAX]
        await journal.append(runtime, some, held.clock.wall(), synced=False)
    return journal.head


def _missing(held: "HeldRun", pausing: list[Judged]) -> PremiseMissing:
    try:
        from shlex import quote
    except OSError:  # no file descriptor is left to load it with; the error below matters more

        def quote(s: str) -> str:
            return repr(s)

    first, *others = pausing
    more = f" ({len(others)} more of its premises do not hold either)" if others else ""
    return PremiseMissing(
        run=held.run,
        premise=first.premise.id,
        recorded=f"recorded as #{first.premise.seq}" if first.premise.seq else "as it declares",
        problem=f"{first.text}{more}",
        verdict=first.verdict,
        accept=quote(first.premise.id),
        **_way_back(held, first.premise),
    )


def _way_back(held: "HeldRun", premise: Premise) -> dict[str, str]:
    """The advice for a file that the run made and the store has a copy of."""
    if premise.kind != "artifact":
        return {}
    from shlex import quote

    from holdfast.core.artifacts.versions import ARTIFACTS

    version = ARTIFACTS.of(held.view).find(premise.name)
    if version is None or version.copy != "kept":
        return {}

    run = quote(held.run)
    advice = (
        f"`holdfast artifacts {run} --in-place` brings it back as recorded, "
        f"with --force over what another program wrote; "
        f"`holdfast resume {run} --accept {quote(premise.id)}` takes it as it is now"
    )
    return {"advice": advice}


def _label(premise: Premise) -> str:
    return f"{premise.id} (recorded as #{premise.seq})" if premise.seq else premise.id


async def look_aside(runtime: Runtime, look: Callable[..., Any], *args: Any) -> Any:
    """Run a check in a worker thread, so that it does not block the event loop.

    Not with ``runtime.invoke``, which is for the user's code: a check has no call site.
    """
    if not runtime.waits:
        return look(*args)
    import asyncio

    return await asyncio.get_running_loop().run_in_executor(None, partial(look, *args))


def notes(premises: Iterable[Premise]) -> list[dict[str, Any]]:
    """Premises as fields of an intent."""
    return [{"kind": one.kind, "name": one.name, "facts": one.facts} for one in premises]
