"""A streamed answer: given to the program as it comes, and journaled as it comes.

Crash windows: before the first piece is written, the request is sent again. Killed in mid-stream, the pieces are there,
and the next attempt goes on from them, begins again or keeps them, as the policy says; it gives the program all of the
answer either way. After the outcome the whole answer is one record, and the pieces are not needed any more.

What the program was given and what is recorded is the same text, to the character: a later replay must not differ.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, get_args

from holdfast.core.llm.model_fold import MODEL
from holdfast.core.llm.streams import Partial, fold_partial, is_whole, joined, plan_of
from holdfast.core.llm.streams.joined_tries import JoinPoint
from holdfast.core.llm.streams.recovery import OnPartial
from holdfast.engine.llm.model_call import Ask, identify_request
from holdfast.engine.llm.provider_wait import Line
from holdfast.engine.llm.stream_journal import StreamWork
from holdfast.engine.log import log
from holdfast.engine.run.features import Feature, Slot
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.state.held_states import STATES
from holdfast.engine.steps.call_identity import find_answer
from holdfast.engine.sync_async import Runtime
from holdfast.errors import HoldfastError, StopSignal
from holdfast.model.event_fields import contents_of

ON_PARTIAL: Final[tuple[str, ...]] = get_args(OnPartial)


class End:
    """What a stream gives when it has nothing more."""


END: Final = End()


class Source(Protocol):
    """How one provider streams: what is to be known of it to journal its answers and to go on with them."""

    marks_end: bool
    """Whether it says when an answer is whole; otherwise it is when nothing more comes."""

    @property
    def open(self) -> Callable[..., Any]:
        """Sends the request, or (with other messages) one that goes on with an answer: its pieces. It may be async.

        Its second argument is how many pieces there are already of an answer that is gone on with.
        """
        ...

    @property
    def can_prefill(self) -> Callable[..., Any]:
        """Tells whether it goes on from the middle of an answer that it is sent. It may be async, and ask."""
        ...

    @property
    def messages(self) -> Sequence[Any]:
        """The conversation that the answer belongs to."""
        ...

    def delta_of(self, chunk: Any) -> dict[str, Any]:
        """What a piece adds; see ``core.llm.streams``."""
        ...

    def answer_of(self, partial: Partial) -> Any:
        """The answer as it is recorded."""
        ...

    def chunks_of(self, value: Any) -> Iterable[Any]:
        """A recorded answer as pieces."""
        ...

    def recovered(self, partial: Partial) -> Iterable[Any]:
        """What had arrived of an answer when it was cut off, as pieces that do not end it."""
        ...

    def rest(self, partial: Partial) -> Iterable[Any]:
        """What came after that, as pieces; with its end, if it has one."""
        ...

    def has_given(self, partial: Partial) -> None:
        """What has arrived so far, the program has got from this very source."""
        ...

    def live(self, chunk: Any, delta: dict[str, Any]) -> Iterable[Any]:
        """A piece as the program is to see it."""
        ...

    def continued(self, chunk: Any, delta: dict[str, Any]) -> Iterable[Any]:
        """A piece of a continuation as pieces of the whole."""
        ...

    def closing(self, value: Any) -> Iterable[Any]:
        """What ends the whole after a continuation, where its pieces do not."""
        ...


class Streaming:
    """One streamed answer, from the request to its record. One reader at a time."""

    def __init__(
        self,
        held: HeldRun,
        runtime: Runtime,
        ask: Ask,
        source: Source,
        on_partial: OnPartial,
        line: Line | None = None,
    ) -> None:
        self._held, self._runtime, self._ask, self._source = held, runtime, ask, source
        self._line = line
        self._on_partial: OnPartial = on_partial
        self._ready: deque[Any] = deque()
        self._chunks: Any = None
        self._is_over = False
        self.is_replayed = False
        self._work: StreamWork | None = None
        self._before = Partial()
        self._current = Partial()
        self._how = ""
        self._seam: JoinPoint | None = None
        self._continued: list[int] = []
        self._pieces = 0
        """How many pieces have come, in all tries: about as many as tokens."""
        self._has_given = False
        """Whether the program was given anything in this attempt."""
        self._plan_messages: Sequence[Any] | None = None

    async def begin(self) -> None:
        """Answer from the journal, or record the request and send it."""
        held = self._held
        held.check_usable()
        await STATES.of(held).learn_first(self._runtime)
        taken, asked = identify_request(held, self._ask)
        try:
            call = held.view.calls.get(asked.key)
            found = await find_answer(held, self._runtime, asked, call, None)
            if found is not None:
                self._give(found.value)
                self.is_replayed = True
                return
            work = StreamWork(
                held, self._runtime, self._ask, taken, asked, self._source.open, line=self._line
            )
            await work.enter(call)
            await work.start(call)
            self._work = work
        finally:
            if self._work is None:
                held.land(asked.site)
        STREAMS.of(held).open.add(self)
        written = [contents_of(body) for body in MODEL.of(held.view).partials.get(asked.key, ())]
        self._pieces = sum(body.get("pieces", 0) for body in written)
        await self._go_on_from(fold_partial(written), None)
        if not self._ready and not self._is_over:
            await self._open()

    async def next(self) -> Any:
        """The next piece, or END once the whole answer is recorded."""
        while True:
            if self._ready:
                self._has_given = True
                return self._ready.popleft()
            if self._is_over:
                return END
            if self._chunks is None:
                await self._open()
                continue  # what had to be given up or kept meanwhile is over
            try:
                chunk = await pull(self._runtime, self._chunks)
            except Exception as error:  # noqa: BLE001 - whatever the provider's client raises
                await self._broke_off(error)
                continue
            if chunk is END:
                await self._ended()
            else:
                await self._take(chunk)

    async def close(self) -> None:
        """The program wants no more of it: what has come is the answer. On the way out of an error, it is not."""
        if self._is_over or self._work is None:
            return
        if sys.exc_info()[0] is not None:
            self.let_go()
        else:
            await self._conclude({"partial": True})

    def let_go(self) -> None:
        """The attempt ends: what has come stays in the journal, and the next attempt goes on from it.

        What cannot be written any more (the lease is lost, the disk is full) is told; it must not hide why the attempt ends.
        """
        if self._work is None or self._is_over:
            return
        try:
            self._stop()
        except (HoldfastError, StopSignal) as refused:
            log().warning(
                "the last pieces of the answer to %r are not in the journal: %s", self._ask.name, refused
            )

    # -- its parts -----------------------------------------------------------------------------------------------

    async def _go_on_from(self, partial: Partial, given: str | None) -> bool:
        """Begin with what an earlier try has left behind. False where the program has parts that cannot be taken back.

        ``given`` is the text of it that the program has; None if it was given nothing.
        """
        assert self._work is not None
        prefill = False
        if self._on_partial == "continue" and not partial.is_empty and not is_whole(partial):
            prefill = await self._runtime.invoke(self._source.can_prefill, (), {}, None)
        plan = plan_of(partial, self._on_partial, prefill, self._source.messages)
        if given is not None and (plan.how == "restart" or partial.calls) and not partial.is_empty:
            return False
        self._before, self._current, self._how = Partial(), Partial(), plan.continues
        self._chunks, self._seam, self._plan_messages = None, None, plan.messages
        if plan.how in {"whole", "keep"}:
            self._current = partial
            value = await self._conclude({} if plan.how == "whole" else {"partial": True})
            if given is None:
                self._give(value)
        elif plan.continues:
            self._before = partial
            self._seam = JoinPoint(partial.text, plan.continues, given)
            self._continued.append(len(partial.text))
            self._begin_with(partial)
        self._work.next_try(plan.continues)
        return True

    def _begin_with(self, partial: Partial) -> None:
        """Give the program what had arrived, unless it has it."""
        assert self._seam is not None
        if self._has_given:
            self._source.has_given(partial)
            return
        kept = Partial()
        kept.text, kept.reasoning, kept.facts = self._seam.given, partial.reasoning, dict(partial.facts)
        self._ready.extend(self._source.recovered(kept))

    def _given(self) -> str | None:
        """The text that the program has; None before it was given anything."""
        if not self._has_given:
            return None
        return self._current.text if self._seam is None else self._seam.given_with(self._current.text)

    def _give(self, value: Any) -> None:
        self._ready.extend(self._source.chunks_of(value))
        self._is_over = True

    async def _open(self) -> None:
        while self._chunks is None and not self._is_over:
            try:
                had = self._pieces if self._how else 0
                self._chunks = await self._runtime.invoke(
                    self._source.open, (self._plan_messages, had), {}, None
                )
            except Exception as error:  # noqa: BLE001 - whatever the provider's client raises
                await self._broke_off(error)

    async def _take(self, chunk: Any) -> None:
        assert self._work is not None
        await self._work.watch.over()  # it speaks again
        delta = self._source.delta_of(chunk)
        self._pieces += 1
        self._current.add(delta)
        self._work.add(delta)
        seam = self._seam
        if seam is None or seam.is_settled:
            give = self._source.live if seam is None else self._source.continued
            self._ready.extend(give(chunk, delta))
        elif not self._current.calls and seam.settles(self._current.text, at_end=False):
            self._give_after_seam(seam)

    def _give_after_seam(self, seam: JoinPoint) -> None:
        """What the model went on with, once it is known how much of it is a repetition; with all that was held back."""
        rest = Partial()
        rest.text, rest.reasoning, rest.calls = seam.rest, self._current.reasoning, self._current.calls
        rest.facts = dict(self._current.facts)
        self._ready.extend(self._source.rest(rest))

    async def _ended(self) -> None:
        if not self._source.marks_end:
            self._current.add({"facts": {"finish_reason": "stop"}})
        if not is_whole(self._current):
            await self._broke_off(ConnectionError("the answer was cut off before its end"))
            return
        seam = self._seam
        if seam is not None and not seam.is_settled:
            seam.settles(self._current.text, at_end=True)
            self._give_after_seam(seam)
        value = await self._conclude({})
        if seam is not None:
            self._ready.extend(self._source.closing(value))

    async def _broke_off(self, error: Exception) -> None:
        """The provider failed before or in the middle of the answer."""
        assert self._work is not None
        self._work.flush()
        given = self._given()  # before what was held back at a seam is taken for the answer's
        if not await self._work.may_go_on(error) or not await self._go_on_from(self._whole(), given):
            await self._fail(error)

    async def _fail(self, error: Exception) -> None:
        assert self._work is not None
        try:
            await self._work.record_failure(error)
        finally:
            self._stop()
        raise error

    def _whole(self) -> Partial:
        if not self._how:
            return self._current
        whole = joined(self._before, self._current, self._how)
        assert self._seam is not None
        if not self._seam.is_settled:
            self._seam.settles(self._current.text, at_end=True)
        whole.text = self._seam.text_with(self._current.text)
        return whole

    async def _conclude(self, fields: dict[str, Any]) -> Any:
        assert self._work is not None
        if self._continued:
            fields["continued"] = self._continued
        value = self._source.answer_of(self._whole())
        try:
            await self._work.succeed(value, fields)
        finally:
            self._stop()
        return value

    def _stop(self) -> None:
        assert self._work is not None
        self._is_over = True
        STREAMS.of(self._held).open.discard(self)
        self._work.stop()


async def pull(runtime: Runtime, chunks: Any) -> Any:
    """The next piece, or END."""
    if runtime.waits and hasattr(chunks, "__anext__"):
        try:
            return await chunks.__anext__()
        except StopAsyncIteration:
            return END
    return await runtime.invoke(next, (chunks, END), {}, None)


class Streams(Feature):
    """Streamed answers that the program has begun to read."""

    def __init__(self, held: HeldRun) -> None:
        super().__init__(held)
        self.open: set[Any] = set()

    def closing(self) -> None:
        """The program reads them no more."""
        for stream in tuple(self.open):
            stream.let_go()


STREAMS: Final = Slot("streams", Streams)
