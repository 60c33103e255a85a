"""A promise whose settlement is cut off between its record and its event ends as the record says, in every branch."""

from collections.abc import Sequence
from typing import Literal
from uuid import uuid4

import pytest

import holdfast
from holdfast.errors import Misuse
from holdfast.model.events import Kind
from holdfast.model.store_rows import Append, AppendOutcome
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.relay_store import Relay

How = Literal["kept", "broken"]


class Killed(BaseException):
    """The process is dead."""


class DiesAtSettlement(Relay):
    """A store whose process is killed when it would record that a promise was settled."""

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        if any(event.kind == Kind.PROMISE_SETTLED for item in items for event in item.events):
            raise Killed
        return super().append(items)


def work(store: holdfast.Store, name: str, how: How) -> str:
    """Make a promise, and settle it."""
    with holdfast.run(name, store=store) as run:
        promise = run.promise("the figures", to="receiver")
        settled = run.keep(promise) if how == "kept" else run.break_promise(promise, because="none came")
    return settled.state


@pytest.fixture
def cut_off() -> holdfast.Store:
    """A store in which run ``m`` was killed after it recorded the settlement ``kept``, and before its event."""
    name = uuid4().hex
    store = holdfast.store(f"memory://{name}")
    with holdfast.run("receiver", store=store, stops="suppress") as run:
        run.receive()
    dying = holdfast.Store(DiesAtSettlement(MemoryStore(name)))
    with pytest.raises(Killed):
        work(dying, "m", "kept")
    dying.close()
    store.fork("m", as_="f")
    return store


def heard(store: holdfast.Store) -> list[str]:
    """How the receiver says that the promises to it ended."""
    with holdfast.run("receiver", store=store, stops="suppress") as run:
        run.receive()
    return [one.state for one in store.promises("receiver").received]


def test_the_run_goes_on_and_settles_it_in_the_same_way(cut_off: holdfast.Store) -> None:
    """Its own record does not stop it, and the receiver hears of it once."""
    assert work(cut_off, "m", "kept") == "kept"
    assert [one.state for one in cut_off.promises("m").made] == ["kept"]
    assert heard(cut_off) == ["kept"]


@pytest.mark.parametrize("run", ["m", "f"])
def test_nobody_settles_it_in_another_way(cut_off: holdfast.Store, run: str) -> None:
    """Neither the run nor a fork of it; both say how it ended, and so does the receiver when one has gone on."""
    with pytest.raises(Misuse, match="kept already"):
        work(cut_off, run, "broken")
    assert [one.state for one in cut_off.promises(run).made] == ["kept"]
    other = "m" if run == "f" else "f"
    assert work(cut_off, other, "kept") == "kept"
    assert heard(cut_off) == ["kept"]


def test_a_fork_settles_it_first(cut_off: holdfast.Store) -> None:
    """The fork tells the receiver; the run that was killed goes on, and nothing contradicts it."""
    assert work(cut_off, "f", "kept") == "kept"
    assert heard(cut_off) == ["kept"]
    assert work(cut_off, "m", "kept") == "kept"
    assert heard(cut_off) == ["kept"]
