"""Forks with overrides or files, killed while they are made: nobody enters a fork that lacks what was chosen for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay


class Killed(BaseException):
    pass


class Stop(Exception):
    pass


class Dying(Relay):
    """Dies at the nth append."""

    appends_left = 0

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if verb.__name__ == "append":
            if not self.appends_left:
                raise Killed
            self.appends_left -= 1
        return verb(*args, **kwargs)


def program(run: holdfast.Run, files: int = 0) -> str:
    for number in range(files):
        with run.open(f"{number}.txt") as file:
            file.write(str(number))
    survey: str = run.step("survey", str, "GR")
    return survey


def begin(url: str, files: int = 0) -> None:
    with pytest.raises(Stop), holdfast.run("a", store=url) as run:
        program(run, files)
        raise Stop


def killed_fork(url: str, after: int, **options: Any) -> None:
    port = Dying(open_store(url))
    port.appends_left = after
    with pytest.raises(Killed):
        holdfast.Store(port).fork("a", as_="b", **options)


def test_a_fork_never_lacks_its_overrides(url: str) -> None:
    """Killed before they are written, it cannot be entered; the same command makes it.

    Before, the fork could be entered without them, and went on with the recorded outcomes.
    """
    begin(url)
    killed_fork(url, 0, override={"survey": "ES"})
    store = holdfast.store(url)
    assert store.get("b").status == "importing"
    with pytest.raises(holdfast.RunSealed, match="fork") as refused:
        holdfast.run("b", store=url).open()
    assert "holdfast fork" in refused.value.hint
    store.fork("a", as_="b", override={"survey": "ES"})
    with holdfast.run("b", store=url) as run:
        assert program(run) == "ES"


def test_a_fork_makes_no_effect_again_that_was_claimed_since(url: str) -> None:
    """Killed before it lists what it makes again, it cannot be entered; the same command makes the list anew, for people to see.

    Before, it was completed when it was first entered, with what its origin had claimed meanwhile: that was made again.
    """
    begin(url)
    killed_fork(url, 0, effects="again")
    with pytest.raises(holdfast.RunSealed, match="fork"):
        holdfast.run("b", store=url).open()
    holdfast.store(url).fork("a", as_="b", effects="again")
    with holdfast.run("b", store=url) as run:
        assert program(run) == "GR"


@pytest.mark.parametrize("after", [0, 1])
def test_a_fork_never_starts_in_the_directory_of_its_origin(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Killed before its directory is written, or among many files, it cannot be entered; the same command makes it.

    Before, its command was the origin's, in the origin's directory, and it overwrote the files there.
    """
    for name in ("origin", "forked"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "origin")
    begin(url, files=70)
    killed_fork(url, after, files=tmp_path / "forked")
    with pytest.raises(holdfast.RunSealed):
        holdfast.run("b", store=url).open()
    store = holdfast.store(url)
    store.fork("a", as_="b", files=tmp_path / "forked")
    command = store.command("b")
    assert command is not None
    assert command.cwd == str(tmp_path / "forked")
    assert store.get("b").status == "not_begun"


def test_another_fork_may_have_the_name_and_a_run_keeps_it(url: str) -> None:
    """What was cut off has nothing of its own. A fork that is whole has, and keeps its name."""
    begin(url)
    killed_fork(url, 0, override={"survey": "ES"})
    store = holdfast.store(url)
    store.fork("a@1", as_="b")
    assert store.get("b").status == "not_begun"
    with pytest.raises(holdfast.RunExists):
        store.fork("a", as_="b", override={"survey": "ES"})


def test_a_cut_off_fork_can_be_erased(url: str) -> None:
    """It holds nothing, and does not hold its origin's name or history either."""
    begin(url)
    killed_fork(url, 0, override={"survey": "ES"})
    store = holdfast.store(url)
    store.erase("b")
    store.erase("a")
    assert [info.run for info in store.runs()] == []
