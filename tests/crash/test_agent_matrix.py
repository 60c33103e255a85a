"""``crash_matrix(agent, effects=…)``: an agent instead of a script, blocking and async, with its own count of effects."""

from pathlib import Path

import pytest

import holdfast
from holdfast.testing.crash_matrix import CrashMatrix

pytestmark = pytest.mark.slow


def _note(text: str) -> str:
    with Path("effects.txt").open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
    return text


def _is_noted(text: str) -> holdfast.Done | holdfast.NotDone:
    path = Path("effects.txt")
    return holdfast.Done(text) if path.exists() and text in path.read_text("utf-8") else holdfast.NotDone()


@holdfast.tool(effect="once", verify=_is_noted, settle_s=0)
def note(text: str) -> str:
    """An effect that can be looked up."""
    return _note(text)


@holdfast.agent("noting")
def noting(run: holdfast.Run, text: str) -> str:
    """A careful agent."""
    return str(note(run.step("read", str.upper, text)))


@holdfast.agent("noting-async")
async def noting_async(run: holdfast.AsyncRun, text: str) -> str:
    """The same, async."""
    return str(note(await run.step("read", str.upper, text)))


@holdfast.agent("careless")
def careless(run: holdfast.Run, text: str) -> str:
    """Its effect is a plain step."""
    return run.step("note", _note, text)


@pytest.mark.parametrize("agent", [noting, noting_async], ids=["blocking", "async"])
def test_a_careful_agent_passes(crash_matrix: CrashMatrix, agent: "holdfast.Agent[..., object]") -> None:
    """Each kind of facade, killed at every third place."""
    report = crash_matrix(agent, "a", effects="effects.txt", every=3, start="fork")
    assert report.kills > 3


def test_a_careless_agent_is_caught(crash_matrix: CrashMatrix) -> None:
    """The message names the kill and the effect."""
    with pytest.raises(AssertionError, match=r"SIGKILL .* 'a' happened 2 times, undisturbed 1"):
        crash_matrix(careless, "a", effects="effects.txt", start="fork")
