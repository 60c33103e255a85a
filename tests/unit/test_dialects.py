"""Conversations of Gemini, Ollama and Bedrock: calls without a result get one, and the rest stays as it was."""

from typing import Any

import pytest

from holdfast.core.llm.conversation import mend, validate
from holdfast.core.llm.conversation.dialects import Bedrock, Dialect, Gemini, Ollama


def gemini_call(name: str, city: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"city": city}, **more}, "thoughtSignature": "s"}


def gemini_result(name: str, said: str, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"result": said}, **more}}


def ollama_call(name: str, city: str) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": {"city": city}}}


def bedrock_call(call: str, city: str) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": call, "name": "look", "input": {"city": city}}}


def bedrock_result(call: str, said: str) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": call, "content": [{"text": said}]}}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def tool(said: str, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "content": said, **more}


def asks(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": list(calls)}


def blocks(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": list(content)}


WORDS: dict[str, Any] = {"text": "I look."}
DONE = "it rains"

CASES: dict[str, tuple[Dialect, list[Any], list[Any]]] = {
    "gemini: before a text of the user": (
        Gemini(),
        [user(WORDS), model(WORDS, gemini_call("look", "Ulm")), user(WORDS)],
        [user(WORDS), model(WORDS, gemini_call("look", "Ulm")), user(gemini_result("look", DONE), WORDS)],
    ),
    "gemini: at the end": (
        Gemini(),
        [user(WORDS), model(gemini_call("look", "Ulm", id="c1"))],
        [user(WORDS), model(gemini_call("look", "Ulm", id="c1")), user(gemini_result("look", DONE, id="c1"))],
    ),
    "gemini: the second of two of one name": (
        Gemini(),
        [model(gemini_call("look", "Ulm"), gemini_call("look", "Bern")), user(gemini_result("look", "sun"))],
        [
            model(gemini_call("look", "Ulm"), gemini_call("look", "Bern")),
            user(gemini_result("look", "sun"), gemini_result("look", DONE)),
        ],
    ),
    "gemini: the first of two, by the name of the other": (
        Gemini(),
        [model(gemini_call("look", "Ulm"), gemini_call("hear", "Ulm")), user(gemini_result("hear", "wind"))],
        [
            model(gemini_call("look", "Ulm"), gemini_call("hear", "Ulm")),
            user(gemini_result("hear", "wind"), gemini_result("look", DONE)),
        ],
    ),
    "ollama: before a text of the user": (
        Ollama(),
        [asks(ollama_call("look", "Ulm")), {"role": "user", "content": "And?"}],
        [asks(ollama_call("look", "Ulm")), tool(DONE, tool_name="look"), {"role": "user", "content": "And?"}],
    ),
    "ollama: one of two has a result without a name": (
        Ollama(),
        [asks(ollama_call("look", "Ulm"), ollama_call("hear", "Ulm")), tool("sun")],
        [
            asks(ollama_call("look", "Ulm"), ollama_call("hear", "Ulm")),
            tool("sun"),
            tool(DONE, tool_name="hear"),
        ],
    ),
    "ollama: with ids": (
        Ollama(),
        [asks({"id": "c1", **ollama_call("look", "Ulm")})],
        [
            asks({"id": "c1", **ollama_call("look", "Ulm")}),
            tool(DONE, tool_name="look", tool_call_id="c1"),
        ],
    ),
    "bedrock: before a text of the user": (
        Bedrock(),
        [blocks("assistant", WORDS, bedrock_call("t1", "Ulm")), blocks("user", WORDS)],
        [
            blocks("assistant", WORDS, bedrock_call("t1", "Ulm")),
            blocks("user", bedrock_result("t1", DONE), WORDS),
        ],
    ),
    "bedrock: one of two": (
        Bedrock(),
        [
            blocks("assistant", bedrock_call("t1", "Ulm"), bedrock_call("t2", "Bern")),
            blocks("user", bedrock_result("t2", "sun")),
        ],
        [
            blocks("assistant", bedrock_call("t1", "Ulm"), bedrock_call("t2", "Bern")),
            blocks("user", bedrock_result("t2", "sun"), bedrock_result("t1", DONE)),
        ],
    ),
}


@pytest.mark.parametrize(("dialect", "given", "sent"), CASES.values(), ids=list(CASES))
def test_a_call_without_a_result_gets_one(dialect: Dialect, given: list[Any], sent: list[Any]) -> None:
    """In the place and the form that the provider expects; every other part is the very part that was given."""
    said = dialect.read(given)
    assert said is not None
    mended, repairs = mend(said, found=lambda *_: DONE)
    assert [repair.what for repair in repairs] == ["settled"]
    assert dialect.write(mended) == sent
    again = dialect.read(sent)
    assert again is not None
    assert validate(again) == []


@pytest.mark.parametrize(("dialect", "given", "sent"), CASES.values(), ids=list(CASES))
def test_what_is_complete_is_written_as_it_was(dialect: Dialect, given: list[Any], sent: list[Any]) -> None:
    """The very same messages."""
    said = dialect.read(sent)
    assert said is not None
    mended, repairs = mend(said)
    assert repairs == []
    assert all(one is other for one, other in zip(dialect.write(mended), sent, strict=True))


@pytest.mark.parametrize("dialect", [Gemini(), Ollama(), Bedrock()])
def test_without_calls_there_is_nothing_to_read(dialect: Dialect) -> None:
    """Nor in what is no conversation."""
    texts = [user(WORDS), {"role": "user", "content": "Hi"}, blocks("user", WORDS), "text", None, {}]
    assert dialect.read(texts) is None


@pytest.mark.parametrize(
    ("dialect", "odd"),
    [
        (
            Gemini(),
            [model({"functionCall": {}}), user(gemini_result("hear", "wind")), "text", {"parts": None}],
        ),
        (Ollama(), [asks({"function": {}}), tool("wind"), {"role": "critic"}, "text"]),
        (Bedrock(), [blocks("assistant", {"toolUse": {}}), blocks("user", bedrock_result("t9", "?")), None]),
    ],
    ids=["gemini", "ollama", "bedrock"],
)
def test_what_is_not_understood_is_left_alone(dialect: Dialect, odd: list[Any]) -> None:
    """The provider judges it: a call without a name, a result of no call, an unknown role."""
    said = dialect.read(odd)
    assert said is not None
    assert validate(said) == []
    assert dialect.write(mend(said)[0]) == odd


def test_a_result_is_an_object_for_gemini() -> None:
    """What a tool returned as an object stays one; anything else is under ``result``."""
    made = Gemini.made_result({"name": "look"}, '{"rain": true}')
    assert made == {"name": "look", "response": {"rain": True}}
    assert Gemini.made_result({"name": "look"}, "[1]")["response"] == {"result": [1]}
