"""Messages between the runs of one store: each once, in order, across restarts on both sides."""

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from orjson import dumps, loads

import holdfast
from holdfast.limits import INBOX_MESSAGES_MAX


@dataclass
class Note:
    text: str
    size: int


def park(store: holdfast.Store, name: str) -> None:
    with holdfast.run(name, store=store, stops="suppress") as run:
        run.receive()


def test_a_message_is_received_once_as_it_was_and_in_order(tmp_path: Path) -> None:
    """Typed, long ones too; parked where there is none; replayed from the journal on both sides.

    Planted: receiving without consuming the letter gives the first one for ever.
    """
    store = holdfast.store(tmp_path / "a.db")
    park(store, "b")
    assert store.get("b").status == "parked"
    sent = [Note("one", 1), {"n": 2}, "x" * 100_000, None]
    for _ in range(2):  # the second time it is replayed
        with pytest.raises(KeyError), holdfast.run("a", store=store) as run:
            for message in sent:
                run.send("b", message)
            raise KeyError
    got: list[Any] = []
    for _ in range(3):
        with holdfast.run("b", store=store, stops="suppress") as run:
            got = []
            while True:
                message = run.receive()
                got.append(message.value)
                assert (message.sender, message.at > 0) == ("a", True)
    assert got == sent
    assert store.get("b").status == "parked"
    assert store._port.scan_records("inbox/b", limit=9) == []
    assert [event.kind for event in store.events("b")].count("message.received") == 4


def test_a_message_that_was_received_and_is_sent_again_is_put_away(tmp_path: Path) -> None:
    """Its sender was killed between the letter and the record of it. Planted: without `heard` it is received twice."""
    store = holdfast.store(tmp_path / "a.db")
    park(store, "b")
    with holdfast.run("a", store=store) as run:
        run.send("b", "one")
    (letter,) = store._port.scan_records("inbox/b", limit=9)
    for _ in range(2):
        with holdfast.run("b", store=store, stops="suppress") as run:
            assert run.receive().value == "one"
            run.receive()
        store._port.put_record(letter.space, letter.key, letter.body, revision=0)
    assert [event.kind for event in store.events("b")].count("message.received") == 1


def test_each_senders_messages_come_in_its_own_order(tmp_path: Path) -> None:
    """Whatever its clock does. Planted: sorted by time alone, the second comes first."""
    store = holdfast.store(tmp_path / "a.db")
    park(store, "b")
    for sender in ("a", "c"):
        with holdfast.run(sender, store=store) as run:
            run.send("b", f"{sender}1")
            run.send("b", f"{sender}2")
    for record in store._port.scan_records("inbox/b", limit=9):
        body = loads(record.body)
        if body["from"] == "a":  # its clock was put back in between
            body["at"] = 1000.0 - body["n"]
            store._port.put_record(record.space, record.key, dumps(body), revision=record.revision)
    with holdfast.run("b", store=store) as run:
        assert [run.receive().value for _ in range(4)] == ["a1", "a2", "c1", "c2"]


def test_a_waiting_run_is_woken(tmp_path: Path) -> None:
    """In a thread that blocks, and in a task that awaits; two tasks get one each."""
    store = holdfast.store(tmp_path / "a.db")
    park(store, "b")
    park(store, "c")

    def send_all() -> None:
        with holdfast.run("a", store=store) as run:
            for to in ("b", "c", "c"):
                run.send(to, f"for {to}")

    with holdfast.run("b", store=store) as run:
        sender = threading.Thread(target=send_all)
        sender.start()
        assert run.receive(wait_s=30).value == "for b"
        sender.join()

    async def both() -> None:
        async with holdfast.run("c", store=store) as run:

            async def one(number: int) -> str:
                with run.scope(f"task {number}"):
                    value: str = (await run.receive(wait_s=None)).value
                    return value

            assert [*await asyncio.gather(one(1), one(2))] == ["for c", "for c"]

    asyncio.run(both())


def test_what_cannot_be_delivered_is_refused(tmp_path: Path) -> None:
    """No such run, one that is over, one that was handed over, a full inbox; nothing is left behind."""
    store = holdfast.store(tmp_path / "a.db")
    with holdfast.run("done", store=store):
        pass
    with holdfast.run("gone", store=store) as run:
        run.handoff(to="next", seal=True)
    park(store, "full")
    for number in range(INBOX_MESSAGES_MAX):
        body = {
            "kind": "message",
            "id": str(number),
            "from": "x",
            "n": number,
            "body": {"value": 1},
            "at": 1.0,
        }
        store._port.put_record("inbox/full", f"message-{number:04}", dumps(body), revision=0, synced=False)
    with holdfast.run("a", store=store) as run:
        for to, refusal in (
            ("nobody", holdfast.UnknownRun),
            ("done", holdfast.Undeliverable),
            ("gone", holdfast.RunSealed),
            ("full", holdfast.TooLarge),
        ):
            with pytest.raises(refusal):
                run.send(to, 1)
        with pytest.raises(holdfast.NotStorable):
            run.send("full", threading.Lock())
    assert store._port.scan_records("inbox/gone", limit=9) == []


def test_a_message_makes_a_workers_run_due(tmp_path: Path) -> None:
    """Parked for want of one, it is nobody's business; a message calls it up."""
    store = holdfast.store(tmp_path / "a.db")

    @holdfast.agent("reader")
    def reader() -> str:
        return str(holdfast.current().receive().value)  # type: ignore[union-attr]

    reader.submit("r", store=store)
    with pytest.raises(holdfast.Parked):
        reader.run("r", store=store)
    row = store._port.find_run("r")
    assert row is not None
    assert (row.status, row.due_at) == ("parked", None)
    with holdfast.run("a", store=store) as run:
        run.send("r", "hello")
    row = store._port.find_run("r")
    assert row is not None
    assert row.due_at is not None
    assert reader.run("r", store=store) == "hello"
