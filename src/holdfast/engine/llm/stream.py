"""Gives a streamed answer to the program piece by piece, and records the pieces as they arrive.

Invariant: the recorded answer is exactly the text that the program got, so that a replay gives the same.

Crash windows: killed before the first piece is written, the next attempt sends the request again. Killed in
mid-stream, it finds the written pieces and continues from them, restarts, or keeps them, as the policy says;
the program gets the whole answer in each case. After the outcome, only the record of the answer is needed.
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
from holdfast.errors import HoldfastError, StopSignal, UnusableAnswer
from holdfast.model.event_fields import contents_of

ON_PARTIAL: Final[tuple[str, ...]] = get_args(OnPartial)

_IN_THE_MIDDLE: Final = "in the middle of the answer"
_MISSHAPEN: Final = (AttributeError, LookupError, TypeError, ValueError)


class End:
    """The type of END, which a stream returns after its last piece."""


END: Final = End()


class Source(Protocol):
    """How one provider streams: what is needed to record its answers and to continue a partial one."""

    marks_end: bool
    """Whether it marks the end of an answer; otherwise the answer ends with its last piece."""
    is_over: bool
    """Whether the stream has said that it is over. Some servers leave out why the answer ended."""

    @property
    def open(self) -> Callable[..., Any]:
        """Sends the request and returns the pieces; given messages, sends those to continue an answer.

        Its second argument is the number of pieces that the partial answer has already. It may be async.
        """
        ...

    @property
    def can_prefill(self) -> Callable[..., Any]:
        """Whether the provider continues a partial answer that it is sent.

        It may be async, and ask the provider.
        """
        ...

    @property
    def messages(self) -> Sequence[Any]:
        """The messages of the request."""
        ...

    def delta_of(self, chunk: Any) -> dict[str, Any]:
        """What a piece adds to the answer; see ``core.llm.streams``."""
        ...

    def answer_of(self, partial: Partial) -> Any:
        """The answer as it is recorded."""
        ...

    def chunks_of(self, value: Any) -> Iterable[Any]:
        """A recorded answer as pieces."""
        ...

    def recovered(self, partial: Partial) -> Iterable[Any]:
        """A partial answer as pieces, without an end."""
        ...

    def rest(self, partial: Partial) -> Iterable[Any]:
        """The rest of an answer as pieces, with its end, if it has one."""
        ...

    def has_given(self, partial: Partial) -> None:
        """Note that the program got this partial answer from this source."""
        ...

    def live(self, chunk: Any, delta: dict[str, Any]) -> Iterable[Any]:
        """A piece of the first try, as the program is to see it."""
        ...

    def continued(self, chunk: Any, delta: dict[str, Any]) -> Iterable[Any]:
        """A piece of a continuation, as pieces of the whole answer."""
        ...

    def closing(self, value: Any) -> Iterable[Any]:
        """The pieces that end the answer after a continuation, where its own pieces do not."""
        ...


class Streaming:
    """One streamed answer, from the request to its record. Not for several readers at once."""

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
        """How many pieces have arrived in all tries, which is about the number of tokens."""
        self._late: Exception | None = None
        """A recorded failure that is due when the program reads."""
        self._is_read = False
        """Whether the program has the stream."""
        self._has_given = False
        """Whether the program got any piece in this attempt."""
        self._plan_messages: Sequence[Any] | None = None

    async def begin(self) -> None:
        """Answer from the journal, or record the request and send it."""
        held = self._held
        held.check_usable()
        await STATES.of(held).learn_first(self._runtime)
        taken, asked = identify_request(held, self._ask)
        try:
            call = held.view.calls.get(asked.key)
            try:
                found = await find_answer(held, self._runtime, asked, call, None)
            except Exception as error:
                if _IN_THE_MIDDLE not in getattr(error, "__notes__", ()):
                    raise
                # The program got it while it read, and clients tell the two apart: it gets it there again.
                self._late, self.is_replayed = error, True
                return
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
        try:
            await self._go_on_from(fold_partial(written), None)
            if not self._ready and not self._is_over:
                await self._open()
        except BaseException:
            self.let_go()  # there is no stream to close; the program may ask again, which is the same call
            raise

    async def next(self) -> Any:
        """The next piece, or END once the whole answer is recorded."""
        self._is_read = True
        if self._late is not None:
            raise self._late
        while True:
            if self._ready:
                self._has_given = True
                return self._ready.popleft()
            if self._is_over:
                return END
            if self._chunks is None:
                await self._open()
                continue  # the open may have ended the stream, or made pieces ready, instead of opening it
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
        """Stop reading: what has arrived is recorded as the answer.

        While an exception propagates, it stays a partial answer instead, which the next attempt continues.
        """
        if self._is_over or self._work is None:
            return
        if sys.exc_info()[0] is not None:
            self.let_go()
        else:
            await self._conclude({"partial": True})

    def let_go(self) -> None:
        """Leave the pieces in the journal when the attempt ends, for the next attempt.

        A failed write (a lost lease, a full disk) is only logged: it must not hide why the attempt ends.
        """
        if self._work is None or self._is_over:
            return
        try:
            self._stop()
        except (HoldfastError, StopSignal) as refused:
            log().warning(
                "the last pieces of the answer to %r are not in the journal: %s", self._ask.name, refused
            )

    # -- its parts -------------------------------------------------------------------------------------------

    async def _go_on_from(self, partial: Partial, given: str | None) -> bool:
        """Plan the next try from what earlier ones left. False where the program has pieces that do not fit.

        ``given`` is the part of the text that the program has; None if it has nothing.
        """
        assert self._work is not None
        prefill = False
        if self._on_partial == "continue" and not partial.is_empty and not is_whole(partial):
            prefill = await self._runtime.invoke(self._source.can_prefill, (), {}, None)
        plan = plan_of(partial, self._on_partial, prefill, self._source.messages)
        # The program cannot give pieces back. After a restart, or with half a tool call among them, they
        # would not be part of the recorded answer; so the call fails instead.
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
        """Give the program the partial answer, unless it has it from this attempt."""
        assert self._seam is not None
        if self._has_given:
            self._source.has_given(partial)
            return
        kept = Partial()
        kept.text, kept.reasoning, kept.facts = self._seam.given, partial.reasoning, dict(partial.facts)
        self._ready.extend(self._source.recovered(kept))

    def _given(self) -> str | None:
        """The text that the program has; None before the first piece."""
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
        try:
            delta = self._source.delta_of(chunk)
            self._current.add(delta)
        except HoldfastError:
            raise
        except _MISSHAPEN as error:  # JSON, and not what the protocol says: as useless as what is not JSON
            await self._broke_off(self._unusable(f"its stream has an event of another shape ({error!r})"))
            return
        if delta.keys() - {"facts"}:
            await self._work.watch.over()  # the provider answers again: an open wait ends
        self._pieces += 1
        self._work.add(delta)
        seam = self._seam
        if seam is None or seam.is_settled:
            give = self._source.live if seam is None else self._source.continued
            self._ready.extend(give(chunk, delta))
        elif not self._current.calls and seam.settles(self._current.text, at_end=False):
            self._give_after_seam(seam)

    def _give_after_seam(self, seam: JoinPoint) -> None:
        """Give the pieces that were held back, now that it is known how much of them is a repetition."""
        rest = Partial()
        rest.text, rest.reasoning, rest.calls = seam.rest, self._current.reasoning, self._current.calls
        rest.facts, rest.more = dict(self._current.facts), self._current.more
        self._ready.extend(self._source.rest(rest))

    async def _ended(self) -> None:
        is_over = self._source.is_over and not self._current.is_empty and not self._current.calls
        if not is_whole(self._current) and (is_over or not self._source.marks_end):
            self._current.add({"facts": {"finish_reason": "stop"}})
        if not is_whole(self._current):
            await self._broke_off(self._why_ended())
            return
        seam = self._seam
        if seam is not None and not seam.is_settled:
            seam.settles(self._current.text, at_end=True)
            self._give_after_seam(seam)
        value = await self._conclude({})
        if seam is not None:
            self._ready.extend(self._source.closing(value))

    def _why_ended(self) -> Exception:
        """Why a stream ended in good order, but not with an end. Another may be as empty as this one."""
        if self._current.is_empty:
            return self._unusable("its stream ended with nothing in it")
        return ConnectionError("the answer was cut off before its end")

    def _unusable(self, problem: str) -> UnusableAnswer:
        return UnusableAnswer(provider=self._ask.provider, step=self._ask.name, problem=problem)

    async def _broke_off(self, error: Exception) -> None:
        """The provider failed before or in the middle of the answer."""
        assert self._work is not None
        if is_whole(self._current):  # the connection broke after the end mark: nothing is missing
            await self._ended()
            return
        self._work.flush()
        given = self._given()  # before ``_whole`` settles the seam, which counts the held-back text as given
        if not await self._work.may_go_on(error) or not await self._go_on_from(self._whole(), given):
            await self._fail(error)

    async def _fail(self, error: Exception) -> None:
        assert self._work is not None
        if self._is_read:
            error.add_note(_IN_THE_MIDDLE)
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
    """The next piece of an async or a plain iterator, or END."""
    if runtime.waits and hasattr(chunks, "__anext__"):
        try:
            return await chunks.__anext__()
        except StopAsyncIteration:
            return END
    return await runtime.invoke(next, (chunks, END), {}, None)


class Streams(Feature):
    """The streamed answers that the program has begun to read."""

    def __init__(self, held: HeldRun) -> None:
        super().__init__(held)
        self.open: set[Any] = set()

    def closing(self) -> None:
        """Leave the open streams to the next attempt."""
        for stream in tuple(self.open):
            stream.let_go()


STREAMS: Final = Slot("streams", Streams)
