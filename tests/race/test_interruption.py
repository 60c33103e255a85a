"""SIGTERM and Ctrl-C: the handler only raises; leaving the block records the interruption and lets the lease go.

Planted once in a copy, and caught here: the lease not let go; calls in flight not waited for.
"""

import asyncio
import contextvars
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.stores import over_shared_stores

import holdfast
from holdfast.model.event_fields import contents_of

if TYPE_CHECKING:
    from tests.race.conftest import Start

Ledger = Callable[[], list[str]]
EXIT = {signal.SIGTERM: 128 + 15, signal.SIGINT: -2}
"""SIGTERM is an exit with its usual code; a KeyboardInterrupt that nobody catches ends Python by the signal itself."""


def ends(store: holdfast.Store) -> list[dict[str, Any]]:
    return [contents_of(e.body) for e in store.events("run") if e.kind == "attempt.ended"]


def kinds_of(store: holdfast.Store, step: str) -> list[str]:
    return [e.kind for e in store.events("run") if e.name == step]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("mode", "options"), [("interrupt", ()), ("interrupt_async", ()), ("interrupt_async", ("group",))]
)
def test_interrupted_inside_a_step(
    start: "Start",
    url: str,
    store: holdfast.Store,
    mode: str,
    options: tuple[str, ...],
    signum: signal.Signals,
) -> None:
    """The attempt is recorded as interrupted, the lease is free, the exit code is the usual one; the run goes on."""
    worker = start(mode, url, *options)
    worker.hear("inside")
    worker.signal(signum)
    assert worker.wait() == EXIT[signum], "".join(worker.transcript)
    info = store.get("run")
    assert (info.status, info.lease.owner) == ("interrupted", "")
    (end,) = ends(store)
    assert (end["how"], end["status"]) == ("interrupted", "interrupted")

    with holdfast.run("run", store=url) as run:
        assert (run.attempt, run.resumed) == (2, True)
        assert run.step("first", lambda: "ran again") == "first"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("how", ["gather", "group"])
def test_many_runs_in_one_loop(
    start: "Start", url: str, store: holdfast.Store, how: str, signum: signal.Signals
) -> None:
    """All runs of an event loop are interrupted, not only the one that was entered first, and each says so."""
    worker = start("interrupt_many", url, how)
    for _ in range(3):
        worker.hear("inside")
    worker.signal(signum)
    assert worker.wait() == EXIT[signum], "".join(worker.transcript)
    found = {info.run: (info.status, info.lease.owner) for info in store.runs()}
    assert found == {f"run-{number}": ("interrupted", "") for number in range(3)}


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_one_run_leaves_before_another(
    start: "Start", url: str, ledger: Ledger, store: holdfast.Store, signum: signal.Signals
) -> None:
    """A run that is left at once does not end the process while another of its loop still waits for a payment."""
    worker = start("interrupt_many", url, "paying")
    worker.hear("inside")
    worker.hear("inside")
    worker.signal(signum)
    worker.hear("leaving")
    deadline = time.monotonic() + 60
    while store.get("run-0").lease.owner:
        assert time.monotonic() < deadline, "the other run was never left"
        time.sleep(0.01)
    worker.tell("pay")
    worker.hear("paid")
    assert worker.wait() == EXIT[signum], "".join(worker.transcript)
    assert ledger() == [str(worker.pid)]
    found = {info.run: (info.status, info.lease.owner) for info in store.runs()}
    assert found == {"run-0": ("interrupted", ""), "run-paying": ("interrupted", "")}
    assert store.doubts("run-paying") == []


@over_shared_stores
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_inside_a_payment(
    start: "Start", url: str, ledger: Ledger, store: holdfast.Store, signum: signal.Signals
) -> None:
    """A once tool that is cut off by the signal is in doubt, and the run says so."""
    worker = start("interrupt", url, "once")
    worker.hear("inside")
    worker.signal(signum)
    assert worker.wait() == EXIT[signum], "".join(worker.transcript)
    assert store.get("run").status == "in_doubt"
    (doubt,) = store.doubts("run")
    assert "was cut off by" in doubt.reason
    assert kinds_of(store, "charge") == ["step.started", "step.doubted"]
    assert ledger() == []


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_payment_in_a_thread_is_followed_to_its_end(
    start: "Start", url: str, ledger: Ledger, store: holdfast.Store, signum: signal.Signals
) -> None:
    """In an event loop a plain once tool runs in a thread, which no cancellation stops: its outcome is waited for."""
    worker = start("interrupt_async", url, "once")
    worker.hear("inside")
    worker.signal(signum)
    worker.hear("leaving")
    worker.tell("pay")
    worker.hear("paid")
    assert worker.wait() == EXIT[signum], "".join(worker.transcript)
    assert ledger() == [str(worker.pid)]
    assert store.get("run").status == "interrupted"
    assert store.doubts("run") == []
    assert kinds_of(store, "charge")[-1] in {"step.settled", "step.finished"}


def test_cancelled_in_the_moment_it_ends(url: str, store: holdfast.Store) -> None:
    """A once call whose task is cancelled in the very tick in which its thread returns has an outcome, and keeps it."""

    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def pay_and_cancel() -> str:
            # It stands in the loop's queue right before the thread's own end.
            loop.call_soon_threadsafe(task.cancel)
            return "receipt"

        async with holdfast.run("run", store=url) as run:
            with pytest.raises(asyncio.CancelledError):
                await run.options(key="charge").once("charge", pay_and_cancel)
            task.uncancel()

    asyncio.run(main())
    assert store.doubts("run") == []
    assert kinds_of(store, "charge")[-1] in {"step.settled", "step.finished"}
    assert store.get("run").status == "finished"


payments: list[str] = []


async def pay_and_cancel() -> str:
    """Pays, and has its own task cancelled as soon as it waits for anything."""
    payments.append("paid")
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_soon(task.cancel)
    return "receipt"


@pytest.mark.parametrize("key", ["charge", None])
def test_cancelled_while_its_outcome_is_written(url: str, store: holdfast.Store, key: str | None) -> None:
    """Cancelled between the effect and the end of its commit, and asked for again: it is answered, not repeated.

    With two runs in one loop commits are made by tick, so the call waits for its own; that is where it is cancelled.
    """
    payments.clear()

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        other = holdfast.run("other", store=url)
        context = contextvars.Context()  # or the second run would be a child of this one
        opened = await asyncio.create_task(other.__aenter__(), context=context)
        async with holdfast.run("run", store=url) as run:
            with pytest.raises(asyncio.CancelledError):
                await run.options(key=key).once("charge", pay_and_cancel)
            task.uncancel()
            assert await run.options(key=key).once("charge", pay_and_cancel) == "receipt"
        assert opened.status == "running"
        await asyncio.create_task(other.__aexit__(None, None, None), context=context)

    asyncio.run(main())
    assert payments == ["paid"]
    assert store.doubts("run") == []
    assert store.get("run").status == "finished"


@pytest.mark.parametrize("options", [(), ("once",)])
def test_calls_in_other_threads_are_waited_for(
    start: "Start", url: str, store: holdfast.Store, options: tuple[str, ...]
) -> None:
    """Leaving waits, up to ``drain_s``, for calls in flight in other threads: what they did is recorded."""
    worker = start("thread", url, "60", *options)
    worker.hear("inside")
    worker.signal(signal.SIGTERM)
    worker.hear("leaving")
    worker.tell("pay" if options else "go")
    if options:
        worker.hear("paid")
    assert worker.wait() == EXIT[signal.SIGTERM], "".join(worker.transcript)
    step = "charge" if options else "slow"
    assert kinds_of(store, step) == ["step.started", "step.finished"]
    kinds = [e.kind for e in store.events("run")]
    assert kinds[-2:] == ["step.finished", "attempt.ended"]
    assert store.get("run").status == "interrupted"


@pytest.mark.parametrize("options", [(), ("once",)])
def test_calls_in_other_threads_are_not_waited_for_forever(
    start: "Start", url: str, store: holdfast.Store, options: tuple[str, ...]
) -> None:
    """Past ``drain_s`` the attempt ends without them; a once call that still runs then is in doubt."""
    worker = start("thread", url, "0.2", *options)
    worker.hear("inside")
    worker.signal(signal.SIGTERM)
    worker.hear("leaving")
    assert worker.wait() == EXIT[signal.SIGTERM], "".join(worker.transcript)
    info = store.get("run")
    assert info.lease.owner == ""
    assert [end["how"] for end in ends(store)] == ["interrupted"]
    assert [doubt.step for doubt in store.doubts("run")] == (["charge"] if options else [])
    assert info.status == ("in_doubt" if options else "interrupted")


@pytest.mark.parametrize(("mode", "arguments"), [("thread", ("300",)), ("interrupt_async", ("once",))])
def test_told_again(
    start: "Start", url: str, store: holdfast.Store, mode: str, arguments: tuple[str, ...]
) -> None:
    """A further SIGTERM ends the waiting for calls in flight; the lease is free, and the run can be resumed all the same."""
    worker = start(mode, url, *arguments)
    worker.hear("inside")
    worker.signal(signal.SIGTERM)
    worker.hear("leaving")
    deadline = time.monotonic() + 60
    while store.get("run").lease.owner:
        assert time.monotonic() < deadline, "it goes on waiting"
        worker.signal(signal.SIGTERM)  # the one that counts arrives while it waits, which nothing tells
        time.sleep(0.05)
    if mode != "thread":
        worker.tell("pay")  # no signal ends a thread that runs a plain function: the interpreter waits for it
    assert worker.wait() == EXIT[signal.SIGTERM], "".join(worker.transcript)
    with holdfast.run("run", store=url, stops="suppress") as run:
        assert run.attempt == 2
