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
    if signum == signal.SIGINT:
        worker.hear("leaving")
    deadline = time.monotonic() + 60
    while store.get("run-0").lease.owner:
        assert time.monotonic() < deadline, "the other run was never left"
        time.sleep(0.01)
    worker.tell("pay")
    worker.hear("paid")
    if signum == signal.SIGTERM:
        worker.hear("leaving")
    assert worker.wait() == EXIT[signum], "".join(worker.transcript)
    assert ledger() == [str(worker.pid)]
    found = {info.run: (info.status, info.lease.owner) for info in store.runs()}
    assert found == {"run-0": ("interrupted", ""), "run-paying": ("interrupted", "")}
    assert store.doubts("run-paying") == []


PAYMENTS = [
    ("interrupt", ("once",)),
    ("interrupt", ("nested",)),
    ("interrupt", ("timed",)),
    ("interrupt", ("twice",)),
    ("interrupt_async", ("awaited",)),
    ("interrupt_async", ("beside",)),
    ("interrupt_async", ("nested",)),
    ("interrupt_async", ("twice",)),
]
"""Where a payment is when SIGTERM comes: in the main thread, in a run inside the run, in a thread with a timeout, before
another one; in a coroutine, beside another task, in a run of another task, before another one."""


@pytest.mark.parametrize(("mode", "options"), PAYMENTS)
def test_a_payment_ends_before_the_program(
    start: "Start", url: str, ledger: Ledger, store: holdfast.Store, mode: str, options: tuple[str, ...]
) -> None:
    """After SIGTERM a once call in flight comes to its end; then the attempt is interrupted, and nothing is in doubt.

    No further call begins: of two payments the second is not made. Started again, the program has its receipt.
    """
    check_payment_ends(start, url, ledger, store, mode, options)


@over_shared_stores
@pytest.mark.parametrize(("mode", "options"), [("interrupt", ("once",)), ("interrupt_async", ("awaited",))])
def test_a_payment_ends_on_every_store(
    start: "Start", url: str, ledger: Ledger, store: holdfast.Store, mode: str, options: tuple[str, ...]
) -> None:
    """The same, wherever the outcome is written."""
    check_payment_ends(start, url, ledger, store, mode, options)


def check_payment_ends(
    start: "Start", url: str, ledger: Ledger, store: holdfast.Store, mode: str, options: tuple[str, ...]
) -> None:
    worker = start(mode, url, *options)
    worker.hear("inside")
    worker.signal(signal.SIGTERM)
    worker.tell("pay")
    worker.hear("paid")
    assert worker.wait() == EXIT[signal.SIGTERM], "".join(worker.transcript)
    assert ledger() == [str(worker.pid)]
    for info in store.runs():
        assert (info.status, info.lease.owner, store.doubts(info.run)) == ("interrupted", "", []), info.run
    paying = "run/inner" if "nested" in options else "run"
    found = [e.kind for e in store.events(paying) if e.name == "charge"]
    assert found == ["step.started", "step.finished"]

    if options in {("beside",), ("nested",)} and mode == "interrupt_async":
        return  # its other task would sleep on
    again = start(mode, url, *options)
    if options == ("twice",):
        again.hear("inside")
        again.tell("pay")
        again.hear("paid")
    again.hear("finished")
    assert again.wait() == 0
    assert len(ledger()) == (2 if options == ("twice",) else 1)


@pytest.mark.parametrize(("mode", "options"), PAYMENTS)
@pytest.mark.parametrize("why", ["told again", "time is up"])
def test_a_payment_is_not_waited_for_forever(
    start: "Start",
    url: str,
    ledger: Ledger,
    store: holdfast.Store,
    mode: str,
    options: tuple[str, ...],
    why: str,
) -> None:
    """A second SIGTERM, or the end of ``drain_s``, cuts the call off at once: it is in doubt, and the run says so."""
    worker = start(mode, url, *options, *(("drain=0.2",) if why == "time is up" else ()))
    worker.hear("inside")
    worker.signal(signal.SIGTERM)
    paying = "run/inner" if "nested" in options else "run"
    deadline = time.monotonic() + 60
    while store.get(paying).lease.owner:
        assert time.monotonic() < deadline, "it goes on waiting"
        if why == "told again":  # two signals that come at once are one
            worker.signal(signal.SIGTERM)
        time.sleep(0.05)
    if mode == "interrupt_async":
        worker.tell("pay")  # no signal ends a thread that runs a plain function: the interpreter waits for it
    assert worker.wait() == EXIT[signal.SIGTERM], "".join(worker.transcript)
    assert [doubt.step for doubt in store.doubts(paying)] == ["charge"]
    assert store.get(paying).status == "in_doubt"


@pytest.mark.parametrize(
    ("mode", "options"), [("interrupt", ("once", "own")), ("interrupt_async", ("awaited", "own"))]
)
def test_a_handler_of_the_users_own(
    start: "Start", url: str, ledger: Ledger, store: holdfast.Store, mode: str, options: tuple[str, ...]
) -> None:
    """SIGTERM is the program's business where it handles it: nothing is interrupted."""
    worker = start(mode, url, *options)
    worker.hear("inside")
    worker.signal(signal.SIGTERM)
    worker.hear("handled")
    worker.tell("pay")
    worker.hear("paid")
    worker.hear("finished")
    assert worker.wait() == 0
    assert store.get("run").status == "finished"


@over_shared_stores
@pytest.mark.parametrize(
    ("signum", "options"), [(signal.SIGTERM, ("drain=0",)), (signal.SIGINT, ())], ids=["SIGTERM", "SIGINT"]
)
def test_interrupted_inside_a_payment(
    start: "Start",
    url: str,
    ledger: Ledger,
    store: holdfast.Store,
    signum: signal.Signals,
    options: tuple[str, ...],
) -> None:
    """A once tool that is cut off by the signal is in doubt, and the run says so: by Ctrl-C, or where it gets no time."""
    worker = start("interrupt", url, "once", *options)
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
    """In an event loop a plain once tool runs in a thread, which no cancellation stops: its outcome is waited for.

    Ctrl-C cancels the task meanwhile; SIGTERM does that when the call has ended.
    """
    worker = start("interrupt_async", url, "once")
    worker.hear("inside")
    worker.signal(signum)
    if signum == signal.SIGINT:
        worker.hear("leaving")
    worker.tell("pay")
    worker.hear("paid")
    if signum == signal.SIGTERM:
        worker.hear("leaving")
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
