"""Checks the demo's promises against the ledger, the server's own count, and the journal.

Apart from reading the ledger it is pure. A claim holds only if there is evidence for it: an empty ledger, or
a server without requests, proves nothing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.cli.demo.agent import TOPICS, question_about, question_of_summary, read_ledger
from holdfast.cli.demo.evidence import Track, rows_of, tracks_of
from holdfast.cli.demo.fake_model import Request, scripted_answer
from holdfast.cli.demo.killer import DemoRun
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Status


class Claim(NamedTuple):
    """One promise, and whether it held."""

    about: str
    holds: bool
    text: str


def check_claims(
    seen: DemoRun, asked: Sequence[Request], *, kills: int, undisturbed: str | None
) -> tuple[Claim, ...]:
    """Every claim, checked. ``undisturbed`` is None for a real model, whose undisturbed result is unknown."""
    return (
        prove_run(seen, kills=kills, undisturbed=undisturbed),
        prove_ledger(read_ledger(seen.ledger), seen.events),
        prove_questions(asked, seen.events),
    )


def undisturbed_result() -> str:
    """The agent's result without kills and with the scripted model."""
    findings = [scripted_answer(question_about(topic)) for topic in TOPICS]
    return scripted_answer(question_of_summary(findings))


def prove_run(seen: DemoRun, *, kills: int, undisturbed: str | None) -> Claim:
    """The agent was killed as often as requested, repeated no step, and finished with the same result."""
    killed = sum(process.killed for process in seen.processes)
    times = "once" if killed == 1 else f"{killed} times"
    text = f"killed {times} with SIGKILL, {seen.status}"
    repeated = [
        row.step
        for row in rows_of(seen.events, seen.processes)
        if any(cell.outcome == "repeated" for cell in row.cells)
    ]
    if repeated:
        text += f", repeated {', '.join(repeated)},"
    holds = killed == kills and seen.status == Status.FINISHED and bool(seen.result) and not repeated
    if undisturbed is None:
        return Claim("run", holds, text)
    same = seen.result == undisturbed
    end = "with" if same else "but NOT with"
    return Claim("run", holds and same, f"{text} {end} an undisturbed run's result")


def prove_ledger(entries: Sequence[Mapping[str, str]], events: Sequence[Event]) -> Claim:
    """The ledger has every finding once, under the key that the journal has for it."""
    keys = Counter(entry["key"] for entry in entries)
    topics = Counter(entry["topic"] for entry in entries)
    twice = sorted(
        {entry["topic"] for entry in entries if keys[entry["key"]] > 1 or topics[entry["topic"]] > 1}
    )
    missing = [topic for topic in TOPICS if topic not in topics]
    minted = {track.idempotency_key for track in tracks_of(events).values() if track.effect == "once"}
    strange = len(set(keys) - minted)
    wrong = [
        *([f"twice or more: {', '.join(twice)}"] if twice else []),
        *([f"missing: {', '.join(missing)}"] if missing else []),
        *([f"{strange} keys that the journal does not know"] if strange else []),
    ]
    count = f"{len(entries)} lines, {len(TOPICS)} findings"
    return Claim("ledger", not wrong, f"{count}: {'; '.join(wrong) or 'none missing, none twice'}")


def prove_questions(asked: Sequence[Request], events: Sequence[Event]) -> Claim:
    """The server got every question, and none again from a process whose journal had the answer."""
    recorded = _recorded_attempts(events)
    by_step = Counter((_step_of(one.question), one.attempt) for one in asked)
    again = sorted(
        {
            step
            for (step, attempt), count in by_step.items()
            if count > 1 or step not in recorded or attempt > recorded[step]
        }
    )
    unasked = sorted(set(recorded) - {step for step, _ in by_step})
    extra = len(asked) - len(recorded)
    wrong = [
        *([f"asked again: {', '.join(again)}"] if again else []),
        *([f"answered without having been asked: {', '.join(unasked)}"] if unasked else []),
    ]
    fine = (f"{extra} cut off, " if extra else "") + "no recorded one asked again"
    text = f"{len(asked)} requests, {len(recorded)} questions: {'; '.join(wrong) or fine}"
    return Claim("model", bool(asked) and not wrong, text)


def _recorded_attempts(events: Sequence[Event]) -> dict[str, int]:
    """For each model call of the journal, the attempt that recorded its answer."""
    starts = [event.seq for event in events if event.kind == Kind.ATTEMPT_STARTED]

    def attempt_at(seq: int) -> int:
        return sum(start <= seq for start in starts)

    return {
        track.label: attempt_at(track.recorded_seq)
        for track in tracks_of(events).values()
        if _is_model_call(track) and track.recorded_seq is not None
    }


def _is_model_call(track: Track) -> bool:
    return track.label.startswith("ask ") or track.label == "summarise"


def _step_of(question: str) -> str:
    for topic in TOPICS:
        if question == question_about(topic):
            return f"ask {topic}"
    return "summarise"
