"""What a model call costs beside the model: a growing conversation on disk, the call itself, and the pieces of a stream."""

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orjson import dumps, loads

import holdfast
from bench.measuring import Figure, interleaved_us, size_on_disk
from bench.texts import message, prose
from holdfast.codec.blobs import address_of
from holdfast.core.state.tree import StoredNodes
from holdfast.engine.journal.drafts import draft
from holdfast.engine.journal.journal import Journal
from holdfast.engine.state.state_store import blobs_of
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.model.events import Kind

if TYPE_CHECKING:
    import httpx

TURNS = 400
PIECES = 4_000
ROUNDS = 9


def figures(place: Path) -> Iterator[Figure]:
    """Bytes of a conversation against its messages, and time against a plain step and a bare loop."""
    yield from _conversation(place)
    yield from _calls(place)
    yield from _wrapped(place)
    yield from _pieces(place)


def _conversation(place: Path) -> Iterator[Figure]:
    """The whole conversation is sent with every call, by a program that is restarted every 100 turns."""
    url = place / "talk.db"
    messages: list[dict[str, str]] = []
    write = prose()
    for _ in range(TURNS):
        messages += [message("user", write(1_000)), message("assistant", write(3_000))]
    sizes = []
    for turns in range(100, TURNS + 1, 100):
        _talk(url, messages, turns)
        holdfast.store(url).close()
        sizes.append(size_on_disk(url))
    unique = sum(len(json.dumps(message)) for message in messages)
    sent = sum(len(json.dumps(message)) * (TURNS - number // 2) for number, message in enumerate(messages))
    facts = (
        f"{TURNS} calls, {unique / 1e6:.1f} MB of messages, {sent / 1e6:.0f} MB sent, answers stored twice"
    )
    yield Figure("conversation on disk / its messages", sizes[-1] / unique, None, "×", facts)
    yield Figure(f"{TURNS} turns / {TURNS // 2} turns", sizes[-1] / sizes[1], 2.4, "× bytes", "linear is 2")


def _talk(url: Path, messages: list[dict[str, str]], turns: int) -> None:
    def ask(request: dict[str, Any]) -> dict[str, str]:
        return messages[len(request["messages"])]

    try:
        with holdfast.run("talk", store=url, loops=False) as run:
            for turn in range(turns):
                run.model("chat", ask, {"model": "m", "messages": messages[: 2 * turn + 1]})
            raise InterruptedError
    except InterruptedError:
        return


def _calls(place: Path) -> Iterator[Figure]:
    """A model call that returns at once, with a conversation of 20 messages before it, beside a step that does the same."""
    write = prose()
    history = [message("user", write(500)) for _ in range(20)]
    with holdfast.run("calls", store=place / "calls.db", loops=False) as run:
        numbers = itertools.count()

        def step() -> None:
            run.step("plain", len, f"{next(numbers)}")

        def model() -> None:
            asked = {"role": "user", "content": f"{next(numbers)}"}
            run.model("chat", len, {"model": "m", "messages": [*history, asked]})

        plain_us, model_us = interleaved_us([step, model], rounds=20, block=10)
    yield Figure(
        "model call / read step", model_us / plain_us, 3.0, "×", f"{model_us:.0f} µs, {plain_us:.0f} µs"
    )


def _wrapped(place: Path) -> Iterator[Figure]:
    """What a wrapped client adds to its own call, with 20 messages before it, beside a read step with the same bytes."""
    import httpx

    write = prose()
    history = [message("user", write(500)) for _ in range(20)]
    said = {"index": 0, "finish_reason": "stop", "message": message("assistant", write(1_000))}
    answer = {"id": "a", "object": "chat.completion", "created": 1, "model": "m", "choices": [said]}
    numbers = itertools.count()

    def asked() -> list[dict[str, str]]:
        return [*history, message("user", f"{next(numbers)}")]

    def recorded(_: object) -> dict[str, Any]:
        return answer

    def send(client: httpx.Client) -> None:
        client.post("http://provider/v1/chat/completions", json={"model": "m", "messages": asked()}).json()

    below = httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    with (
        httpx.Client(transport=below) as plain,
        holdfast.run("wrapped", store=place / "wrapped.db", loops=False) as run,
    ):
        client = holdfast.wrap(plain)
        journal = run._held.journal
        assert journal is not None
        least = httpx.Client(transport=httpx.MockTransport(_least(below, journal)))
        works = [
            lambda: send(plain),
            lambda: send(client),
            lambda: run.step("read", recorded, asked()),
            lambda: send(least),
        ]
        plain_us, wrapped_us, step_us, least_us = interleaved_us(works, rounds=20, block=10)
    facts = f"{wrapped_us:.0f} and {plain_us:.0f} µs with and without; {step_us:.0f} µs"
    yield Figure("what a wrapped call adds / read step", (wrapped_us - plain_us) / step_us, 1.5, "×", facts)
    facts = "a request parsed, its tree and its answer recorded in two appends; no identity, no feature"
    yield Figure(
        "the least that records such a call / read step", (least_us - plain_us) / step_us, None, "×", facts
    )


def _least(below: "httpx.BaseTransport", journal: Journal) -> "Callable[[httpx.Request], httpx.Response]":
    """The floor of a wrapped call: what it cannot do without, as it has to be recorded before it is sent."""
    nodes = StoredNodes(address_of, "bench")

    def send(request: "httpx.Request") -> "httpx.Response":
        planted = nodes.plant_json(loads(request.read()))
        assert planted is not None
        key = sha256(planted.identity).hexdigest()[:20] + ".1"
        intent = draft(Kind.STEP_STARTED, "least", key, {"effect": "model"}, parts={"request": planted.root})
        drive(journal.append(BLOCKING, [intent._replace(blobs=blobs_of(planted))], time.time(), synced=False))
        nodes.settle(planted)
        response = below.handle_request(request)
        value = dumps(loads(response.read()))
        journal.write([draft(Kind.STEP_FINISHED, "least", key, {"ms": 0.1}, value)], time.time(), [])
        return response

    return send


def _pieces(place: Path) -> Iterator[Figure]:
    """What a piece of a stream costs on its way through the journal's hands."""

    def words(_: object) -> Iterator[str]:
        return (f"word{number} " for number in range(PIECES))

    taken: list[float] = []
    with holdfast.run("pieces", store=place / "pieces.db", loops=False) as run:
        for number in range(ROUNDS):
            began = time.perf_counter()
            for _ in run.stream("answer", words, {"number": number}):
                pass
            taken.append((time.perf_counter() - began) / PIECES * 1e6)
    yield Figure(
        "a piece of a stream", statistics.median(taken), 15.0, "µs", f"{PIECES:,} pieces, median of {ROUNDS}"
    )
