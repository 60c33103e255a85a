"""An agent that talks to a model: ``talking.py``. What the model is asked, it writes to ``asked``; each piece that the agent
was given of a streamed answer, to ``given``. The model is a function: what it says is decided by what it is asked.
"""

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import holdfast

WORDS = 30


def tell(file: str, *line: Any) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, json.dumps(line).encode() + b"\n")
    os.close(fd)


def words(request: Any) -> list[str]:
    seed = sha256(json.dumps(request).encode()).hexdigest()
    return [f"{seed[number % 60 : number % 60 + 4]} " for number in range(WORDS)]


def ask(request: Any) -> dict[str, Any]:
    tell("asked", len(request["messages"]))
    return {"text": "".join(words(request)), "usage": {"input_tokens": 3, "output_tokens": WORDS}}


def stream(request: Any) -> Iterator[str]:
    tell("asked", len(request["messages"]))
    yield from words(request)


def go_on(request: Any, text: str) -> Iterator[str]:
    tell("continued", len(request["messages"]), text)
    rest = words(request)[len(text.split()) :]
    if rest:
        yield " " + rest[0]
        yield from rest[1:]


def flush(run: Any) -> None:
    """Write what has come now, so that it does not depend on the clock where the process is struck."""
    for work in run._held.in_flight():
        work.flush()


def main() -> None:
    with holdfast.run("agent") as run:
        messages: list[dict[str, str]] = [{"role": "user", "content": "Begin."}]
        for turn in range(3):
            answer = run.model("chat", ask, {"model": "m", "messages": messages})
            tell("answered", turn)
            messages.append({"role": "assistant", "content": answer["text"]})
            told = ""
            for number, piece in enumerate(run.stream("talk", stream, {"messages": messages}, go_on=go_on)):
                told += piece
                if number % 10 == 5 and not run.replaying:
                    flush(run)
            tell("answered", turn + 0.5)
            messages.append({"role": "user", "content": told})
            if turn == 1:
                run.checkpoint({"messages": messages})
        run.finish([message["content"] for message in messages])


if __name__ == "__main__":
    Path("asked").touch()
    main()
