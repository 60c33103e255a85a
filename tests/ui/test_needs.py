"""What needs a person is found in every run, by what stopped it, and without reading journals over and over."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests.ui.runs import asking, finished, in_doubt

import holdfast
from holdfast.errors import Looping, Poisoned
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay
from holdfast.ui.pages import Pages
from holdfast.ui.records import Records

OLD_RUNS = 520
"""More than a page of any kind holds."""


def needs(client: httpx.Client) -> list[tuple[str, str]]:
    return [(one["run"], one["kind"]) for one in client.get("/api/needs").json()["needs"]]


@contextmanager
def stopped_by(url: str, run: str, error: BaseException) -> Iterator[None]:
    with holdfast.run(run, store=url, stops="suppress"):
        raise error
    yield


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("poisoned", Poisoned(run="stuck", agent="auditor", reason="its last 3 attempts crashed")),
        ("looping", Looping(run="stuck", reason="search ran 9 times with the same result")),
    ],
)
def test_a_run_that_no_worker_tries_again_needs_a_person(
    client: httpx.Client, url: str, kind: str, error: Any
) -> None:
    """Before, a poisoned run and one that was stopped in a loop were parked, and nobody was told."""
    with stopped_by(url, "stuck", error):
        assert needs(client) == [("stuck", kind)]
    page = client.get("/").text
    assert error.reason in page
    assert f'aria-label="{kind}"' in page
    assert "Resume…" in page


def test_an_error_is_known_by_its_type(client: httpx.Client, url: str) -> None:
    """Before, a failure whose message named BudgetExceeded was shown as a spent budget."""
    with pytest.raises(ValueError, match="PremiseMissing"), holdfast.run("odd", store=url):
        raise ValueError("BudgetExceeded, PremiseMissing and Diverged are names")
    assert needs(client) == [("odd", "failed")]


def test_old_runs_need_a_person_too(url: str) -> None:
    """Before, only the newest 500 runs were looked at, and their journals were read at each look."""
    in_doubt(url, "the-oldest")
    for number in range(OLD_RUNS):
        with holdfast.run(f"run-{number:03}", store=url) as run:
            run.finish(number)
    read: list[str] = []

    class Counting(Relay):
        def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            if verb.__name__ == "read_events":
                read.append(str(args[0]))
            return verb(*args, **kwargs)

    store = holdfast.Store(Counting(open_store(url)))
    pages = Pages(store, Records(store))
    assert [(one.run, one.kind) for one in pages.home({})["needs"]] == [("the-oldest", "doubt")]
    read.clear()
    assert len(pages.needs()) == 1
    assert set(read) <= {"the-oldest"}
    asking(url, "run-007-asks")
    assert [one.run for one in pages.needs()] == ["the-oldest", "run-007-asks"]


def test_a_calm_run_that_begins_to_need_a_person(client: httpx.Client, url: str) -> None:
    """What was seen of a run counts only until it changes."""
    finished(url)
    assert needs(client) == []
    holdfast.store(url).fork("done@1", as_="again")
    assert needs(client) == []
    in_doubt(url, "again")
    assert needs(client) == [("again", "doubt")]
