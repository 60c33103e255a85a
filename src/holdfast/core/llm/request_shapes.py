"""Recognises requests to models and their answers by shape: a line for people, and the tokens used.

It knows OpenAI's chat completions, responses and embeddings, Anthropic's messages, Gemini's contents,
Ollama's chats, Bedrock's Converse, and messages made of parts. Of other shapes it reads what it can and
invents nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from holdfast.core.llm.message_shapes import message_line, role_of
from holdfast.core.text.value_text import count, one_line
from holdfast.model.usage import Usage

_LINE_CHARS_MAX: Final = 100
_ANSWER_CHARS_MAX: Final = 160
_NOTHING: Final[Mapping[str, Any]] = {}
_CONVERSATIONS: Final = ("messages", "input", "contents", "prompt")


def summary(request: Any, identity: str, as_text: Callable[[Any], Any] = lambda one: one) -> dict[str, Any]:
    """What an intent records of a request: the number of messages, the last one, and its identity.

    ``as_text`` takes out of a message what no text for people may have.
    """
    summarized: dict[str, Any] = {}
    if type(request) is dict:
        last = next((request[name] for name in _CONVERSATIONS if name in request), None)
        if type(last) is list:
            summarized["messages"] = len(last)
            last = last[-1] if last else None
        if last is not None:
            last = as_text(last)
            role = role_of(last)
            line = f"{role}: {message_line(last)}" if role else message_line(last)
            summarized["last"] = one_line(line, _LINE_CHARS_MAX)
    return {**summarized, "request": identity}


def asked_line(intent: Mapping[str, Any]) -> str:
    """A request on one line, from the intent of the call: ``gpt-4o, 3 messages: user: Go on``."""
    given = intent.get("args")
    args = given if isinstance(given, dict) else {}
    sent = count(args["messages"], "message") if type(args.get("messages")) is int else ""
    head = ", ".join(part for part in (str(intent.get("model") or ""), sent) if part)
    return ": ".join(part for part in (head, str(args.get("last") or "")) if part)


def answered_line(value: Any) -> str | None:
    """A model's answer on one line; None if its shape is not known."""
    if type(value) is str:
        return one_line(value, _ANSWER_CHARS_MAX)
    if type(value) is not dict:
        return None
    choices, output, candidates = value.get("choices"), value.get("output"), value.get("candidates")
    if type(choices) is list and choices and type(choices[0]) is dict:
        return message_line(choices[0].get("message"))
    if type(candidates) is list and candidates and type(candidates[0]) is dict:
        return message_line(_without_thoughts(candidates[0].get("content")))
    if type(output) is list:
        return "; ".join(
            message_line(item) for item in output if type(item) is dict and item.get("type") != "reasoning"
        )
    return _vectors_line(value) or _message_line(output if type(output) is dict else value)


def _vectors_line(value: Mapping[str, Any]) -> str | None:
    many = next((value[name] for name in ("data", "embeddings") if type(value.get(name)) is list), None)
    if many is None and "embedding" in value:
        many = [value["embedding"]]
    return None if many is None else count(len(many), "vector")


def _message_line(value: Mapping[str, Any]) -> str | None:
    """An answer that is a message, or has one."""
    if type(value.get("message")) is dict:
        return message_line(value["message"])
    if type(value.get("response")) is str:
        return one_line(value["response"], _ANSWER_CHARS_MAX)
    if type(value.get("parts")) is list:
        return message_line({"role": "assistant", "parts": value["parts"]})
    if type(value.get("content")) is list:  # Anthropic's answer is the message
        said = [
            part
            for part in value["content"]
            if type(part) is dict and "thinking" not in str(part.get("type"))
        ]
        return message_line({"role": "assistant", "content": said})
    return None


def _without_thoughts(content: Any) -> Any:
    """Gemini's content; its thoughts are parts like the others."""
    parts = content.get("parts") if type(content) is dict else None
    if type(parts) is not list:
        return {"role": "model", "parts": []}
    return {**content, "parts": [part for part in parts if not (type(part) is dict and part.get("thought"))]}


def tokens_line(usage: Mapping[str, Any]) -> str:
    """``120 tokens in, 30 out``; empty if neither is known."""
    sent, got = usage.get("input_tokens"), usage.get("output_tokens")
    if sent is None and got is None:
        return ""
    return ", ".join(
        part
        for part in (
            f"{sent:,} tokens in" if sent is not None else "",
            f"{got:,} out" if got is not None else "",
        )
        if part
    )


def parts(request: Any) -> dict[str, Any]:
    """The parts of a request by name, each message one of them, to show how two requests differ."""
    if type(request) is not dict:
        return {"request": request}
    found: dict[str, Any] = {}
    for name, value in request.items():
        if name in _CONVERSATIONS and type(value) is list:
            found |= {f"{name}[{number}]": said for number, said in enumerate(value)}
        else:
            found[name] = value
    return found


def model_in(request: Any) -> str:
    """The model that a request names; empty if it names none."""
    name = request.get("model") if type(request) is dict else None
    return name if type(name) is str else ""


def usage_in(answer: Any, *, model: str = "", provider: str = "") -> Usage:
    """The usage that an answer reports. What it does not report is None."""
    fields = _fields(answer)
    usage = _fields(fields.get("usage") or fields.get("usageMetadata"))
    if "eval_count" in fields or "prompt_eval_count" in fields:
        usage = fields  # Ollama has its counts beside the answer
    named = fields.get("model") or fields.get("model_name") or fields.get("modelVersion")
    model = named if type(named) is str and named else model
    if not usage:
        return Usage(model, provider)
    sent = _count(
        usage, "prompt_tokens", "input_tokens", "inputTokens", "promptTokenCount", "prompt_eval_count"
    )
    got = _count(
        usage, "completion_tokens", "output_tokens", "outputTokens", "candidatesTokenCount", "eval_count"
    )
    reasoned = _detail(
        usage, ("completion_tokens_details", "output_tokens_details", "details"), "reasoning_tokens"
    )
    if "promptTokenCount" in usage:
        # Gemini's counts do not include the reasoning, and what its own tools put into the prompt.
        reasoned = _count(usage, "thoughtsTokenCount")
        got = (got or 0) + (reasoned or 0)
        sent = (sent or 0) + (_count(usage, "toolUsePromptTokenCount") or 0)
    cached = _detail(usage, ("prompt_tokens_details", "input_tokens_details"), "cached_tokens")
    cached = _count(usage, "cache_read_tokens", "cachedContentTokenCount") if cached is None else cached
    if "cache_read_input_tokens" in usage and sent is not None:
        # Anthropic's input tokens do not include the cached ones; OpenAI's do.
        cached = _count(usage, "cache_read_input_tokens")
        sent += (cached or 0) + (_count(usage, "cache_creation_input_tokens") or 0)
    if "cacheReadInputTokens" in usage and sent is not None:  # the same on Bedrock
        cached = _count(usage, "cacheReadInputTokens")
        sent += (cached or 0) + (_count(usage, "cacheWriteInputTokens") or 0)
    return Usage(
        model=model,
        provider=provider,
        input_tokens=sent,
        output_tokens=got,
        cached_tokens=cached,
        reasoning_tokens=reasoned,
    )


def with_tries(usage: Usage, cut_off: Iterable[Usage]) -> Usage:
    """The usage of a whole call: its last try, and earlier ones, as far as they reported theirs."""
    for one in cut_off:
        usage = usage._replace(
            input_tokens=_sum(usage.input_tokens, one.input_tokens),
            output_tokens=_sum(usage.output_tokens, one.output_tokens),
            cached_tokens=_sum(usage.cached_tokens, one.cached_tokens),
            reasoning_tokens=_sum(usage.reasoning_tokens, one.reasoning_tokens),
            at_least=True,
        )
    return usage


def _sum(known: int | None, more: int | None) -> int | None:
    """What the last try did not report stays unknown."""
    return known if known is None or more is None else known + more


def known_of(usage: Usage) -> dict[str, Any]:
    """The usage as it is recorded: without what is unknown."""
    return {
        name: value
        for name, value in usage._asdict().items()
        if value is not None and value is not False and not (type(value) is str and not value)
    }


def usage_of(recorded: Mapping[str, Any]) -> Usage:
    """The usage from its record. Fields of a later version are ignored."""
    return Usage(**{name: value for name, value in recorded.items() if name in Usage._fields})


def _fields(value: Any) -> Mapping[str, Any]:
    if type(value) is dict or value is None or isinstance(value, Mapping):
        return value or _NOTHING
    dump = getattr(value, "model_dump", None)  # a pydantic model, as SDKs give
    dumped = dump(mode="json") if callable(dump) else getattr(value, "__dict__", None)
    return dumped if isinstance(dumped, Mapping) else {}


def _count(usage: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = usage.get(name)
        if type(value) is int and value >= 0:
            return value
    return None


def _detail(usage: Mapping[str, Any], groups: tuple[str, ...], name: str) -> int | None:
    for group in groups:
        inner = usage.get(group)
        if inner and (found := _count(_fields(inner), name)) is not None:
            return found
    return _count(usage, name)
