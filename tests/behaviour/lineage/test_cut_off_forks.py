"""A fork that was killed between its row and its first event: what is made of it knows the effects behind its point.

The event lists them. Seen before: a fork or an export of such a fork, and the fork itself after it was rewound or its origin
was erased, did them again.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import holdfast
from holdfast.model.store_rows import Append, AppendOutcome
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.relay_store import Relay

Made = Callable[[holdfast.Store, Path], tuple[holdfast.Store, str]]
PAID: list[int] = []


class Killed(BaseException):
    """The process that forks is dead."""


class DiesAtAppend(Relay):
    """A store whose process is killed at its first append."""

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        raise Killed


@holdfast.tool(effect="once")
def pay(amount: int) -> int:
    PAID.append(amount)
    return amount


def work(store: holdfast.Store, run: str) -> None:
    with holdfast.run(run, store=store) as entered:
        entered.step("plan", len, "x")
        assert pay(5) == 5
        raise KeyError


def fork(store: holdfast.Store, _: Path) -> tuple[holdfast.Store, str]:
    store.fork("f", as_="g")
    return store, "g"


def rewind(store: holdfast.Store, _: Path) -> tuple[holdfast.Store, str]:
    store.rewind("f@#1")
    return store, "f"


def flatten(store: holdfast.Store, _: Path) -> tuple[holdfast.Store, str]:
    store.erase("m", flatten=True)
    return store, "f"


def export(store: holdfast.Store, directory: Path) -> tuple[holdfast.Store, str]:
    store.export("f", directory / "x")
    store.import_(directory / "x", as_="z")
    return store, "z"


def move(store: holdfast.Store, directory: Path) -> tuple[holdfast.Store, str]:
    store.export("f", directory / "x", move=True)
    other = holdfast.store(f"{store.url}-other")
    other.import_(directory / "x")
    return other, "f"


def handoff(store: holdfast.Store, _: Path) -> tuple[holdfast.Store, str]:
    store.accept(store.handoff("f", to="t", seal=True), as_="t")
    return store, "t"


@pytest.mark.parametrize("make", [fork, rewind, flatten, export, move, handoff])
def test_it_knows_what_its_origin_has_done(make: Made, tmp_path: Path) -> None:
    """The effect behind the point is answered, as in a fork that was not cut off."""
    PAID.clear()
    name = f"cut-off-{make.__name__}-{tmp_path.name}"
    store = holdfast.store(f"memory://{name}")
    with pytest.raises(KeyError):
        work(store, "m")
    dying = holdfast.Store(DiesAtAppend(MemoryStore(name)))
    with pytest.raises(Killed):
        dying.fork("m@#3", as_="f")
    dying.close()
    assert store.get("f").head == 3
    place, made = make(store, tmp_path)
    with pytest.raises(KeyError):
        work(place, made)
    assert PAID == [5]
    for each in {id(place): place, id(store): store}.values():
        each.close()
