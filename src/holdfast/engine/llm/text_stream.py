"""Streams of plain text from any SDK, for ``run.stream``."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.core.llm.streams import Partial
from holdfast.core.llm.streams.recovery import OnPartial
from holdfast.engine.llm.model_call import Ask
from holdfast.engine.llm.stream import ON_PARTIAL, Streaming
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps.call_options import choose
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Misuse


class TextSource:
    """A function that yields an answer as texts, and optionally one that continues a partial answer."""

    marks_end = False
    messages: Sequence[Any] = ()

    def __init__(self, call: Callable[..., Any], request: Any, go_on: Callable[..., Any] | None) -> None:
        self._call, self._request, self._go_on = call, request, go_on

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

    @staticmethod
    def delta_of(chunk: Any) -> dict[str, Any]:
        """The piece as a text. Misuse for any other type: only texts can be joined."""
        if type(chunk) is not str:
            raise Misuse(
                problem=f"run.stream got a {type(chunk).__name__} from its call, not a text",
                advice="let the call yield the text of each piece; "
                "a whole answer of any type is for run.model(...)",
            )
        return {"text": chunk}

    @staticmethod
    def answer_of(partial: Partial) -> str:
        """The text."""
        return partial.text

    @staticmethod
    def chunks_of(value: str) -> Iterable[str]:
        """The whole text at once."""
        return [value] if value else []

    @staticmethod
    def recovered(partial: Partial) -> Iterable[str]:
        """The text that had arrived."""
        return [partial.text] if partial.text else []

    rest = recovered

    def has_given(self, partial: Partial) -> None:
        """Nothing to remember for texts."""

    @staticmethod
    def live(chunk: str, delta: dict[str, Any]) -> Iterable[str]:  # noqa: ARG004 - the same for all sources
        """The chunk itself."""
        return [chunk]

    continued = live

    @staticmethod
    def closing(value: str) -> Iterable[str]:  # noqa: ARG004 - the same for all sources
        """Nothing: a text has no end marker."""
        return []


async def stream_texts(
    held: HeldRun,
    runtime: Runtime,
    ask: Ask,
    call: Callable[..., Any],
    go_on: Callable[..., Any] | None,
    on_partial: OnPartial | None,
) -> Streaming:
    """The answer as texts. By default a partial answer is continued if there is ``go_on``, else restarted."""
    if on_partial is None:
        on_partial = "restart" if go_on is None else "continue"
    choose("on_partial", on_partial, ON_PARTIAL)
    if on_partial == "continue" and go_on is None:
        raise Misuse(
            problem=f"on_partial='continue' for {ask.name!r}, and nothing that could continue an answer",
            advice="give go_on=, a function of the request and the text so far",
        )
    streaming = Streaming(held, runtime, ask, TextSource(call, ask.request, go_on), on_partial)
    await streaming.begin()
    return streaming
