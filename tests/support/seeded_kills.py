"""Agents of a framework, killed by seed, against a provider in the test's process, which sees every request.

A seed decides where each attempt dies: at a call of the store, on either side of it, or inside a tool that has acted. The
program is an ordinary one. It asks its model at ``PROVIDER``, its tools write a line to ``ledger`` for each effect, and it
dies in the tool that ``DIE_IN`` names, once.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from tests.support.model_server import Provider

from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind
from holdfast.testing.crash_matrix import Case, CrashMatrix
from holdfast.testing.crash_matrix import Kill as PortKill

ROUNDS_MAX = 20


class Counts(NamedTuple):
    """What the kills of several seeds came to."""

    kills: int
    requests: int
    repeated: int
    """Requests for an answer that was recorded when the attempt before died."""
    doubled: int
    missing: int
    settled: int
    """Effects in doubt that a person settled."""


def effects_of(case: Case) -> "Counter[str]":
    path = case.directory / "ledger"
    return Counter(path.read_text().splitlines() if path.exists() else ())


def _digest(body: object) -> str:
    return json.dumps(body, sort_keys=True)


def _line(tool: str, given: Mapping[str, Any]) -> str:
    return " ".join([tool, *(str(value) for value in given.values())])


def kill_by_seeds(
    matrix: CrashMatrix,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
    program: Path,
    *arguments: str,
    seeds: Sequence[int],
    tools: Sequence[str],
    preload: Sequence[str],
    is_parallel: bool = False,
    digest_of: Callable[[Any], str] = _digest,
    line_of: Callable[[str, Mapping[str, Any]], str] = _line,
) -> Counts:
    """Kill the program twice for each seed, and let it finish; compare with an undisturbed one.

    ``is_parallel``: its agents ask at once, so that a kill may cut off several questions. Then a question counts as repeated
    if the journal has more answers than that of the undisturbed one, or if it was asked without a record. ``digest_of`` tells
    requests apart; ``line_of`` is the line that a tool with these arguments writes.
    """
    monkeypatch.setenv("PROVIDER", provider.base_url)
    calm = matrix.case(program, *arguments, start="fork", preload=preload)
    ended = calm.run()
    assert ended.code == 0, ended.output
    expected, result, port_calls = effects_of(calm), calm.store.view("agent").result, calm.calls
    _, calm_answers = _model_calls(calm)
    calm.close()
    assert result is not None
    counts = Counts(0, 0, 0, 0, 0, 0)
    for seed in seeds:
        random, case = Random(seed), matrix.case(program, *arguments, start="fork", preload=preload)
        kills = repeated = settled = 0
        finished: set[str] = set()
        first = len(provider.calls)
        for number in range(2 + ROUNDS_MAX):
            asked_before = len(provider.calls)
            kill = _draw(random, port_calls, tools, monkeypatch) if number < 2 else None
            ended = case.run(kill)
            monkeypatch.delenv("DIE_IN", raising=False)
            asked = [digest_of(call.body) for call in provider.calls[asked_before:]]
            repeated += sum(one in finished for one in asked)
            # An agent asks one question after the other: all but the last that was asked have an answer in the journal.
            finished |= set(asked[: len(asked) - (not _is_answered(case))])
            kills += ended.code == -9
            if ended.code == 0 and number >= 2:
                break
            if ended.code not in {0, -9}:
                settled += _settle(case, line_of)
        assert ended.code == 0, f"seed {seed}: {ended.output}"
        made = effects_of(case)
        assert case.store.view("agent").result == result, f"seed {seed}"
        if is_parallel:
            begun, answers = _model_calls(case)
            repeated = answers - calm_answers + max(0, len(provider.calls) - first - begun)
        case.close()
        doubled, missing = sum((made - expected).values()), sum((expected - made).values())
        requests = len(provider.calls) - first
        one = (kills, requests, repeated, doubled, missing, settled)
        counts = Counts(*(a + b for a, b in zip(counts, one, strict=True)))
    return counts


def _draw(
    random: Random, port_calls: int, tools: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> PortKill | None:
    if random.random() < 0.4:
        monkeypatch.setenv("DIE_IN", random.choice(tools))
        return None
    return PortKill(random.randrange(port_calls), random.choice(["before", "after"]))


def _model_calls(case: Case) -> tuple[int, int]:
    """How many model calls were begun, and how many have an answer in the journal."""
    events = list(case.store.events("agent"))
    begun = [
        event.key
        for event in events
        if event.kind == Kind.STEP_STARTED and contents_of(event.body)["effect"] == "model"
    ]
    answered = {event.key for event in events if event.kind == Kind.STEP_FINISHED} & set(begun)
    return len(begun), len(answered)


def _is_answered(case: Case) -> bool:
    """Whether the last model call that was begun has its outcome in the journal."""
    try:
        events = list(case.store.events("agent"))
    except Exception:  # killed before the run was there
        return False
    finally:
        case.close()
    begun = [event for event in events if event.kind == Kind.STEP_STARTED]
    models = [event.key for event in begun if contents_of(event.body)["effect"] == "model"]
    ended = {event.key for event in events if event.kind == Kind.STEP_FINISHED}
    return bool(models) and models[-1] in ended


def _settle(case: Case, line_of: Callable[[str, Mapping[str, Any]], str]) -> int:
    """Look at the ledger, as a person would, and say what happened to each effect in doubt."""
    made, settled = effects_of(case), 0
    events = {event.seq: event for event in case.store.events("agent")}
    for doubt in case.store.doubts("agent"):
        given = contents_of(events[doubt.seq].body)["args"]
        line = line_of(doubt.step, given)
        if made[line]:
            case.store.resolve("agent", doubt.id, "done", value=f"did {line}", by="Ada")
        else:
            case.store.resolve("agent", doubt.id, "retry", by="Ada")
        settled += 1
    case.close()
    assert settled, f"it stopped, and nothing is in doubt: {case.exits[-1].output}"
    return settled
