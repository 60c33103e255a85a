"""Starts a driver, kills it at seeded places, starts it again until it is done, and asks the judge."""

import os
import random
import subprocess
import time
from pathlib import Path
from typing import Final, NamedTuple

import holdfast
from bench.recovery.drivers import Driver
from bench.recovery.judge import Verdict, first_new, judge
from bench.recovery.task import ACTIONS, CALLS
from bench.recovery.world import PLACES, Kill, Place, World

ROOT: Final = Path(__file__).parents[2]
_ATTEMPT_S: Final = 180.0
_ANSWERED_S: Final = 0.01
"""A kill at an answer falls up to so long after it: while the program takes it in, and records it."""
_TRIES: Final = 3
"""How many attempts may end by themselves without having come to a new place, before the run is given up."""


class Outcome(NamedTuple):
    """One run: the judge's verdict, and times in seconds."""

    seed: int
    verdict: Verdict
    resumes_s: list[float]
    """From the start of each process that resumes to the first place where the task had not been."""
    took_s: float
    start_s: float
    """From the start of the first process to its first request."""
    tokens: dict[int, int]
    """Of the first request for each call."""


def kills_of(seed: int, count: int) -> list[Kill]:
    """The kills of a seed, the same for all drivers: at a model call, inside a payment, inside another tool."""
    chance = random.Random(seed)
    kinds = [[place for place in PLACES if _kind(place) == kind] for kind in range(3)]
    kills: list[Kill] = []
    parts: set[int] = set()  # two kills in one part may meet in tools that run side by side, and be one
    for number in range(count):
        place = chance.choice([place for place in kinds[number % 3] if _part(place) not in parts])
        delay_s = chance.uniform(0, _ANSWERED_S)
        parts.add(_part(place))
        kills.append(Kill(place, delay_s if place.what == "answered" else 0.0))
    return kills


def _kind(place: Place) -> int:
    if place.what in {"asked", "answered"}:
        return 0
    return 1 if ACTIONS[place.number].effect == "once" else 2


def _part(place: Place) -> int:
    if place.what in {"asked", "answered"}:
        return CALLS[place.number].part
    return next(call.part for call in CALLS if ACTIONS[place.number] in call.actions)


def run(
    driver: Driver, directory: Path, seed: int, kills: list[Kill], calm: dict[int, int] | None = None
) -> Outcome:
    """Let a driver do the task, and kill it on its way. ``calm`` are the tokens of an undisturbed run's requests."""
    directory.mkdir(parents=True)
    starts: list[float] = []
    persons = idle = done = 0
    error = ""
    began = time.time()
    with World(directory, kills) as world:
        log = world.log
        while idle < _TRIES:
            log.begin()
            seen = {event.place for event in log.events}
            starts.append(time.time())
            code = _attempt(driver, directory, world)
            if code == 0:
                break
            if code == -9:
                done += 1
                continue
            error = _last_line(directory / "output")
            settled = _settle(directory, world) if driver.is_held else 0
            persons += settled
            is_further = any(event.place not in seen for event in log.events)
            idle = 0 if settled or is_further else idle + 1
        events = list(log.events)
    took_s = time.time() - began
    finished = idle < _TRIES
    verdict = judge(
        events,
        kills=done,
        calm=calm,
        persons=persons,
        finished=finished,
        error="" if finished else error,
    )
    fresh = [first_new(events, number) for number in range(1, len(starts) + 1)]
    resumes_s = [at - start for at, start in zip(fresh[1:], starts[1:], strict=True) if at is not None]
    tokens = {event.number: event.tokens for event in reversed(events) if event.what == "asked"}
    return Outcome(seed, verdict, resumes_s, took_s, (fresh[0] or began) - starts[0], tokens)


def _attempt(driver: Driver, directory: Path, world: World) -> int:
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with (directory / "output").open("ab") as output:
        process = subprocess.Popen(
            [
                str(ROOT / driver.environment / "bin" / "python"),
                "-W",
                "ignore",
                "-m",
                driver.module,
                driver.way,
            ],
            cwd=directory,
            env={
                **environment,
                **world.environment,
                "PYTHONPATH": str(ROOT),
                "HOLDFAST_URL": "",
                "OPENAI_API_KEY": "none",
                "HOME": str(directory),
                "OTEL_SDK_DISABLED": "true",
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        world.log.victim = process
        try:
            return process.wait(_ATTEMPT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            output.write(b"\nit made no end, and was given up\n")
            return 1
        finally:
            world.log.victim = None
            time.sleep(0.02)  # what the dead had still sent is noted under its own attempt


def _settle(directory: Path, world: World) -> int:
    """Do what a person does about payments in doubt: look at the service, and say what happened."""
    store = holdfast.store(f"sqlite:///{directory / 'holdfast.db'}")
    settled = 0
    try:
        for info in store.runs():
            for doubt in store.doubts(info.run):
                number = next(
                    action.number
                    for action in ACTIONS
                    if action.effect == "once" and Place("began", action.number) in _begun_last(world)
                )
                if world.made(number):
                    store.resolve(
                        info.run, doubt.id, "done", value=f"send_payment {number}: done", by="the director"
                    )
                else:
                    store.resolve(info.run, doubt.id, "retry", by="the director")
                settled += 1
    finally:
        store.close()
    return settled


def _begun_last(world: World) -> list[Place]:
    """The last payment that began: the one that is in doubt, because payments are made one at a time."""
    once = {action.number for action in ACTIONS if action.effect == "once"}
    begun = [event.place for event in world.log.events if event.what == "began" and event.number in once]
    return begun[-1:]


def _last_line(output: Path) -> str:
    lines = [line.strip() for line in output.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
