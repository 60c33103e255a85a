"""``run.patched``: old runs take the old branch, new ones the new branch, for their whole lives."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.cli.app import app


class Crash(Exception):
    """The program ends here, as if it was killed."""


def attempt(url: str, *, steps: int, run: str = "a", asks: int = 1) -> list[bool]:
    """A program of some steps that asks before each of them, and is killed behind them."""
    found: list[bool] = []
    with pytest.raises(Crash), holdfast.run(run, store=url) as handle:
        for number in range(steps):
            found += [handle.patched("p") for _ in range(asks)]
            handle.step("s", str, number)
        raise Crash
    return found


def before(url: str, steps: int) -> None:
    """The program as it was before the patch."""
    with pytest.raises(Crash), holdfast.run("a", store=url) as run:
        for number in range(steps):
            run.step("s", str, number)
        raise Crash


def test_a_new_run_takes_the_new_branch(url: str) -> None:
    """In every attempt, however often it asks."""
    for _ in range(3):
        assert attempt(url, steps=2, asks=2) == [True] * 4


def test_a_run_under_way_takes_the_old_branch_for_its_life(url: str) -> None:
    """Also behind its record, and in the attempts that follow, when that record is longer."""
    before(url, steps=2)
    for steps in (3, 4, 5):
        assert attempt(url, steps=steps) == [False] * steps
    assert attempt(url, steps=1, run="another") == [True]


def test_the_answer_survives_compaction_and_forks(url: str) -> None:
    """A restored state, pruned events, a fork: the same branch."""
    before(url, steps=1)
    with pytest.raises(Crash), holdfast.run("a", store=url) as run:
        assert run.patched("p") is False
        run.step("s", str, 0)
        run.checkpoint({"at": 1})
        raise Crash
    store = holdfast.store(url)
    policy = holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=0)
    store.prune("a", policy=policy)
    store.fork("a", as_="b")
    for name in ("a", "b"):
        with pytest.raises(Crash), holdfast.run(name, store=url) as run:
            assert run.restore({"at": 0}) == {"at": 1}
            assert run.patched("p") is False
            raise Crash


def test_several_patches_are_decided_each_by_itself(url: str) -> None:
    """What one of them records does not end the replay for the other."""
    before(url, steps=2)
    with pytest.raises(Crash), holdfast.run("a", store=url) as run:
        assert (run.patched("first"), run.patched("second")) == (False, False)
        run.step("s", str, 0)
        run.step("s", str, 1)
        assert run.patched("third") is True
        raise Crash


def test_an_async_program_awaits_it(url: str) -> None:
    """Tasks that ask at once get one answer."""

    async def main() -> list[bool]:
        async with holdfast.run("a", store=url) as run:
            found = await asyncio.gather(*(run.patched("p") for _ in range(5)))
        return list(found)

    assert asyncio.run(main()) == [True] * 5
    assert sum(event.name == "patched" for event in holdfast.store(url).events("a")) == 1


def test_who_needs_the_old_branch(tmp_path: Path) -> None:
    """The command lists runs on the old branch, and those that never asked; finished runs need nothing."""
    path = str(tmp_path / "patches.db")
    before(path, steps=2)
    attempt(path, steps=2)
    attempt(path, steps=1, run="new")

    def patches(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["patches", *words, "--store", path])
        return done.exit_code, done.stdout

    code, out = patches("p")
    assert (code, "1 run may need the old branch of p" in out, "a  " in out) == (3, True, True)
    with holdfast.run("a", store=path) as run:
        run.patched("p")
    code, out = patches("p")
    assert (code, "it can go" in out) == (0, True)
    assert patches()[0] == 0
    assert json.loads(patches("--json")[1])["patches"] == {"p": {"new": 1}}
