"""Names that cannot be masked are refused where a secret is in them: masked, they would name something else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.known_secrets import places

import holdfast
from holdfast.adapters.langgraph.thread_ids import run_of


@holdfast.agent("named")
def named(key: str) -> str:
    return key


def write(run: holdfast.Run, name: str) -> None:
    with run.open(name, "w") as file:
        file.write("x")


Given = tuple[holdfast.Store, holdfast.Run, Path]
NAMES: dict[str, Callable[[Given, str], Any]] = {
    "a run": lambda at, name: holdfast.run(name, store=at[0]).open(),
    "a submitted run": lambda at, name: named.submit(name, "x", store=at[0]),
    "a nested run": lambda at, name: holdfast.run(name).open(),
    "a child": lambda at, name: at[1].child(name, named, "x"),
    "a fork": lambda at, name: at[0].fork("before", as_=name),
    "an import": lambda at, name: at[0].import_(at[2] / "before.holdfast", as_=name),
    "a taker": lambda at, name: at[0].accept(at[0].handoff("before"), as_=name),
    "a thread": lambda at, name: run_of(name),
    "an artifact": lambda at, name: at[1].artifact(name),
    "a file to write": lambda at, name: write(at[1], name),
    "a file to rely on": lambda at, name: at[1].depends_on(name),
}


@pytest.mark.parametrize("thing", NAMES)
def test_a_name_with_a_secret_is_refused(thing: str, secret: str, tmp_path: Path) -> None:
    """The error shows the mask, and nothing was written.

    Seen to fail: a fork, an import and a taker had it as their id; an artifact was recorded under its mask, so that
    the next attempt missed the file.
    """
    store = holdfast.store(tmp_path / "s.db")
    with holdfast.run("before", store=store) as run:
        run.checkpoint({"n": 1})
    store.export("before", tmp_path / "before.holdfast")
    (tmp_path / "w").mkdir()
    with holdfast.run("r", store=store, workspace=tmp_path / "w") as run:
        with pytest.raises(holdfast.BadName, match="has a secret in it") as refused:
            NAMES[thing]((store, run, tmp_path), f"n-{secret}")
        assert "<secret ACME_API_KEY>" in str(refused.value)
        assert secret not in f"{refused.value} {refused.value.hint}"
    assert places(secret, tmp_path) == []


def test_errors_of_holdfast_are_masked(secret: str, tmp_path: Path) -> None:
    """What they say goes to terminals and trackers of errors; their fields are the program's.

    Seen to fail: the name of what was not found, and the path to what cannot be stored.
    """
    store = holdfast.store(tmp_path / "s.db")
    with pytest.raises(holdfast.UnknownRun) as unknown:
        store.get(f"n-{secret}")
    with holdfast.run("r", store=store) as run, pytest.raises(holdfast.NotStorable) as refused:
        run.step("make", lambda: {secret: object()})
    for error in (unknown.value, refused.value):
        told = f"{error}\n{error.hint}\n{error.__notes__}"
        assert "<secret ACME_API_KEY>" in told
        assert secret not in told
