"""Group commit: who waits shares, each gets their own outcome, and nobody learns of another's trouble as success."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from holdfast.engine.journal.group_commit import Committer, Ticket
from holdfast.engine.store_threads import whole
from holdfast.errors import StoreBusy, StoreUnavailable
from holdfast.model.store_rows import Append, Appended, AppendOutcome, Refusal
from holdfast.stores.port import StorePort

DEADLINE_S = 60.0


class Recording:
    """A store that only notes its batches."""

    url = "memory://recording"

    def __init__(self, answer: Callable[[Sequence[Append]], list[AppendOutcome]] | None = None) -> None:
        self.batches: list[int] = []
        self._answer = answer or (lambda items: [Appended(item.after_seq + 1) for item in items])

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        self.batches.append(len(items))
        return self._answer(items)


def committer(store: Recording) -> Committer:
    return Committer(cast("StorePort", store))


def item(number: int) -> Append:
    return Append(f"r{number}", 1, number, ())


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def from_threads(made: Committer, count: int) -> dict[int, AppendOutcome | BaseException]:
    """Appends of several threads that all wait for the gate at once."""
    outcomes: dict[int, AppendOutcome | BaseException] = {}

    def work(number: int) -> None:
        try:
            outcomes[number] = made.finish(made.submit(item(number)))
        except BaseException as error:
            outcomes[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    with made.gate:
        for thread in threads:
            thread.start()
        wait_until(lambda: len(made.queue) == count)
    for thread in threads:
        thread.join()
    return outcomes


def test_threads_that_wait_share_one_commit() -> None:
    """Six writers, one batch; each gets its own outcome, refusals included."""

    def answer(items: Sequence[Append]) -> list[AppendOutcome]:
        return [Refusal("fenced") if i.run == "r3" else Appended(i.after_seq + 1) for i in items]

    store = Recording(answer)
    outcomes = from_threads(committer(store), 6)
    assert store.batches == [6]
    assert outcomes.pop(3) == Refusal("fenced")
    assert outcomes == {n: Appended(n + 1) for n in (0, 1, 2, 4, 5)}


def test_a_store_error_reaches_every_writer_as_its_own() -> None:
    """Nobody may believe that theirs was written; and nobody raises another thread's exception object."""

    def answer(items: Sequence[Append]) -> list[AppendOutcome]:
        raise StoreBusy(store="s", problem="locked")

    outcomes = from_threads(committer(Recording(answer)), 3)
    assert [type(error) for error in outcomes.values()] == [StoreBusy] * 3
    assert len({id(error) for error in outcomes.values()}) == 3


def test_what_cannot_be_bound_fails_its_own_writer_only() -> None:
    """The others are then committed one by one."""

    def answer(items: Sequence[Append]) -> list[AppendOutcome]:
        if any(i.run == "r1" for i in items):
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates")
        return [Appended(i.after_seq + 1) for i in items]

    outcomes = from_threads(committer(Recording(answer)), 3)
    assert isinstance(outcomes.pop(1), UnicodeEncodeError)
    assert outcomes == {0: Appended(1), 2: Appended(3)}


def test_an_interrupt_is_an_unknown_outcome_for_the_others() -> None:
    """Ctrl-C belongs to the thread that wrote; the others learn that nobody knows, and will look."""

    def answer(items: Sequence[Append]) -> list[AppendOutcome]:
        raise KeyboardInterrupt

    outcomes = from_threads(committer(Recording(answer)), 3)
    assert sorted(type(error).__name__ for error in outcomes.values()) == [
        "KeyboardInterrupt",
        "StoreUnavailable",
        "StoreUnavailable",
    ]


async def finish_async(made: Committer, ticket: Ticket) -> AppendOutcome:
    """What a journal does in a task."""
    try:
        await made.expect(ticket)
    except BaseException as cut:
        await made.finish_cut(ticket, cut)
    return ticket.read()


def test_tasks_of_one_tick_share_one_commit() -> None:
    """In a loop, what is submitted in one tick is one batch."""
    store = Recording()
    made = committer(store)

    async def main() -> list[AppendOutcome]:
        return await asyncio.gather(*(finish_async(made, made.submit(item(n))) for n in range(5)))

    assert asyncio.run(main()) == [Appended(n + 1) for n in range(5)]
    assert store.batches == [5]


def test_tasks_that_were_answered_together_share_the_next_commit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that answered them takes no more than they had queued by then: what the first of them queues next waits for
    the others of its tick. (Planted: a thread that goes on while something is queued. The batches were 5, 1 and 4; of 200
    runs on PostgreSQL, 14 statements became 35 to 44.)"""
    store = Recording()
    made = committer(store)
    drain, ended, woken = made._drain, threading.Event(), list[int]()

    def until_its_end(loop: asyncio.AbstractEventLoop) -> None:
        drain(loop)
        ended.set()

    async def one(number: int) -> None:
        await finish_async(made, made.submit(item(number)))
        ticket = made.submit(item(number))
        assert ended.wait(
            DEADLINE_S
        )  # the loop stands still: of these tasks, only the first has queued something
        await finish_async(made, ticket)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        call = loop.call_soon_threadsafe

        def slowly(callback: Callable[..., object], *args: object) -> None:
            call(callback, *args)
            if not woken:
                woken.append(1)
                wait_until(lambda: bool(made.queue))

        monkeypatch.setattr(loop, "call_soon_threadsafe", slowly)
        await asyncio.gather(*(one(number) for number in range(5)))

    monkeypatch.setattr(made, "_drain", until_its_end)
    asyncio.run(main())
    assert store.batches == [5, 5]


def test_a_task_that_comes_during_a_commit_joins_those_that_it_answers() -> None:
    """A lone task's item is committed at once. What another task queues meanwhile waits until the first one has queued its
    next. (Planted: committed as soon as the first commit ends. Both went on one by one, with a sync for each.)"""

    def answer(items: Sequence[Append]) -> list[AppendOutcome]:
        if len(store.batches) == 3:
            loops[0].call_soon_threadsafe(begun.set)
            wait_until(lambda: bool(made.queue))
        return [Appended(i.after_seq + 1) for i in items]

    store, loops = Recording(answer), list[asyncio.AbstractEventLoop]()
    made = committer(store)
    begun = asyncio.Event()

    async def write(first: int, count: int) -> None:
        for number in range(first, first + count):
            await finish_async(made, made.submit(item(number)))

    async def late() -> None:
        await begun.wait()
        await write(10, 3)

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        await asyncio.gather(write(0, 5), late())

    asyncio.run(main())
    assert store.batches == [1, 1, 1, 2, 2, 1]


def test_no_commit_holds_the_loop() -> None:
    """However fast the disk: a commit of a task is made in another thread, also of the only one."""
    threads: list[threading.Thread] = []

    def answer(items: Sequence[Append]) -> list[AppendOutcome]:
        threads.append(threading.current_thread())
        return [Appended(i.after_seq + 1) for i in items]

    store = Recording(answer)
    made = committer(store)

    async def main() -> None:
        for n in range(6):
            await finish_async(made, made.submit(item(n)))

    asyncio.run(main())
    assert len(threads) == 6
    assert threading.current_thread() not in threads


def test_a_cancelled_writer_knows_what_became_of_its_write() -> None:
    """Cancelled while waiting: the write is finished before the cancellation goes on, so its outcome is known."""
    store = Recording()
    made = committer(store)
    ticket = made.submit(item(0))

    async def main() -> None:
        task = asyncio.ensure_future(finish_async(made, ticket))
        asyncio.get_running_loop().call_soon(task.cancel)  # before the tick that would commit it
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ticket.outcome == Appended(1)

    asyncio.run(main())
    assert store.batches == [1]


def test_an_unanswered_error_is_not_success() -> None:
    """Reading a ticket whose batch failed raises."""

    def answer(items: Sequence[Append]) -> list[AppendOutcome]:
        raise StoreUnavailable(store="s", problem="gone")

    made = committer(Recording(answer))
    ticket = made.submit(item(0))
    with pytest.raises(StoreUnavailable):
        made.finish(ticket)


def test_of_a_mixture_the_hasty_ones_go_first_and_each_runs_items_in_order() -> None:
    """Who need not wait for a sync does not wait for those who do. Planted: all hasty ones first; "b" came out of order."""
    batches: list[list[tuple[str, int]]] = []

    def note(items: Sequence[Append]) -> list[AppendOutcome]:
        batches.append([(one.run, one.after_seq) for one in items])
        return [Appended(one.after_seq + 1) for one in items]

    made = committer(Recording(note))
    queued = [
        ("a", 0, True),
        ("b", 0, False),
        ("b", 1, True),
        ("c", 0, True),
        ("a", 1, False),
        ("d", 0, False),
    ]
    tickets = [made.submit(Append(run, 1, seq, (), hasty=hasty)) for run, seq, hasty in queued]
    assert [made.finish(ticket) for ticket in tickets] == [Appended(seq + 1) for _, seq, _ in queued]
    assert batches == [[("a", 0), ("c", 0)], [("b", 0), ("b", 1), ("a", 1), ("d", 0)]]


def test_an_interrupt_between_single_commits_answers_the_rest_of_the_batch() -> None:
    """Ctrl-C while a batch is committed one by one: each other writer gets an answer, committed or unknown."""

    def answer(items: Sequence[Append]) -> list[AppendOutcome]:
        if len(items) > 1:
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates")
        if items[0].run == "r1":
            raise KeyboardInterrupt
        return [Appended(i.after_seq + 1) for i in items]

    made = committer(Recording(answer))
    tickets = [made.submit(item(n)) for n in range(3)]
    with pytest.raises(KeyboardInterrupt):
        made.finish(tickets[1])
    assert made.finish(tickets[0]) == Appended(1)
    with pytest.raises(StoreUnavailable, match="interrupted"):
        made.finish(tickets[2])


def test_a_loop_that_closes_under_a_commit_fails_no_other_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The waiting task is gone with its loop; the thread that committed its item has nobody to wake."""
    loop = asyncio.new_event_loop()
    made = committer(Recording())
    gone, own = made.submit(item(0)), made.submit(item(1))
    gone.future = loop.create_future()
    loop.close()
    monkeypatch.setattr(loop, "is_closed", lambda: False)  # it closed after the committer asked
    assert made.finish(own) == Appended(2)


def test_a_loop_that_closes_under_its_own_tick_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was queued behind the last batch of a closed loop is left for the next thread that commits."""
    loop = asyncio.new_event_loop()
    loop.close()
    monkeypatch.setattr(loop, "is_closed", lambda: False)  # it closed after the committer asked

    def answer(items: Sequence[Append]) -> list[AppendOutcome]:
        made.submit(item(1))
        raise KeyboardInterrupt  # leaves the drain with an item in the queue

    made = committer(Recording(answer))
    made.submit(item(0))
    with pytest.raises(KeyboardInterrupt):
        made._drain(loop)


def test_a_cancelled_lone_writer_gets_the_error_of_its_write() -> None:
    """Cancelled where a cancellation is held back: the writer gets the store's error, not an assertion."""

    def answer(items: Sequence[Append]) -> list[AppendOutcome]:
        raise StoreBusy(store="s", problem="locked")

    made = committer(Recording(answer))
    made._tick = lambda loop: None  # type: ignore[method-assign]  # the cancelled writer comes first

    async def main() -> None:
        task = asyncio.ensure_future(whole(finish_async(made, made.submit(item(0)))))
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises(StoreBusy):
            await task

    asyncio.run(main())
