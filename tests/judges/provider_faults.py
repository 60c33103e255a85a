"""The catalogue of faults against wrapped clients: ``python -m tests.judges.provider_faults --drivers openai``.

For each kind, streamed or not: what the bare client makes of it, and of an undisturbed answer; then the wrapped client in a run,
struck once and struck always. ``is_meant`` has the differences that are meant, each with its reason.
"""

import argparse
import asyncio
import json
import logging
import signal
import ssl
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pytest
from tests.adapters.clients.drivers import KEY, QUICK, Agent, Driver, alone, attempt, events
from tests.support import results
from tests.support.model_server import Provider, Reply, ToolCall, faults
from tests.support.model_server.fault_catalogue import KINDS, LONG_AFTERS

import holdfast
from holdfast.model.events import Kind as EventKind

TEXT: Final = "Das Meer ist weit — und tief, und über ihm stehen 漢字 aus Licht; niemand hat sie je gelesen."
CALLS: Final = (ToolCall("pay", '{"amount": 3, "to": "Ada"}'), ToolCall("note", '{"text": "ü"}'))
HANG_S: Final = 60
_IDS: Final = frozenset({"id", "response_id", "responseId", "call_id", "item_id", "_request_id"})


class Outcome(NamedTuple):
    """What a call came to: a value as JSON, or the name of an exception's class."""

    value: str = ""
    error: str = ""


class Case(NamedTuple):
    """One kind of fault, as one client meets it."""

    driver: Driver
    kind: str
    streamed: bool

    def __str__(self) -> str:
        return f"{self.driver.name}, {'streamed' if self.streamed else 'whole'}, {self.kind}"


class Hang(BaseException):
    """A case took two minutes."""


def _hung(*_: object) -> None:
    raise Hang


async def _told(case: Case, agent: Agent) -> Outcome:
    try:
        if case.streamed:
            return Outcome(await agent.read())
        answer = await agent.answer()
        told = answer.model_dump(mode="json", warnings=False) if hasattr(answer, "model_dump") else answer
        return Outcome(json.dumps(_bare(told), sort_keys=True, default=repr))
    except Exception as error:
        return Outcome(error=f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}")


def _bare(value: Any) -> Any:
    """A value without what differs from request to request: ids, which stand for themselves."""
    if isinstance(value, list):
        return [_bare(one) for one in value]
    if isinstance(value, dict):
        return {
            name: "id" if name in _IDS and isinstance(one, str) else _bare(one) for name, one in value.items()
        }
    return value


def judge(case: Case, provider: Provider) -> str:
    """How the case ended: ``same`` as without Holdfast, or ``waited`` and then well. AssertionError for anything else."""
    before = signal.signal(signal.SIGALRM, _hung)
    signal.alarm(HANG_S)
    try:
        return _judged(case, provider)
    except Hang:
        raise AssertionError(f"{case}: hangs") from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _judged(case: Case, provider: Provider) -> str:
    script, fault = provider.script, faults.altered(case.kind)
    reply = Reply(text="", calls=CALLS) if KINDS[case.kind].calls else Reply(text=TEXT)
    script.answering = lambda _: reply

    async def bare(agent: Agent) -> Outcome:
        return await _told(case, agent)

    script.outage = None
    good = alone(case.driver, provider, bare)
    assert not good.error, (str(case), good)
    script.faults = {len(provider.exchanges): fault}
    struck = alone(case.driver, provider, bare)
    script.faults = {}
    once = _in_a_run(case, provider, good, once=True)
    assert once in {good, struck} or is_meant(case, once, struck), f"{case}: {once}, bare: {struck}"
    script.outage = fault
    always_bare = alone(case.driver, provider, bare)
    always = _in_a_run(case, provider, good, once=False)
    script.outage = None
    assert always in {always_bare, good} or is_meant(case, always, always_bare), (
        f"{case}: always {always}, bare: {always_bare}"
    )
    return "same" if once == struck else "waited" if once == good else "deliberate"


def _in_a_run(case: Case, provider: Provider, good: Outcome, *, once: bool) -> Outcome:
    """The outcome in a run, which a replay gives again without asking.

    Where the client itself failed in the middle of a stream, nothing is recorded as its end, and the next attempt may go on.
    """
    url, outcomes = f"memory://{uuid4().hex}", list[Outcome]()
    if once:
        provider.script.faults = {len(provider.exchanges): faults.altered(case.kind)}
    patience = QUICK if once else QUICK._replace(give_up_s=0.1)

    async def work(agent: Agent) -> None:
        outcomes.append(await _told(case, agent))
        raise ZeroDivisionError

    asked, failures = list[int](), list[int]()
    for _ in range(2):
        try:
            attempt(case.driver, provider, url, work, patience=patience)
        except ZeroDivisionError:
            pass
        except (holdfast.HoldfastError, holdfast.StopSignal) as stop:
            outcomes.append(Outcome(error=f"holdfast.{type(stop).__name__}"))
        asked.append(len(provider.calls))
        failures.append(len(events(url, EventKind.STEP_FAILED)))
        provider.script.faults = {}
    first, again = outcomes
    is_open = bool(first.error) and not failures[0]
    # Where the client failed by itself in the middle, the next attempt asks again; struck again, it ends as ours does.
    is_asked_again = is_open and (again == good or (not once and is_meant(case, again, first)))
    assert first == again or is_asked_again, f"{case}: {first}, replayed: {again}"
    assert asked[0] == asked[1] or is_open, f"{case}: a replay asked again"
    _check_journal(case, again, url)
    return first


def _check_journal(case: Case, outcome: Outcome, url: str) -> None:
    finished, failed = (events(url, kind) for kind in (EventKind.STEP_FINISHED, EventKind.STEP_FAILED))
    if outcome.error:
        finished = [one for one in finished if "lost" not in one]  # done, with a result that cannot be kept
        assert not finished, f"{case}: {outcome}, and a finished answer is in the journal: {finished}"
    else:
        assert len(finished) == 1, f"{case}: {finished}"
        assert not failed, f"{case}: {failed}"
    port = holdfast.store(url)._port
    blobs = port.get_blobs([info.address for info in port.scan_blobs(limit=1000)])
    from holdfast.codec.blobs import unpack

    stored = [event.body for event in holdfast.store(url).events("a")]
    stored += [unpack(data, address=address) for address, data in blobs.items()]
    for body in stored:
        assert KEY.encode() not in body, f"{case}: the client's key is in the journal: {body!r}"


USELESS: Final = frozenset(
    {
        "no answers in the answer", "the list of answers is null", "the list of answers is missing", "the answer is a list",
        "the answer is null", "an empty object", "truncated JSON", "not JSON", "an empty body", "a page of HTML",
        "an error as a success", "an error as a success that repeats the key", "nested deeper than a parser goes", "gzip that is none", "broken gzip", "no content",
        "a length that is too small", "an inner object is a text", "the content is a number", "the content is null",
        "the content is empty", "an event in the middle that is no JSON", "no role", "the role changes", "no arguments", "deeply nested",
        "an error in the middle", "calls that are null", "arguments that are an object", "a call without a name",
        # JSON that no standard has: what a journal kept of it would not be what the client read
        "NaN among the numbers", "the usage is larger than any integer of 64 bits", "half of a surrogate pair", "bytes that are not UTF-8",
    }
)  # fmt: skip
"""Kinds with nothing in them that a run could act upon: asked for a few times, and then UnusableAnswer, also where the bare
client hands on whatever it got."""


CUT_OFF: Final = (
    ("genai", "the reason for the end is missing"),
    ("openai-responses", "ends early, like a good stream"),
)
"""Streams without the one thing that says of them that they are whole: they are asked for again, as any that is cut off."""


def is_meant(case: Case, outcome: Outcome, bare: Outcome) -> bool:
    """Whether a wrapped client is meant to differ here from the bare one."""
    kind = case.kind
    if outcome.error == "holdfast.UnusableAnswer":
        is_cut_off = case.streamed and any(kind == one and name in case.driver.name for name, one in CUT_OFF)
        return kind in USELESS or is_cut_off
    if bare.error.startswith("aiohttp."):  # Gemini's async client: inside a run its requests go through httpx
        return outcome.error.startswith(("httpx.", "httpx2."))
    if kind in {"moved, 307", "moved, 308"}:  # for ever; Ollama's client follows none
        return outcome.error.endswith(".TooManyRedirects")
    if (
        kind == "a refusal that is cut off"
    ):  # its body is read below the client, which takes that for a lost connection
        return outcome.error.endswith(".APIConnectionError")
    return (
        outcome.error == "holdfast.AwaitingProvider" and kind.removeprefix("429, retry-after ") in LONG_AFTERS
    )


def drivers_named(names: Sequence[str]) -> list[Driver]:
    """The drivers of these clients, by the names of their modules."""
    found: list[Driver] = []
    for name in names:
        module = import_module(f"tests.adapters.clients.{name}_drivers")
        kinds = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Driver)]
        found += [kind() for kind in kinds if kind is not Driver]
    return found


def without_certificates(patch: pytest.MonkeyPatch) -> None:
    """Read the certificates of the machine once, and not for each of thousands of clients: nothing here speaks TLS."""
    patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drivers", nargs="+", default=["openai"])
    parser.add_argument("--kind", nargs="*", default=list(KINDS))
    parser.add_argument("--result", default="", help="the name under which the counts are kept")
    given = parser.parse_args()
    results.commit_now()  # that of the beginning
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    without_certificates(pytest.MonkeyPatch())
    begun, counts, problems = time.monotonic(), Counter[str](), 0
    drivers = drivers_named(given.drivers)
    with Provider() as provider:
        for driver in drivers:
            for kind in given.kind:
                for streamed in (False, True):
                    case = Case(driver, kind, streamed)
                    try:
                        counts[judge(case, provider)] += 1
                    except AssertionError as error:
                        problems += 1
                        print(f"{error}"[:600], flush=True)
                    except BaseException as error:
                        print(f"{case}: {type(error).__name__}: {error}"[:600], flush=True)
                        if isinstance(error, KeyboardInterrupt):
                            raise
                        problems += 1
            print(
                f"{driver.name}: {dict(counts)}, {problems} problems, {time.monotonic() - begun:.0f} s",
                flush=True,
            )
    counts |= {"cases": sum(counts.values()) + problems, "kinds": len(given.kind), "clients": len(drivers)}
    counts["problems"] = problems
    if given.result:
        file = results.RESULTS / f"{given.result}.json"
        results.save(file, counts, seconds=time.monotonic() - begun, passed=not problems)
    return 1 if problems else 0


if __name__ == "__main__":
    asyncio.set_event_loop_policy(None)
    sys.exit(main())
