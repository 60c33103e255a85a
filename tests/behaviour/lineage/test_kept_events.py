"""Names of events that a rewind has left: whoever recorded them, the branch that keeps them shows them."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.cli.app import app


class Stop(Exception):
    pass


def work(url: str) -> None:
    with pytest.raises(Stop), holdfast.run("r", store=url) as run:
        run.step("plan", len, "a trip")
        run.discover("zebras have stripes")
        run.remember("zebras live in herds")
        raise Stop


def test_hits_and_facts_name_an_event_that_can_be_shown(tmp_path: Path) -> None:
    """Also after a second rewind, of the branch that kept it. Seen before: a hit named ``r@#5``, which ``show`` did not find."""
    url = f"sqlite:///{tmp_path}/a.db"
    work(url)
    store = holdfast.store(url)
    (fact,) = store.memory.list()
    for places in (["r@#5"], ["r~1@#5", "r@#5"], ["r~1~1@#5", "r~1@#5", "r@#5"]):
        (hit,) = [one for one in store.search("stripes") if one.name == "discovery"]
        assert f"{hit.run}@#{hit.seq}" == places[0]
        for place in [*places, f"{fact.run}@#{fact.event}"]:
            shown = CliRunner().invoke(app, ["show", place, "--store", url])
            assert shown.exit_code == 0, shown.output
            assert "zebras" in shown.output
        store.rewind(f"{hit.run}@1")


def test_a_fork_of_what_was_left_begins_in_the_kept_branch(url: str) -> None:
    """It lists the effects of that branch. A rewind to there is refused: the run has no such point any more."""
    work(url)
    store = holdfast.store(url)
    store.rewind("r@1")
    store.fork("r@#5", as_="f")
    assert [event.name for event in store.events("f")][-1] == "discovery"
    with pytest.raises(holdfast.Misuse, match="r~1 has it"):
        store.rewind("r@#5")


def test_a_kept_branch_that_was_erased_names_nothing_else(url: str) -> None:
    """The event is gone, and its run is named as it was."""
    work(url)
    store = holdfast.store(url)
    store.rewind("r@1")
    assert store.run_with("r", 5) == "r~1"
    assert store.run_with("r", 2) == "r"
    store.erase("r~1")
    assert store.run_with("r", 5) == "r"
