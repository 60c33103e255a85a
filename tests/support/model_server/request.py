"""A request as the provider understands it, whichever of the two APIs it came through: pure, no I/O."""

import re
from typing import Any, Final, Literal, NamedTuple

from tests.support.model_server.generated_text import Directives, fingerprint

Prefill = Literal["always", "flags", "never"]

CONTINUE: Final = re.compile(r"\b(continue|continuing|go on)\b", re.IGNORECASE)
"""A last message with one of these, after one of the assistant's, asks to go on with that."""


MISTRAL_FIELDS: Final = frozenset(
    "model messages agent_id prompt suffix stream max_tokens min_tokens temperature top_p stop random_seed "
    "response_format tools tool_choice presence_penalty frequency_penalty n prediction parallel_tool_calls "
    "prompt_mode safe_prompt metadata reasoning_effort".split()
)


class Flavour(NamedTuple):
    """Whose manners a provider has."""

    name: str
    prefill: Prefill
    """Whether a conversation that ends with the assistant's words is gone on with: always, if the flags say so, never."""
    repeats_prefill: bool = False
    """Whether an answer that is not streamed begins with the prefill; a streamed one never does."""
    knows_models: bool = True
    """Whether it refuses a model that it does not have."""
    is_strict: bool = False
    """Whether it refuses fields that it does not know, and reports the usage of a stream unasked: as Mistral does."""


FLAVOURS: Final = {
    flavour.name: flavour
    for flavour in (
        Flavour("openai", "never"),
        Flavour("llamacpp", "always", repeats_prefill=True, knows_models=False),
        Flavour("vllm", "flags"),
        Flavour("ollama", "always"),
        Flavour("mistral", "never", is_strict=True),
    )
}


class Asked(NamedTuple):
    """What is asked for. ``begun`` is the answer's beginning that the client has already."""

    api: str
    model: str
    messages: tuple[tuple[str, str], ...]
    begun: str
    seed: str
    stream: bool
    usage: bool
    tokens_max: int | None
    directives: Directives
    is_mistral: bool = False
    """Whether the answer is as Mistral has it: each call in one piece, the usage of a stream with its end."""

    @property
    def prompt_tokens(self) -> int:
        """What the messages and the beginning come to."""
        return sum(3 + len(text) // 4 for _, text in self.messages) + len(self.begun) // 4


class Malformed(Exception):
    """A request that a provider answers with 400."""


def understand(api: str, body: dict[str, Any], flavour: Flavour) -> Asked:
    """Read a request. Malformed where a real provider would not understand it either."""
    if flavour.is_strict and (unknown := body.keys() - MISTRAL_FIELDS):
        raise Malformed(f"Extra inputs are not permitted: {min(unknown)}")
    messages = _chat(body) if api == "chat" else _inputs(body)
    if not messages:
        raise Malformed("[] is too short - 'messages'")
    begun = ""
    if messages[-1][0] == "assistant":
        if _goes_on(body, flavour):
            if len(messages) > 1 and messages[-2][0] == "assistant":
                raise Malformed("Cannot have 2 or more assistant messages at the end of the list.")
            begun = messages[-1][1]
            messages = messages[:-1]
    elif len(messages) > 2 and messages[-2][0] == "assistant" and CONTINUE.search(messages[-1][1]):
        begun = messages[-2][1]
        messages = messages[:-2]
    options = body.get("stream_options") or {}
    limits = [body.get(name) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")]
    users = [text for role, text in messages if role in {"user", "tool"}]
    return Asked(
        api=api,
        model=str(body.get("model", "")),
        messages=tuple(messages),
        begun=begun,
        seed=fingerprint([messages, body.get("seed")]),
        stream=bool(body.get("stream")),
        usage=bool(options.get("include_usage")),
        tokens_max=next((int(limit) for limit in limits if limit is not None), None),
        directives=Directives.read(users[-1] if users else ""),
        is_mistral=flavour.is_strict,
    )


def _goes_on(body: dict[str, Any], flavour: Flavour) -> bool:
    continued = bool(body.get("continue_final_message"))
    if continued and body.get("add_generation_prompt", True):
        raise Malformed("Cannot set both add_generation_prompt and continue_final_message to true.")
    return flavour.prefill == "always" or (flavour.prefill == "flags" and continued)


def _chat(body: dict[str, Any]) -> list[tuple[str, str]]:
    messages = body.get("messages")
    if isinstance(body.get("prompt"), str):  # to be completed, with what comes after it
        return [("user", body["prompt"] + (body.get("suffix") or ""))]
    if not isinstance(messages, list):
        raise Malformed("Expected 'messages' to be an array")
    return [(str(message.get("role")), _text(message.get("content"))) for message in messages]


def _inputs(body: dict[str, Any]) -> list[tuple[str, str]]:
    given = body.get("input")
    messages: list[tuple[str, str]] = []
    if body.get("instructions"):
        messages.append(("system", str(body["instructions"])))
    if isinstance(given, str):
        return [*messages, ("user", given)]
    if not isinstance(given, list):
        raise Malformed("Missing required parameter: 'input'.")
    for item in given:
        if item.get("type", "message") == "message":
            messages.append((str(item.get("role")), _text(item.get("content"))))
        elif item["type"] == "function_call":
            messages.append(("call", f"{item.get('name')}({item.get('arguments')})"))
        elif item["type"] == "function_call_output":
            messages.append(("tool", _text(item.get("output"))))
    return messages


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)
