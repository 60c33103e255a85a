"""Agents for `holdfast worker`, in a module of their own."""

import os
import signal

import holdfast


@holdfast.agent("clerk")
def clerk(run: holdfast.Run, letters: int, stamp: str = "x") -> str:
    return "".join(run.step("stamp", str.upper, stamp) for _ in range(letters))


@holdfast.agent("asker")
def asker(run: holdfast.Run) -> bool:
    return run.ask("Go on?", returns=bool)


@holdfast.agent("bomb")
def bomb() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
