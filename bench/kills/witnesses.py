"""What a kill cost, told by those who have no hand in Holdfast: the provider, the bare tables, the world's files."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import apsw
from tests.support.model_server.records import Exchange


class Loss(NamedTuple):
    """What one kill lost: of a stream that was under way, what the provider had sent and the journal does not have."""

    seed: int
    kind: str
    """``stream`` or ``call`` (arguments of a tool) where an answer was under way, else ``between``."""
    tokens: int
    chars: int
    sent_tokens: int
    """What had been sent of that answer in this attempt."""
    lost_ms: float
    """How long before the kill the first of the lost tokens was sent."""
    late_tokens: int = 0
    """What the provider still sent to the dead, until it noticed: sent again too, but nobody's loss."""


class Verdict(NamedTuple):
    """What became of one run, over all its kills."""

    losses: list[Loss]
    attempts: int
    finished_calls_lost: int
    effects_twice: int
    effects_missing: int
    answers_changed: int
    streamed_tokens: int
    needed_tokens: int
    """What one calm run streams: the rest was sent again."""
    seconds: float


def lines(file: Path) -> list[dict[str, Any]]:
    """The lines of one of the world's files; one that was cut off in its middle is not there."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


class Journal(NamedTuple):
    """What stands in the tables, read without Holdfast: the model calls begun and ended, and the chunks of each."""

    asked: dict[str, float]
    """When each was begun for the first time."""
    answered: set[str]
    chunks: dict[str, list[dict[str, Any]]]

    @classmethod
    def read(cls, database: Path) -> "Journal":
        """The journal as a killed process has left it."""
        journal = cls({}, set(), {})
        for at, kind, key, body in _rows(database):
            if kind == "step.started" and body.get("effect") == "model":
                journal.asked.setdefault(key, at)
            elif kind == "step.finished" and "usage" in body:
                journal.answered.add(key)
            elif kind == "stream.chunk":
                journal.chunks.setdefault(key, []).append(body)
        return journal

    @staticmethod
    def kinds(database: Path) -> Counter[str]:
        """How many events of each kind there are."""
        found = _query(database, "SELECT kind, count(*) FROM events GROUP BY kind")
        return Counter({str(kind): int(str(count)) for kind, count in found})

    def under_way_since(self) -> float | None:
        """When the model call was begun that has no outcome, if there is one. One is under way at a time."""
        return max((at for key, at in self.asked.items() if key not in self.answered), default=None)

    def surviving(self) -> str:
        """The text of the answer that was under way, as the next attempt finds it."""
        under_way = [key for key in self.chunks if key not in self.answered]
        if not under_way:
            return ""
        return _joined(self.chunks[under_way[-1]])


def _rows(database: Path) -> list[tuple[float, str, str, dict[str, Any]]]:
    found = _query(database, "SELECT at, kind, key, body FROM events ORDER BY seq")
    return [(float(str(at)), str(kind), str(key), _told(_text(body))) for at, kind, key, body in found]


def _told(body: str) -> dict[str, Any]:
    """What an event tells, by its bytes alone: its fields on one line, what others said on the next."""
    return {name: part for line in body.splitlines() for name, part in json.loads(line).items()}


def _query(database: Path, query: str) -> list[tuple[Any, ...]]:
    if not database.exists():
        return []
    connection = apsw.Connection(str(database))
    try:
        connection.set_busy_timeout(10_000)
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'events'").fetchall():
            return []  # killed before the store was made
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def _text(body: Any) -> str:
    return body.decode() if isinstance(body, bytes) else str(body)


def _joined(chunks: list[dict[str, Any]]) -> str:
    """The pieces of the last try, after what it went on from: a try that begins anew leaves the earlier ones behind."""
    text = ""
    last = None
    for chunk in chunks:
        if chunk["try"] != last:
            last = chunk["try"]
            if not chunk.get("continues"):
                text = ""
        text += chunk.get("reasoning", "") + chunk.get("text", "")
        text += "".join(call.get("arguments", "") for call in chunk.get("calls", ()))
    return text


def loss_at_kill(seed: int, exchanges: list[Exchange], journal: Journal, killed_at: float) -> Loss:
    """What is gone of the answer that was under way; ``exchanges`` are those of all attempts, and of the killed one."""
    last = exchanges[-1] if exchanges else None
    if last is None or len(journal.answered) >= len({index_of(one.body) for one in exchanges}):
        return Loss(seed, "between", 0, 0, 0, 0.0)
    sent = [(at, text) for at, text in last.sent if at <= killed_at]
    whole = _begun(last.body) + "".join(text for _, text in sent)
    survives = journal.surviving()
    assert whole.startswith(survives) or survives.startswith(whole), f"{survives[-40:]!r} of {whole[-40:]!r}"
    chars = left = max(0, len(whole) - len(survives))
    tokens = 0
    while left > 0:  # also tokens that an earlier attempt had, if they are gone now
        tokens += 1
        left -= len(sent[-tokens][1]) if tokens <= len(sent) else 6
    times = [at for at, _ in sent[-tokens:]] if tokens else []
    lost_ms = (killed_at - times[0]) * 1000 if times else 0.0
    kind = "call" if "#call=" in str(last.body["messages"][-1]["content"]) else "stream"
    return Loss(seed, kind, tokens, chars, len(sent), lost_ms, len(last.sent) - len(sent))


def index_of(body: dict[str, Any]) -> int:
    """Which of the agent's calls a request is, or goes on with: the parts are counted in the user's messages."""
    said = [str(message["content"]) for message in body["messages"] if message["role"] == "user"]
    return sum(text.startswith("Part ") for text in said) - 1


def _begun(body: dict[str, Any]) -> str:
    """The beginning of the answer that the request brought along."""
    last = body["messages"][-1]
    if last["role"] == "assistant":
        return str(last["content"])
    if not str(last["content"]).startswith("Part ") and body["messages"][-2]["role"] == "assistant":
        return str(body["messages"][-2]["content"])
    return ""


def finished_calls_lost(exchanges: list[Exchange], acks: list[dict[str, Any]]) -> int:
    """How many calls were asked again after their whole answer had reached the program."""
    received: dict[int, float] = {}
    for ack in acks:
        received.setdefault(ack["index"], ack["at"])
    again = {
        index_of(exchange.body)
        for exchange in exchanges
        if exchange.at > received.get(index_of(exchange.body), float("inf"))
    }
    return len(again)


def effects(ledger: list[dict[str, Any]], calm: list[dict[str, Any]]) -> tuple[int, int]:
    """How many effects happened more often than in a calm run, and how many less."""
    happened = Counter((line["number"], line["text"]) for line in ledger)
    wanted = Counter((line["number"], line["text"]) for line in calm)
    return (happened - wanted).total(), (wanted - happened).total()


def answers_changed(acks: list[dict[str, Any]], calm: list[dict[str, Any]]) -> int:
    """How many answers reached the program otherwise than in a calm run: torn, doubled, or out of their order."""
    wanted = {ack["index"]: ack["digest"] for ack in calm}
    return sum(ack["digest"] != wanted.get(ack["index"]) for ack in acks)
