"""What the kills of one run cost, counted in the log of the world. Pure: it reads events, and knows no framework.

A model call is *finished* when its answer was sent and the same process went on to something else. Only such calls count as repeated:
a call whose process died before it could do anything with the answer must be asked again by everybody, and is counted apart. A tool
call is finished when its process asked the model again, or began a tool that a later answer asked for.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bench.recovery.task import ACTIONS, CALLS
from bench.recovery.world import Event, Place


class Verdict(NamedTuple):
    """What one run cost, over all its kills."""

    kills: int
    calls_repeated: int
    """Requests for a finished model call."""
    calls_cut_off: int
    """Requests for a model call that had been asked, and was not finished."""
    tools_repeated: int
    """Tool calls that began again after they were finished, whatever their effect."""
    payments_doubled: int
    notes_doubled: int
    """Notes that were saved under another key, too: under the same one, the service does nothing."""
    effects_missing: int
    """Payments and notes that were never made."""
    forgotten: int
    """Requests with less of the conversation than the same request of an undisturbed run."""
    tokens_again: int
    """Of all requests for a call beyond its first."""
    restarts: int
    """Attempts after the first one that asked the first call again, which was finished: from the top."""
    persons: int
    """How often a person had to say what happened."""
    finished: bool
    error: str = ""

    @property
    def steps_lost(self) -> int:
        """How many finished steps the run was set back: model calls and tool calls that were done again."""
        return self.calls_repeated + self.tools_repeated


_SLACK_TOKENS: Final = 8
"""A conversation may be written in other words after a kill; a message that is missing is longer than this."""
_CALL_OF: Final = {action.number: call.number for call in CALLS for action in call.actions}
"""The model call that asks for a tool call."""


def judge(
    events: Sequence[Event],
    *,
    kills: int,
    calm: Mapping[int, int] | None = None,
    persons: int = 0,
    finished: bool = True,
    error: str = "",
) -> Verdict:
    """Count. ``calm`` are the tokens of each request in an undisturbed run."""
    calls, tools = set[int](), set[int]()
    asked = Counter[int]()
    made: dict[int, list[str]] = {}
    answered, acted = set[int](), set[int]()
    """What came back to the process of this attempt, and may not have been taken in yet."""
    repeated = cut_off = again = tokens = forgotten = 0
    tops = set[int]()
    attempt = 0
    for event in events:
        if event.attempt != attempt:
            attempt, answered, acted = event.attempt, set(), set()
        if event.what == "asked":
            calls |= answered - {event.number}
            tools |= {number for number in acted if _CALL_OF[number] < event.number}
            if event.number in calls:
                repeated += 1
                tops |= {event.attempt} if event.number == 0 else set()
            elif asked[event.number]:
                cut_off += 1
            forgotten += event.tokens + _SLACK_TOKENS < (calm or {}).get(event.number, 0)
            tokens += event.tokens if asked[event.number] else 0
            asked[event.number] += 1
        elif event.what == "answered":
            answered.add(event.number)
        elif event.what == "began":
            calls |= answered
            tools |= {number for number in acted if _CALL_OF[number] < _CALL_OF[event.number]}
            again += event.number in tools
        else:
            acted.add(event.number)
            made.setdefault(event.number, []).append(event.key)
    payments = [action.number for action in ACTIONS if action.effect == "once"]
    notes = [action.number for action in ACTIONS if action.effect == "idempotent"]
    return Verdict(
        kills=kills,
        calls_repeated=repeated,
        calls_cut_off=cut_off,
        tools_repeated=again,
        payments_doubled=sum(len(made[number]) - 1 for number in payments if number in made),
        notes_doubled=sum(len(set(made[number])) - 1 for number in notes if number in made),
        effects_missing=sum(number not in made for number in payments + notes),
        forgotten=forgotten,
        tokens_again=tokens,
        restarts=len(tops),
        persons=persons,
        finished=finished,
        error=error,
    )


def first_new(events: Sequence[Event], attempt: int) -> float | None:
    """When an attempt first came to a place where the task had not been."""
    seen = set[Place]()
    for event in events:
        if event.attempt == attempt and event.place not in seen:
            return event.at
        seen.add(event.place)
    return None
