"""Prepares the messages of a request: removes what this model must not get, and refuses what it would refuse.

Holdfast keeps reasoning exactly as a provider gave it, because that provider may need it back unchanged. A
message with reasoning has a tag that names the provider and the model. The tag is removed before the message
is sent. Another provider or model does not get the reasoning: it cannot read it, and some refuse it.
"""

from collections.abc import Mapping, Sequence
from re import compile as pattern
from typing import Any, Final

from holdfast.core.llm.conversation.message import REASONING_FIELDS, REASONING_PARTS, is_empty
from holdfast.core.llm.conversation.repair import mend
from holdfast.core.llm.conversation.validity import Problem, are_texts, validate
from holdfast.errors import InvalidHistory
from holdfast.model.secret_text import masked_text

TAG: Final = "holdfast"
"""The key of the tag in a message: which provider and model made it."""

_DATE: Final = pattern(r"([-@:](\d{8}|\d{4}-\d{2}-\d{2}|latest))+$")
SMOOTHED: Final = frozenset({"bad_arguments", "empty_assistant"})
"""Problems that only some providers refuse. They are repaired in what is sent, without a report."""


def tag(message: Mapping[str, Any], provider: str, model: str) -> dict[str, Any]:
    """The message with the tag of its provider and model."""
    return {**message, TAG: {"provider": provider, "model": model}}


def tag_reasoning(answer: dict[str, Any], provider: str, model: str) -> dict[str, Any]:
    """The answer, with a tag on each message or item that has reasoning; itself if none has."""
    changed: dict[str, Any] = {}
    choices = answer.get("choices") or ()
    for index, choice in enumerate(choices):
        message = choice.get("message") if isinstance(choice, dict) else None
        if isinstance(message, dict) and _without_reasoning(message) != message:
            changed.setdefault("choices", list(choices))[index] = {
                **choice,
                "message": tag(message, provider, model),
            }
    items = answer.get("output")
    if isinstance(items, list):
        for index, item in enumerate(items):
            if isinstance(item, dict) and item.get("type") == "reasoning":
                changed.setdefault("output", list(items))[index] = tag(item, provider, model)
    return {**answer, **changed} if changed else answer


def for_model(messages: Sequence[Any], provider: str | None, model: str | None) -> list[Any]:
    """The messages as this model gets them: without tags, and without reasoning of another model.

    None is an unknown provider or model: then nothing is left out on its account. Reasoning without a tag
    stays.
    """
    sent: list[Any] = []
    for message in messages:
        if not isinstance(message, Mapping) or TAG not in message:
            sent.append(message)
            continue
        bare = {name: value for name, value in message.items() if name != TAG}
        if _is_foreign(message[TAG], provider, model):
            foreign = _without_reasoning(bare)
            if foreign is None or (foreign.get("role") == "assistant" and is_empty(foreign)):
                continue
            bare = foreign
        sent.append(bare)
    return sent


def is_ready(messages: Sequence[Any]) -> bool:
    """Whether any model may get these messages as they are: nothing to repair, no tagged reasoning."""
    if are_texts(messages):
        return True
    has_tags = any(isinstance(message, Mapping) and TAG in message for message in messages)
    return not has_tags and not validate(messages)


def prepare_request(
    messages: Sequence[Any], provider: str | None, model: str | None, *, continues: bool = False
) -> list[Any]:
    """The messages to send to this model. Raises InvalidHistory if every provider would refuse them.

    ``continues``: the provider has the messages before them. An empty message of the assistant is left out,
    and arguments that are no JSON object are wrapped in one: some providers refuse these, and nothing is
    lost.
    """
    sent = for_model(messages, provider, model)
    problems = validate(sent, continues=continues)
    if not problems:
        return sent
    grave = [problem for problem in problems if problem.code not in SMOOTHED]
    if grave:
        raise refusal_of(grave)
    return mend(sent, continues=continues)[0]


def refusal_of(problems: Sequence[Problem]) -> InvalidHistory:
    """The error for a conversation with these problems. It names the first one."""
    first = problems[0]
    return InvalidHistory(index=first.at, code=first.code, problem=first.text, count=len(problems))


def plain_of(tree: Any) -> Any:
    """A recorded value as plain JSON: typed objects become their fields, without those that are None."""
    if type(tree) is list:
        return [plain_of(part) for part in tree]
    if type(tree) is not dict:
        return tree
    if "$" not in tree:
        return {name: plain_of(part) for name, part in tree.items()}
    if (text := masked_text(tree)) is not None:
        return text
    if tree["$"] == "enum":
        return tree.get("v", tree.get("name"))
    inner = tree.get("v")
    if type(inner) is not dict:
        return plain_of(inner)
    fields = {**inner, **(tree.get("extra") or {})}
    return {name: plain_of(part) for name, part in fields.items() if part is not None}


def _is_foreign(made_by: Any, provider: str | None, model: str | None) -> bool:
    by: Mapping[str, Any] = made_by if isinstance(made_by, Mapping) else {}
    if provider is not None and by.get("provider") and by["provider"] != provider:
        return True
    return model is not None and bool(by.get("model")) and _family(by["model"]) != _family(model)


def _family(model: str) -> str:
    """The name of a model without the date of its version.

    Providers add a date to the name in their answers.
    """
    return _DATE.sub("", model.lower())


def _without_reasoning(message: dict[str, Any]) -> dict[str, Any] | None:
    """The message without its reasoning and what refers to that; None for an item that is only reasoning."""
    if message.get("type") == "reasoning":
        return None
    bare = {name: value for name, value in message.items() if name not in REASONING_FIELDS}
    if "type" in bare and "id" in bare:
        del bare["id"]  # the provider refuses an item with a known id if the reasoning before it is missing
    if isinstance(bare.get("content"), list):
        bare["content"] = [part for part in bare["content"] if not _is_thought(part)]
    if isinstance(bare.get("tool_calls"), list):
        bare["tool_calls"] = [_unsigned(call) for call in bare["tool_calls"]]
    return bare


def _is_thought(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in REASONING_PARTS


def _unsigned(call: Any) -> Any:
    """A call without the signature of its reasoning, which some providers add."""
    if not isinstance(call, Mapping) or "extra_content" not in call:
        return call
    return {name: value for name, value in call.items() if name != "extra_content"}
