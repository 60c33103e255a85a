"""Live events: everything once, in order, and from where a reader left off."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.support.stores import over_shared_stores
from tests.ui.conftest import Served, serving
from tests.ui.runs import asking, finished

import holdfast
from holdfast.ui.live import _newest


def messages(answer: httpx.Response) -> Iterator[tuple[str, str, Any]]:
    """The messages of a stream: kind, id, data."""
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if not line:
            if "data" in fields:
                yield fields.get("event", ""), fields.get("id", ""), json.loads(fields["data"])
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


def read_until(client: httpx.Client, path: str, is_last: Any, **headers: str) -> list[tuple[str, str, Any]]:
    """The messages of a stream up to one."""
    found = []
    with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        for message in messages(answer):
            found.append(message)
            if is_last(message):
                return found
    raise AssertionError(found)


def is_seq(seq: int) -> Any:
    return lambda message: message[0] == "event" and message[2]["seq"] == seq


def test_a_reader_gets_every_event_once_and_goes_on_where_it_left_off(client: httpx.Client, url: str) -> None:
    """With the id of the last event it saw, as browsers send it."""
    finished(url)
    head = holdfast.store(url).get("done").head
    first = read_until(client, "/live?run=done", is_seq(4))
    assert [data["seq"] for kind, _, data in first if kind == "event"] == [1, 2, 3, 4]
    rest = read_until(client, "/live?run=done", is_seq(head), **{"last-event-id": first[-1][1]})
    assert [data["seq"] for kind, _, data in rest if kind == "event"] == list(range(5, head + 1))
    tail = read_until(client, f"/live?run=done&after={head - 2}", is_seq(head))
    assert [data["seq"] for kind, _, data in tail if kind == "event"] == [head - 1, head]


@over_shared_stores
def test_what_a_run_records_arrives_while_it_works(shared_url: str) -> None:
    """On every store; the status changes when the run ends."""
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        with holdfast.run("live", store=shared_url) as run:
            run.step("first", len, "x")
            begun.set()
            assert go_on.wait(60)
            run.step("second", len, "xy")

    worker = threading.Thread(target=work)
    worker.start()
    try:
        assert begun.wait(60)
        with serving(holdfast.store(shared_url)) as served, served.client() as client:
            statuses, names = [], []
            with client.stream("GET", "/live?run=live") as answer:
                for kind, _, data in messages(answer):
                    if kind == "event" and data["kind"] == "step.finished":
                        names.append(data["name"])
                        go_on.set()
                    if kind == "status":
                        statuses.append(data["status"])
                        if data["status"] == "finished":
                            break
    finally:
        go_on.set()
        worker.join()
    assert names == ["first", "second"]
    assert statuses[-1] == "finished"
    assert len(statuses) == len(set(statuses))


def test_a_page_about_all_runs_is_told_that_something_changed(client: httpx.Client, url: str) -> None:
    """Also of a run that did not exist when the page was opened."""
    with client.stream("GET", "/live") as answer:
        lines = answer.iter_lines()
        assert next(lines) == ": connected"
        finished(url)
        assert next(line for line in lines if line.startswith("event")) == "event: changed"


def test_a_run_that_is_erased_ends_its_stream_with_the_reason(served: Served, url: str) -> None:
    """A reader is told, and does not come back for ever."""
    finished(url)
    with served.client() as client, client.stream("GET", "/live?run=done") as answer:
        found = messages(answer)
        assert next(found)[0] == "event"
        holdfast.store(url).erase("done")
        kinds = [(kind, data) for kind, _, data in found]
    assert kinds[-1][0] == "gone"
    assert "done" in kinds[-1][1]["problem"]


@pytest.mark.parametrize("given", ["x", "1", "-", "1-x", "1-" + "9" * 20])
def test_an_id_of_somebody_else_is_refused(client: httpx.Client, url: str, given: str) -> None:
    """It is never taken for the beginning, which would repeat everything."""
    finished(url)
    answer = client.get("/live?run=done", headers={"last-event-id": given})
    assert (answer.status_code, answer.json()["error"]) == (400, "Misuse")


def test_a_compacted_journal_is_followed_too(client: httpx.Client, url: str) -> None:
    """Its first event covers a stretch that is longer than a page."""
    with holdfast.run("long", store=url) as run:
        for n in range(150):
            run.step("work", str, n)
            if n % 50 == 49:
                run.checkpoint({"n": n})
        run.finish(1)
    holdfast.store(url).prune("long", policy={"checkpoints": holdfast.Keep(last=1)})
    store = holdfast.store(url)
    wanted = [event.seq for event in store.events("long")]
    got = read_until(client, "/live?run=long", is_seq(wanted[-1]))
    assert [data["seq"] for kind, _, data in got if kind == "event"] == wanted
    pages = client.get("/api/events?run=long&limit=500").json()["events"]
    assert [line["seq"] for line in pages] == wanted[: len(pages)]


def test_an_old_run_that_changes_is_told_too(url: str) -> None:
    """Before, only the newest 200 runs were looked at: one that was resumed behind them stayed as it was."""
    asking(url, "the-oldest")
    for number in range(210):
        with holdfast.run(f"run-{number}", store=url) as run:
            run.finish(number)
    store = holdfast.store(url)
    _, before = _newest(store)
    store.cancel("the-oldest", by="ada")
    assert _newest(store)[1] != before
