"""What a wrapped call costs in calls of Python: what was sent before is not looked at again, message by message."""

import json
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest

import holdfast
from holdfast.engine.run.held_run import CHECK_ARGUMENTS
from holdfast.engine.steps import given_arguments

ANSWER = {
    "id": "a",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Done."}}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 3},
}
URL = "http://provider/v1/chat/completions"
OURS = str(Path(holdfast.__file__).parent)


def texts(number: int) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": f"{number} " * 100},
        {"role": "assistant", "content": f"{number}! " * 100},
    ]


def tools(number: int) -> list[dict[str, Any]]:
    function = {"name": "find", "arguments": json.dumps({"number": number, "text": "x" * 300})}
    asked = [{"id": f"call-{number}", "type": "function", "function": function}]
    return [
        {"role": "user", "content": f"{number} " * 100},
        {"role": "assistant", "content": None, "tool_calls": asked},
        {"role": "tool", "tool_call_id": f"call-{number}", "content": f"found {number} " * 50},
    ]


def python_calls(place: Path, turn: Any, turns: int) -> int:
    """How many functions of Holdfast the last call of a conversation of so many turns enters."""
    seen: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            seen[frame.f_code.co_qualname] += 1

    messages: list[dict[str, Any]] = []
    below = httpx.MockTransport(lambda _: httpx.Response(200, json=ANSWER))
    with (
        httpx.Client(transport=below) as plain,
        holdfast.run("count", store=place / f"{turns}.db", loops=False),
    ):
        client = holdfast.wrap(plain)
        for number in range(turns):
            messages += turn(number)
            if number == turns - 1:
                sys.setprofile(note)
            try:
                client.post(URL, json={"model": "m", "messages": messages}).raise_for_status()
            finally:
                sys.setprofile(None)
    return seen.total()


def test_a_call_looks_only_at_what_is_new_in_its_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tree of the request has some more levels, nothing else grows.

    Before, the 21st turn with a tool took 1,332 calls and the 81st 3,770: each message was tagged, read and
    checked again in every call.
    """
    monkeypatch.delenv(CHECK_ARGUMENTS, raising=False)  # a look at all arguments, in tests at every call
    monkeypatch.setattr(given_arguments, "is_due", lambda _: False)
    for turn in (texts, tools):
        few, many = (python_calls(tmp_path / turn.__name__, turn, turns) for turns in (21, 81))
        assert few <= 470
        assert many <= few + 60
