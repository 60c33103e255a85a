"""The task: 24 parts, 40 model calls, 20 tool calls of three effect classes. Pure data; it knows no framework.

A part is one message of the user. The model answers it at once, or after one or three rounds of tool calls; of these, one round
asks for two tools at a time. Where a conversation stands follows from the last part in it and from the tool results.
"""

import re
from typing import Final, Literal, NamedTuple

Effect = Literal["read", "idempotent", "once"]

TOOLS: Final[dict[Effect, str]] = {"read": "look_up", "idempotent": "save_note", "once": "send_payment"}
EFFECTS: Final[dict[str, Effect]] = {name: effect for effect, name in TOOLS.items()}
TOKENS: Final = 40
"""Of an answer in words."""


class Action(NamedTuple):
    """One tool call that the model asks for. ``number`` is its only argument, and its identity in the log."""

    number: int
    effect: Effect

    @property
    def tool(self) -> str:
        return TOOLS[self.effect]


class Call(NamedTuple):
    """One model call: it asks for tools, or answers in words."""

    number: int
    part: int
    actions: tuple[Action, ...]


_BLOCK: Final[tuple[tuple[tuple[Effect | Literal["either"], ...], ...], ...]] = (
    (),
    (),
    (("read",),),
    (),
    (),
    (("read",), ("idempotent", "once"), ("either",)),
)
"""Six parts, as the rounds of tools of each. ``either`` is idempotent in one block, and once in the next."""
_BLOCKS: Final = 4


def _task() -> list[list[Call]]:
    parts: list[list[Call]] = []
    calls = actions = 0
    for block in range(_BLOCKS):
        for rounds in _BLOCK:
            part: list[Call] = []
            for wanted in (*rounds, ()):
                made: list[Action] = []
                for name in wanted:
                    effect: Effect = ("idempotent", "once")[block % 2] if name == "either" else name
                    made.append(Action(actions, effect))
                    actions += 1
                part.append(Call(calls, len(parts), tuple(made)))
                calls += 1
            parts.append(part)
    return parts


PARTS: Final = _task()
CALLS: Final = [call for part in PARTS for call in part]
ACTIONS: Final = [action for call in CALLS for action in call.actions]

_MARK: Final = re.compile(r"\[\[part (\d+)\]\]")


def prompt_of(part: int) -> str:
    """What the user says."""
    return f"[[part {part}]] Work on part {part} of the report."


def result_of(action: Action) -> str:
    """What the tool returns."""
    return f"{action.tool} {action.number}: done"


def part_of(text: str) -> int | None:
    """The last part that a text asks for, if there is one."""
    found = _MARK.findall(text)
    return int(found[-1]) if found else None


def call_of(conversation: str) -> Call:
    """The model call that a conversation asks for; of its actions, those that have no result yet.

    The conversation is the whole request as a text: frameworks and protocols write the same one in many ways.
    """
    part = part_of(conversation)
    assert part is not None, "a request without a part"
    for call in PARTS[part]:
        missing = tuple(action for action in call.actions if result_of(action) not in conversation)
        if missing or not call.actions:
            return call._replace(actions=missing)
    raise AssertionError("the last call of a part has no actions")
