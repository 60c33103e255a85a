"""Streams of any SDK, for ``run.stream``: plain texts, or events of any storable type.

Texts are joined: the recorded answer is one text, and a cut-off one can be continued. Events are kept as they
came: the recorded answer is their list, and a cut-off one is begun again or kept.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from orjson import loads

from holdfast.codec.values import decode_tree, encode
from holdfast.core.llm.streams import Partial
from holdfast.core.llm.streams.recovery import OnPartial
from holdfast.engine.llm.model_call import Ask
from holdfast.engine.llm.stream import ON_PARTIAL, Streaming
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps.call_options import choose
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Misuse

_EVENTS = "events"


class PieceSource:
    """A function that yields an answer in pieces, and optionally one that continues a partial text."""

    marks_end = False
    is_over = False
    messages: Sequence[Any] = ()

    def __init__(self, call: Callable[..., Any], request: Any, go_on: Callable[..., Any] | None) -> None:
        self._call, self._request, self._go_on = call, request, go_on
        self._is_text: bool | None = None
        """Whether the pieces are texts: the first one decides."""

    def open(self, messages: Sequence[Any] | None, had: int) -> Any:  # noqa: ARG002 - the same for all sources
        """The texts of the whole answer, or of its rest."""
        chunks = (
            self._call(self._request)
            if messages is None or self._go_on is None
            else self._go_on(self._request, messages[-1]["content"])
        )
        return chunks if hasattr(chunks, "__anext__") else iter(chunks)

    @staticmethod
    def can_prefill() -> bool:
        """True: the policy ``continue`` is refused before, where there is no function for it."""
        return True

    def delta_of(self, chunk: Any) -> dict[str, Any]:
        """The piece, as a text or as an event. Misuse where the pieces of one answer are both."""
        is_text = type(chunk) is str
        if self._is_text is None:
            self._is_text = is_text
        if self._is_text != is_text or (self._go_on is not None and not is_text):
            wanted = "texts" if self._go_on is not None else "pieces of one kind"
            raise Misuse(
                problem=f"run.stream got a {type(chunk).__name__} from its call, and needs {wanted}",
                advice="let the call yield only texts, or only events; with go_on= only texts",
            )
        if is_text:
            return {"text": chunk}
        # A list in a list: the journal joins neighbouring lists, and so keeps the order.
        return {"more": {_EVENTS: [[loads(encode(chunk, what="event of a stream"))]]}}

    @staticmethod
    def answer_of(partial: Partial) -> Any:
        """The text, or the events."""
        return PieceSource.events_of(partial) if _EVENTS in partial.more else partial.text

    @staticmethod
    def events_of(partial: Partial) -> list[Any]:
        return [
            decode_tree(tree, what="event of a stream")
            for piece in partial.more.get(_EVENTS, ())
            for tree in piece
        ]

    @staticmethod
    def chunks_of(value: Any) -> Iterable[Any]:
        """The whole text at once, or the events."""
        return value if type(value) is list else [value] if value else []

    @staticmethod
    def recovered(partial: Partial) -> Iterable[str]:
        """The text that had arrived."""
        return [partial.text] if partial.text else []

    rest = recovered

    def has_given(self, partial: Partial) -> None:
        """Nothing to remember for texts."""

    @staticmethod
    def live(chunk: Any, delta: dict[str, Any]) -> Iterable[Any]:  # noqa: ARG004 - the same for all sources
        """The chunk itself."""
        return [chunk]

    continued = live

    @staticmethod
    def closing(value: Any) -> Iterable[Any]:  # noqa: ARG004 - the same for all sources
        """Nothing: a text has no end marker."""
        return []


async def stream_pieces(
    held: HeldRun,
    runtime: Runtime,
    ask: Ask,
    call: Callable[..., Any],
    go_on: Callable[..., Any] | None,
    on_partial: OnPartial | None,
) -> Streaming:
    """The answer in pieces. By default a partial one is continued if there is ``go_on``, else restarted."""
    if on_partial is None:
        on_partial = "restart" if go_on is None else "continue"
    choose("on_partial", on_partial, ON_PARTIAL)
    if on_partial == "continue" and go_on is None:
        raise Misuse(
            problem=f"on_partial='continue' for {ask.name!r}, and nothing that could continue an answer",
            advice="give go_on=, a function of the request and the text so far",
        )
    streaming = Streaming(held, runtime, ask, PieceSource(call, ask.request, go_on), on_partial)
    await streaming.begin()
    return streaming
