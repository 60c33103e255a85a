"""Streamed answers: given as they come, in the journal as they come, and continued, begun again or kept after a cut."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from threading import Event as Signal
from typing import Any, NamedTuple

import pytest

import holdfast
from holdfast.engine.llm.model_call import Ask
from holdfast.engine.llm.piece_stream import PieceSource
from holdfast.engine.llm.stream import END, Streaming
from holdfast.engine.llm.stream_flusher import Flusher
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind
from holdfast.model.retention import RETENTION
from holdfast.model.store_rows import Lease

WORDS = [f"word{number} " for number in range(40)]
WHOLE = "".join(WORDS)
REQUEST = {"messages": [{"role": "user", "content": "count"}]}


class Cut(BaseException):
    """The process ends here, as far as the journal knows."""


class Source:
    """Gives words, and is cut off after some of them, once."""

    def __init__(self, cut_after: int | None = None, error: type[BaseException] = Cut) -> None:
        self.cut_after, self.error = cut_after, error
        self.opened = 0
        self.continued: list[str] = []

    def __call__(self, request: Any) -> Iterator[str]:
        self.opened += 1
        return self._from(0)

    def go_on(self, request: Any, text: str) -> Iterator[str]:
        self.continued.append(text)
        return self._from(len(text.split()), lead=" ")

    def _from(self, first: int, lead: str = "") -> Iterator[str]:
        for number, word in enumerate(WORDS[first:], first):
            if number == self.cut_after:
                self.cut_after = None
                raise self.error
            yield lead + word if number == first and not word.startswith(lead) else word


def read(url: str, source: Source, **options: Any) -> str:
    given: list[str] = []
    with holdfast.run("a", store=url) as run:
        given += run.stream("answer", source, REQUEST, **options)
    return "".join(given)


def events(url: str, kind: str) -> list[dict[str, Any]]:
    return [contents_of(event.body) for event in holdfast.store(url).events("a") if event.kind == kind]


def test_a_whole_answer_is_one_record_and_comes_back_without_asking(url: str) -> None:
    """The next attempt gets the text from the journal, and knows that it does."""
    source = Source()
    with suppress(RuntimeError), holdfast.run("a", store=url) as run:
        assert "".join(run.stream("answer", source, REQUEST)) == WHOLE
        raise RuntimeError
    with holdfast.run("a", store=url) as run:
        stream = run.stream("answer", source, REQUEST)
        assert stream.replayed
        assert "".join(stream) == WHOLE
    assert source.opened == 1
    assert events(url, Kind.STEP_FINISHED)[0]["value"] == WHOLE


def test_a_cut_off_answer_is_continued_from_its_middle(url: str) -> None:
    """The program gets all of it; the model writes only the rest; the record is one answer."""
    source = Source(cut_after=15)
    with suppress(Cut):
        read(url, source, go_on=source.go_on)
    assert read(url, source, go_on=source.go_on) == WHOLE
    assert source.opened == 1
    assert source.continued == ["".join(WORDS[:15]).rstrip()]
    outcome = events(url, Kind.STEP_FINISHED)[0]
    assert outcome["value"] == WHOLE
    assert outcome["continued"] == [len("".join(WORDS[:15]))]


def test_it_can_be_cut_again_and_again(url: str) -> None:
    """Each attempt goes on where the last one stopped."""
    source = Source()
    for after in (3, 9, 10, 30):
        source.cut_after = after
        with suppress(Cut):
            read(url, source, go_on=source.go_on)
    assert read(url, source, go_on=source.go_on) == WHOLE
    assert [len(text.split()) for text in source.continued] == [3, 9, 10, 30]


def test_restart_begins_again(url: str) -> None:
    """Without a way to go on, the whole is asked for again, and nothing of the first try is in it."""
    source = Source(cut_after=15)
    with suppress(Cut):
        read(url, source)
    assert read(url, source) == WHOLE
    assert source.opened == 2


def test_keep_takes_what_had_come_as_the_answer(url: str) -> None:
    """Nobody is asked; the record says that it is partial, and a replay gives the same."""
    source = Source(cut_after=15)
    with suppress(Cut):
        read(url, source, on_partial="keep")
    kept = "".join(WORDS[:15])
    with suppress(RuntimeError), holdfast.run("a", store=url) as run:
        assert "".join(run.stream("answer", source, REQUEST, on_partial="keep")) == kept
        raise RuntimeError
    assert read(url, source, on_partial="keep") == kept
    assert source.opened == 1
    assert events(url, Kind.STEP_FINISHED)[0]["partial"] is True


def test_an_error_of_the_programs_own_leaves_the_answer_to_be_continued(url: str) -> None:
    """What had come when the program failed is in the journal, whether or not it was flushed by then."""
    source = Source()
    with pytest.raises(ZeroDivisionError), holdfast.run("a", store=url) as run:
        for number, _ in enumerate(run.stream("answer", source, REQUEST, go_on=source.go_on)):
            1 / (5 - number)
    assert read(url, source, go_on=source.go_on) == WHOLE
    assert source.continued == ["".join(WORDS[:6]).rstrip()]


def test_a_closed_stream_is_the_answer_as_far_as_it_came(url: str) -> None:
    """A program that has enough closes it; in a replay it is given the same."""
    source = Source()
    with suppress(RuntimeError), holdfast.run("a", store=url) as run:
        with run.stream("answer", source, REQUEST) as stream:
            assert [next(stream), next(stream)] == WORDS[:2]
        raise RuntimeError
    assert read(url, source) == "".join(WORDS[:2])
    assert source.opened == 1


def test_pieces_are_in_the_journal_while_the_stream_stands_still(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody writes them down though nothing more comes. Planted: flushed only when the next piece came, they were lost."""
    monkeypatch.setattr("holdfast.engine.llm.stream_flusher.STREAM_FLUSH_S", 0.01)
    flushed = Signal()
    from holdfast.engine.llm.stream_journal import StreamWork

    plain = StreamWork.flush

    def flush(self: StreamWork) -> None:
        had = bool(self._pending)
        plain(self)
        if had:
            flushed.set()

    monkeypatch.setattr(StreamWork, "flush", flush)

    def stalling(request: Any) -> Iterator[str]:
        yield "first "
        assert flushed.wait(60)
        told = events(url, Kind.STREAM_CHUNK)
        assert [body["text"] for body in told] == ["first "]
        yield "second"

    with holdfast.run("a", store=url) as run:
        assert list(run.stream("answer", stalling, REQUEST)) == ["first ", "second"]


def test_much_at_once_is_written_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 KB do not wait for the clock."""
    monkeypatch.setattr("holdfast.engine.llm.stream_flusher.STREAM_FLUSH_S", 60)
    written = Signal()
    from holdfast.engine.llm.stream_journal import StreamWork

    plain = StreamWork.flush

    def flush(self: StreamWork) -> None:
        plain(self)
        written.set()

    monkeypatch.setattr(StreamWork, "flush", flush)

    def much(request: Any) -> Iterator[str]:
        for _ in range(30):
            yield "x" * 100
        assert written.wait(60)
        yield "end"

    with holdfast.run("a", store=url) as run:
        assert "".join(run.stream("answer", much, REQUEST)) == "x" * 3000 + "end"
    assert events(url, Kind.STREAM_CHUNK)


class EndsInTwo(PieceSource):
    """Marks the end of an answer, which comes in two tries; each breaks off behind its last piece."""

    marks_end = True
    messages = REQUEST["messages"]
    can_prefill = staticmethod(lambda: False)

    def __init__(self) -> None:
        self.tries = [["Once there was a sea."], [" It was deep.", "<end>"]]

    def open(self, messages: Any, had: int) -> Iterator[str]:
        yield from self.tries.pop(0)
        raise ConnectionError

    def delta_of(self, chunk: str) -> dict[str, Any]:
        return {"facts": {"finish_reason": "stop"}} if chunk == "<end>" else {"text": chunk}


@pytest.mark.usefixtures("clock")
def test_what_was_held_back_is_given_though_the_connection_breaks_after_the_end_mark(url: str) -> None:
    """A short continuation is held back until it is known whether it repeats: it is in the record, and given."""
    with holdfast.run("a", store=url) as run:
        streaming = Streaming(run._held, BLOCKING, Ask("answer", REQUEST), EndsInTwo(), "continue")
        drive(streaming.begin())
        given: list[str] = []
        while (piece := drive(streaming.next())) is not END:
            given.append(piece)
    assert (
        "".join(given) == events(url, Kind.STEP_FINISHED)[0]["value"] == "Once there was a sea. It was deep."
    )


def test_a_failure_of_the_provider_is_its_own_and_is_tried_again(url: str) -> None:
    """An error that no waiting helps against reaches the program; the next attempt goes on from what had come."""
    source = Source(cut_after=4, error=PermissionError)
    with pytest.raises(PermissionError):
        read(url, source, go_on=source.go_on)
    assert events(url, Kind.STEP_FAILED)
    assert read(url, source, go_on=source.go_on) == WHOLE
    assert len(source.continued) == 1


def test_calls_between_two_pieces_stand_where_they_stood(url: str) -> None:
    """Steps that the program makes while it reads are found again in a replay, and are no drift."""
    ran: list[str] = []

    def body(run: holdfast.Run) -> None:
        for number, piece in enumerate(run.stream("answer", Source(), REQUEST)):
            if number == 0:
                run.step("look", ran.append, piece[:5])
        run.step("after", ran.append, "after")

    for _ in range(2):
        with suppress(RuntimeError), holdfast.run("a", store=url) as run:
            body(run)
            raise RuntimeError
    assert ran == ["word0", "after"]
    assert not events(url, Kind.DRIFTED)


def test_another_call_between_two_pieces_is_drift(url: str) -> None:
    """It stands behind the stream, live as in a replay. Planted: behind what came before it, nobody noticed."""

    def body(run: holdfast.Run, what: str) -> None:
        for number, _ in enumerate(run.stream("answer", Source(), REQUEST)):
            if number == 0:
                run.step("look", str.upper, what)

    for what in ("one", "other"):
        with suppress(RuntimeError), holdfast.run("a", store=url) as run:
            body(run, what)
            raise RuntimeError
    assert "other" in events(url, Kind.DRIFTED)[0]["diff"]


def test_leaving_does_not_wait_for_a_stream_that_nobody_reads(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Planted: it counted as a call in flight, and the end of the attempt waited ten seconds for it."""
    with pytest.raises(ZeroDivisionError), holdfast.run("a", store=url, drain_s=0) as run:
        next(run.stream("answer", Source(), REQUEST))
        1 / 0  # noqa: B018
    assert "still runs" not in caplog.text


def test_a_lease_that_is_lost_in_mid_stream_hides_nothing(url: str) -> None:
    """The attempt ends with the program's own error, closed, and nobody goes on writing. Planted: the last pieces could not
    be written, and the end was never recorded, nor the run let go."""
    with pytest.raises(ZeroDivisionError), holdfast.run("a", store=url) as run:
        held = run._held
        next(run.stream("answer", Source(), REQUEST))
        assert held.journal is not None
        held.journal.lost = Lease(fence=99)
        1 / 0  # noqa: B018
    assert held.is_closed
    assert not held.session.part(Flusher)._streams


def test_a_fork_from_the_middle_of_an_answer_goes_on_from_there(url: str) -> None:
    """Its pieces stay, though the origin has the whole. Planted: pruned, the fork asked for all of it again."""
    source = Source()

    def flushing(request: Any) -> Iterator[str]:
        for number, word in enumerate(source(request)):
            if number in {5, 9}:
                for work in holdfast.current()._held.in_flight():
                    work.flush()  # type: ignore[attr-defined]
            yield word

    with holdfast.run("a", store=url) as run:
        assert "".join(run.stream("answer", flushing, REQUEST, go_on=source.go_on)) == WHOLE
    store = holdfast.store(url)
    first = next(event for event in store.events("a") if event.kind == Kind.STREAM_CHUNK)
    store.fork(f"a@#{first.seq}", as_="b")
    store.prune("a", policy=RETENTION)
    with holdfast.run("b", store=url) as run:
        assert "".join(run.stream("answer", flushing, REQUEST, go_on=source.go_on)) == WHOLE
    assert source.continued == [contents_of(first.body)["text"].rstrip()]


def test_the_awaited_stream_is_the_same(url: str) -> None:
    """Async pieces, async continuation, and the same records."""

    async def ask(request: Any) -> AsyncIterator[str]:
        for number, word in enumerate(WORDS):
            if number == 10:
                raise Cut
            yield word

    async def go_on(request: Any, text: str) -> AsyncIterator[str]:
        for word in WORDS[len(text.split()) :]:
            yield " " + word.rstrip()

    async def attempt() -> str:
        given: list[str] = []
        async with holdfast.run("a", store=url) as run:
            stream = await run.stream("answer", ask, REQUEST, go_on=go_on)
            given += [piece async for piece in stream]
        return "".join(given)

    with pytest.raises(Cut):
        asyncio.run(attempt())
    assert asyncio.run(attempt()).split() == WHOLE.split()


class Noted(NamedTuple):
    """An event of some SDK."""

    number: int
    text: str


def test_events_are_streamed_as_they_are(url: str) -> None:
    """Any storable type: each is in the journal as it comes; a replay gives the same events, one by one."""
    sent = [Noted(number, word) for number, word in enumerate(WORDS[:5])]
    with suppress(RuntimeError), holdfast.run("a", store=url) as run:
        assert list(run.stream("answer", lambda _: sent, REQUEST)) == sent
        raise RuntimeError
    with holdfast.run("a", store=url) as run:
        stream = run.stream("answer", lambda _: sent, REQUEST)
        assert stream.replayed
        assert list(stream) == sent


@pytest.mark.parametrize(("on_partial", "asked"), [("restart", 2), ("keep", 1)])
def test_events_that_were_cut_off_are_begun_again_or_kept(url: str, on_partial: Any, asked: int) -> None:
    """What had arrived is in the journal, though the program changed the events since."""
    calls: list[int] = []

    def ask(_: Any) -> Iterator[dict[str, Any]]:
        calls.append(1)
        for number in range(6):
            if number == 4 and len(calls) == 1:
                raise Cut
            yield {"number": number}

    def attempt() -> list[int]:
        given: list[int] = []
        with holdfast.run("a", store=url) as run:
            given += [
                event.pop("number") for event in run.stream("answer", ask, REQUEST, on_partial=on_partial)
            ]
        return given

    with pytest.raises(Cut):
        attempt()
    assert attempt() == [*range(6 if on_partial == "restart" else 4)]
    assert len(calls) == asked


def test_an_answer_is_of_one_kind(url: str) -> None:
    """Misuse says what came: texts and events cannot be joined, and only texts can be continued."""
    mixed: list[Any] = ["a", {"b": 1}]
    with holdfast.run("a", store=url) as run:
        with pytest.raises(holdfast.Misuse, match="dict"):
            list(run.stream("answer", lambda _: mixed, REQUEST))
        with pytest.raises(holdfast.Misuse, match="only texts"):
            list(run.stream("other", lambda _: mixed[1:], REQUEST, go_on=lambda _, text: [text]))


def test_continue_needs_a_way_to_go_on(url: str) -> None:
    """A policy that cannot be kept is refused before anything is asked; so is one that is none."""
    with holdfast.run("a", store=url) as run:
        with pytest.raises(holdfast.Misuse, match="go_on"):
            run.stream("answer", Source(), REQUEST, on_partial="continue")
        with pytest.raises(holdfast.BadOption, match="on_partial"):
            run.stream("answer", Source(), REQUEST, on_partial="maybe")  # type: ignore[arg-type]


def pieces(url: str) -> list[dict[str, Any]]:
    return [body for body in events(url, Kind.STREAM_CHUNK) if "text" in body]


def test_pieces_of_a_whole_answer_go_with_the_next_prune_and_others_stay(url: str) -> None:
    """The record of the whole is enough; what was cut off is only in its pieces. Planted: pruned as well, the answer began
    again."""
    whole, cut = Source(), Source(cut_after=7)

    def body(run: holdfast.Run) -> None:
        ask: Callable[..., Any] = run.stream
        stream = ask("first", whole, REQUEST)
        next(stream)
        for work in run._held.in_flight():
            work.flush()  # type: ignore[attr-defined]
        list(stream)
        list(ask("second", cut, REQUEST, go_on=cut.go_on))

    with suppress(Cut), holdfast.run("a", store=url) as run:
        body(run)
    assert len(pieces(url)) >= 2
    holdfast.store(url).prune("a", policy=RETENTION)
    assert [body["text"] for body in pieces(url)] == ["".join(WORDS[:7])]
    with holdfast.run("a", store=url) as run:
        body(run)
    assert cut.continued
