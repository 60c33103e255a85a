"""Journals written by hand, event by event, as the engine would have written them: a second passes before each."""

from hashlib import sha256
from typing import Any

from orjson import dumps

from holdfast.core.steps.identity import site_of
from holdfast.limits import VALUE_INLINE_BYTES_MAX
from holdfast.model.events import Event, Kind, checksum

RUN = "debt"
BEGUN = 1772373731.0  # 2026-03-01 14:02:11 UTC


class Journal:
    """A run's events, and the contents that lie beside them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.blobs: dict[str, bytes] = {}
        self.read: list[str] = []
        """The addresses that somebody has read."""
        self.at = BEGUN
        self.fence = 0
        self.attempts = 0
        self._counts: dict[str, int] = {}

    # -- how it is read ---------------------------------------------------------------------------------------

    def look(self, address: str, size_bytes: int) -> bytes | None:
        """As an engine's reader: nothing beyond a bound."""
        self.read.append(address)
        return self.blobs[address] if size_bytes <= 1_000_000 else None

    def whole(self, address: str) -> bytes:
        return self.blobs[address]

    # -- what happens -----------------------------------------------------------------------------------------

    def add(self, kind: str, name: str = "", key: str = "", /, **body: Any) -> Event:
        self.at += 1
        seq = len(self.events) + 1
        content = (seq, self.at, kind, name, key, self.fence, dumps(self._stored(body)))
        event = Event(*content, checksum(RUN, *content))
        self.events.append(event)
        return event

    def _stored(self, body: dict[str, Any]) -> dict[str, Any]:
        if "value" not in body or len(data := dumps(body["value"])) <= VALUE_INLINE_BYTES_MAX:
            return body
        address = sha256(data).hexdigest()
        self.blobs[address] = data
        del body["value"]
        return {**body, "value_blob": address, "value_bytes": len(data)}

    def start(self, goal: str | None = "Explain sovereign debt cycles", inputs: Any = None) -> "Journal":
        self.add(Kind.RUN_STARTED, goal=goal, agent=None, workspace=None, inputs=inputs)
        return self.attempt()

    def attempt(self) -> "Journal":
        self.attempts += 1
        self.fence += 1
        self.add(Kind.ATTEMPT_STARTED, number=self.attempts, owner="host:1", fence=self.fence)
        return self

    def crash(self, *, after_s: float = 300.0) -> "Journal":
        """The process dies, and somebody notices later."""
        last = self.events[-1].seq
        self.at += after_s
        self.add(
            Kind.ATTEMPT_CRASHED,
            attempt=self.attempts,
            last="in the middle of 'x'",
            last_seq=last,
            last_beat_at=self.at,
            owner="host:1",
            proof="dead",
        )
        return self

    def end(self, how: str, error: str = "", message: str = "") -> "Journal":
        body: dict[str, Any] = {"how": how, "status": how if how != "closed" else "interrupted"}
        if error:
            body["error"] = {"type": f"builtins:{error}", "message": message}
        self.add(Kind.ATTEMPT_ENDED, **body)
        return self

    def key(self, name: str, arguments: Any = None, scope: str = "") -> str:
        """The key of the next call with this name and these arguments."""
        site = site_of(scope, name, dumps(arguments))
        self._counts[site] = self._counts.get(site, 0) + 1
        return f"{site}.{self._counts[site]}"

    def mark(self, name: str, value: Any) -> Event:
        return self.add(Kind.MARK, name, self.key(f"mark:{name}", value), value=value)

    def begin(
        self, name: str, arguments: Any = None, *, effect: str = "read", scope: str = "", **more: Any
    ) -> str:
        """A step begins; its key."""
        key = self.key(name, arguments, scope)
        body = {"effect": effect, **more, "in": scope, "after": "", "args": arguments or {}}
        self.add(Kind.STEP_STARTED, name, key, **body)
        return key

    def step(self, name: str, value: Any = None, arguments: Any = None, **more: Any) -> str:
        """A step that comes to a result."""
        key = self.begin(name, arguments, **more)
        self.add(Kind.STEP_FINISHED, name, key, ms=5.0, value=value)
        return key

    def fail(self, name: str, error: str, message: str, arguments: Any = None, key: str = "") -> str:
        """A step that fails; with a key, the same call once more."""
        if key:
            self.add(
                Kind.STEP_STARTED, name, key, effect="read", after="", args=arguments or {}, **{"in": ""}
            )
        key = key or self.begin(name, arguments)
        self.add(Kind.STEP_FAILED, name, key, ms=5.0, error={"type": f"builtins:{error}", "message": message})
        return key

    def ask_model(self, name: str = "think", model: str = "gpt-4o-mini") -> str:
        """A model is asked; the key of the call. The request lies in the run's garden, and is nobody's business here."""
        key = self.key(name, {"model": model})
        body = {
            "effect": "model",
            "model": model,
            "provider": "openai",
            "request": ["#v", "ab"],
            "request_bytes": 90,
        }
        self.add(Kind.STEP_STARTED, name, key, **body, after="", **{"in": ""})
        return key

    def answer(self, answer: Any, name: str = "think", model: str = "gpt-4o-mini") -> str:
        """A model is asked and answers."""
        key = self.ask_model(name, model)
        self.add(Kind.STEP_FINISHED, name, key, usage={"input_tokens": 12}, ms=5.0, value=answer)
        return key

    def chunk(self, key: str, n: int, tries: int = 1, name: str = "think", **body: Any) -> Event:
        """A piece of the answer: the n-th of this try."""
        return self.add(Kind.STREAM_CHUNK, name, key, **{"try": tries, "n": n, **body})


def completion(text: str | None, *, calls: Any = None, **message: Any) -> dict[str, Any]:
    """A chat completion."""
    said = {"role": "assistant", "content": text, **message}
    if calls:
        functions = [{"name": name, "arguments": dumps(given).decode()} for name, given in calls]
        said["tool_calls"] = [
            {"id": f"c{i}", "type": "function", "function": function} for i, function in enumerate(functions)
        ]
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"index": 0, "message": said}]}
