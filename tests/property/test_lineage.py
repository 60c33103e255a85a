"""Forks of forks of forks: each reads like a history of its own, whatever the others do.

The model is the plainest one: a fork's history is a copy of its origin's up to the point, and its own from there on.
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any
from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

import holdfast
from holdfast.model.events import Event

serial = count(1)


class Crash(Exception):
    pass


class Branch:
    """One run: what it asks for, what it was answered with, and the events that it must read as."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[int] = []
        self.events: list[Event] = []

    def fork(self, name: str, seq: int, outcomes: Sequence[int]) -> "Branch":
        child = Branch(name)
        child.events = [event for event in self.events if event.seq <= seq]
        child.asked = [asked for asked, at in zip(self.asked, outcomes, strict=True) if at <= seq]
        return child


def answer(number: int) -> str:
    """Never the same: an answer that is another run's, or was made anew, shows."""
    return f"{number} {next(serial)}"


def work(store: holdfast.Store, branch: Branch, further: Sequence[int]) -> list[Any]:
    """The program of the run, from the top; and what it asks for beyond what it has asked for before."""
    branch.asked += further
    values = []
    with suppress(Crash), holdfast.run(branch.name, store=store, loops=False) as run:
        values = [run.step("ask", answer, number) for number in branch.asked]
        raise Crash
    return values


moves = st.lists(
    st.tuples(st.integers(0, 7), st.lists(st.integers(0, 2), max_size=3), st.none() | st.integers(0, 40)),
    max_size=12,
)


@settings(max_examples=examples(60), deadline=None)
@given(moves)
def test_a_fork_reads_like_a_history_of_its_own(script: list[tuple[int, list[int], int | None]]) -> None:
    """Events and answers up to the point are the origin's, for ever; and nobody sees what another did after it.

    Planted: with a chain that reads its origin up to the origin's head, a fork saw what came after its point.
    """
    store = holdfast.store(f"memory://{uuid4().hex}")
    branches = [Branch("root")]
    told: dict[str, list[Any]] = {"root": work(store, branches[0], [1])}
    branches[0].events = store.events("root")
    for which, further, place in script:
        branch = branches[which % len(branches)]
        values = work(store, branch, further)
        assert values[: len(told[branch.name])] == told[branch.name]
        told[branch.name] = values
        now = store.events(branch.name)
        assert now[: len(branch.events)] == branch.events
        branch.events = now
        if place is not None and len(branches) < 8:
            seq = now[2 + place % (len(now) - 2)].seq
            outcomes = [event.seq for event in now if event.kind == "step.finished"]
            child = branch.fork(f"fork-{len(branches)}", seq, outcomes)
            store.fork(f"{branch.name}@#{seq}", as_=child.name)
            told[child.name] = values[: len(child.asked)]
            branches.append(child)
    for branch in branches:
        assert store.events(branch.name)[: len(branch.events)] == branch.events
    store.close()
