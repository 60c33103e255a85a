"""OpenTelemetry: spans of runs by the conventions for generative AI, for the program's own exporter.

``instrument()`` once, or ``with traced():`` around some runs. Each attempt is a trace of its own (or a part
of the current one when the run is entered), so that a run of days is not a trace of days. Its
``invoke_agent`` span links to that of the attempt before, whose ids are in the journal and so survive a
crash. All share one conversation id. Replayed calls are counted on the attempt's span and make no spans of
their own, by default.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

from orjson import dumps, loads

from holdfast._version import __version__
from holdfast.adapters.shared import journaled_calls
from holdfast.codec.secrets import mask, masked_data
from holdfast.core.llm.request_shapes import model_in
from holdfast.engine.llm.model_call import ModelWork
from holdfast.engine.llm.stream_journal import StreamWork
from holdfast.engine.run import observers
from holdfast.engine.steps.call_identity import RequestedCall
from holdfast.engine.steps.call_options import choose
from holdfast.engine.steps.step import Work
from holdfast.errors import Parked, PremiseMissing, StepInDoubt
from holdfast.model.calls import Outcome
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event, Kind
from holdfast.model.secret_text import shown

try:
    from opentelemetry import context, trace
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
except ImportError as error:
    raise journaled_calls.not_installed("holdfast.adapters.otel", "otel", error) from error

Replayed = Literal["count", "spans"]
_NOTED: Final = {
    Kind.ATTEMPT_CRASHED: "holdfast.attempt.crashed",
    Kind.STEP_DOUBTED: "holdfast.step.in_doubt",
    Kind.STEP_SETTLED: "holdfast.step.settled",
    Kind.STEP_RETRIED: "holdfast.step.retried",
    Kind.DRIFTED: "holdfast.drifted",
    Kind.WAIT_STARTED: "holdfast.wait.started",
    Kind.WAIT_ENDED: "holdfast.wait.ended",
    Kind.QUESTION_ASKED: "holdfast.question.asked",
    Kind.QUESTION_ANSWERED: "holdfast.question.answered",
    Kind.BUDGET_WARNED: "holdfast.budget.warned",
    Kind.PREMISE_BROKEN: "holdfast.premise.broken",
    Kind.LOOP_NOTICED: "holdfast.loop.noticed",
    Kind.RUN_CANCELLED: "holdfast.run.cancelled",
}
"""What happens to a run besides its calls, as events of a span."""


def instrument(
    tracer_provider: Any = None, *, content: bool = False, replayed: Replayed = "count"
) -> observers.Observer | None:
    """Trace the runs that are entered from now on. Returns the previous observer, for ``observers.put``.

    ``content`` puts requests and answers of models and tools into the spans: it may be private, and is off by
    default. ``replayed="spans"`` gives each replayed call a span too.
    """
    return observers.put(Tracing(tracer_provider, content=content, replayed=replayed))


@contextmanager
def traced(
    tracer_provider: Any = None, *, content: bool = False, replayed: Replayed = "count"
) -> Iterator[None]:
    """Trace the runs that are entered inside of this block."""
    before = instrument(tracer_provider, content=content, replayed=replayed)
    try:
        yield
    finally:
        observers.put(before)


class Tracing:
    """Makes a span for each attempt, and spans for its calls."""

    def __init__(self, tracer_provider: Any, *, content: bool, replayed: Replayed) -> None:
        choose("replayed", replayed, ("count", "spans"))
        self.tracer = trace.get_tracer("holdfast", __version__, tracer_provider)
        self.content, self.replayed = content, replayed

    def attend(self, beginning: observers.Beginning) -> "Attempt":
        """The span of this attempt."""
        return Attempt(self, beginning)


class Attempt:
    """One attempt's span, current in the program until it leaves the run, and the spans of its calls."""

    def __init__(self, tracing: Tracing, beginning: observers.Beginning) -> None:
        self._tracing = tracing
        self._common = {"gen_ai.conversation.id": beginning.birth, "holdfast.run.id": beginning.run}
        agent = beginning.agent or beginning.run
        before = _span_context(beginning.before.get("traceparent"))
        self._span = tracing.tracer.start_span(
            mask(f"invoke_agent {agent}"),
            kind=SpanKind.INTERNAL,
            attributes=masked_data(
                {
                    **self._common,
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.agent.name": agent,
                    "holdfast.attempt": beginning.number,
                }
            ),
            links=[] if before is None else [Link(before, {"holdfast.attempt": beginning.number - 1})],
        )
        self._current = trace.set_span_in_context(self._span)
        self._token: Any = context.attach(self._current)
        self._calls: dict[str, Call] = {}
        self._replayed = 0

    @property
    def said(self) -> Mapping[str, Any]:
        """The ids of the span, so that the next attempt can link to it."""
        return {"traceparent": _traceparent(self._span.get_span_context())}

    def began(self, work: Work) -> None:
        """A span for the call."""
        call = self._calls[work.asked.key] = Call(self._start(work.asked, work), work)
        if not isinstance(work, StreamWork):  # a stream is read in other contexts than it is started in
            call.attach()
        if self._tracing.content:
            call.tell_input(work)

    def ended(self, work: Work, error: BaseException | None) -> None:
        """The span is over."""
        call = self._calls.pop(work.asked.key, None)
        if call is not None:
            call.end(error)

    def replayed(self, asked: RequestedCall, outcome: Outcome) -> None:
        """Count it; or make a span of zero length."""
        self._replayed += 1
        if self._tracing.replayed == "spans":
            span = self._start(asked, None)
            span.set_attribute("holdfast.replayed", True)
            span.set_attribute("holdfast.step.point", outcome.point)
            span.end()

    def recorded(self, events: Sequence[Event]) -> None:
        """Usage from outcomes; other notable events become span events of their call, or of the attempt."""
        for event in events:
            call = self._calls.get(event.key)
            if event.kind == Kind.STEP_FINISHED and call is not None:
                call.tell_outcome(event, content=self._tracing.content)
            name = _NOTED.get(event.kind)
            if name is not None:
                about = {"holdfast.step.name": event.name} if event.name else {}
                (self._span if call is None else call.span).add_event(name, {**about, **_details(event)})

    def left(self, status: str, error: BaseException | None) -> None:
        """End the attempt's span: parked is no error, in doubt is one."""
        for call in list(self._calls.values()):  # still running in another thread
            call.end(None)
        self._span.set_attribute("holdfast.status", status)
        self._span.set_attribute("holdfast.replayed_steps", self._replayed)
        _tell_error(self._span, error)
        self._span.end()
        if (
            context.get_current() is self._current
        ):  # left in another context than entered: there is nothing to detach
            context.detach(self._token)

    def _start(self, asked: RequestedCall, work: Work | None) -> Any:
        """A span inside the current one, or inside the attempt's if a framework's thread has none."""
        is_known = trace.get_current_span().get_span_context().is_valid
        name, kind, attributes = _described(asked, work)
        return self._tracing.tracer.start_span(
            mask(name),
            context=None if is_known else self._current,
            kind=kind,
            attributes=masked_data({**self._common, **attributes, "holdfast.step.name": asked.name}),
        )


class Call:
    """The span of one live call."""

    def __init__(self, span: Any, work: Work) -> None:
        self.span = span
        self._is_model = isinstance(work, ModelWork)
        self._current: Any = None
        self._token: Any = None

    def attach(self) -> None:
        """Make it the current span for what happens inside the call."""
        self._current = trace.set_span_in_context(self.span)
        self._token = context.attach(self._current)

    def end(self, error: BaseException | None) -> None:
        _tell_error(self.span, error)
        self.span.end()
        if self._token is not None and context.get_current() is self._current:
            context.detach(self._token)

    def tell_outcome(self, event: Event, *, content: bool) -> None:
        """The usage and the model; the answer only if content is on."""
        if not self._is_model and not content:
            return
        body = contents_of(event.body)
        usage = body.get("usage") or {}
        told = {
            "gen_ai.response.model": usage.get("model"),
            "gen_ai.usage.input_tokens": usage.get("input_tokens"),
            "gen_ai.usage.output_tokens": usage.get("output_tokens"),
        }
        if content and "value" in body:
            name = "gen_ai.output.messages" if self._is_model else "gen_ai.tool.call.result"
            told[name] = mask(dumps(shown(body["value"])).decode())
        self.span.set_attributes(
            masked_data({name: value for name, value in told.items() if value is not None})
        )

    def tell_input(self, work: Work) -> None:
        """The request."""
        if isinstance(work, ModelWork):
            request = work.taken.tree
            messages = request.get("messages", request) if isinstance(request, dict) else request
            self.span.set_attribute(
                "gen_ai.input.messages", mask(dumps(shown(messages), default=str).decode())
            )
        else:
            arguments = dumps(shown(loads(work.asked.arguments))).decode()
            self.span.set_attribute("gen_ai.tool.call.arguments", mask(arguments))


def _described(asked: RequestedCall, work: Work | None) -> tuple[str, Any, dict[str, Any]]:
    """The span of a call by the conventions: its name, its kind and its attributes."""
    if asked.request is not None:
        operation = "embeddings" if asked.name == "embeddings" else "chat"
        ask = work.ask if isinstance(work, ModelWork) else None
        model = ask.model_asked if ask is not None else model_in(asked.request)
        told = {"gen_ai.request.model": model, "gen_ai.provider.name": "" if ask is None else ask.provider}
        known = {name: value for name, value in told.items() if value}
        return (
            f"{operation} {model}".strip(),
            SpanKind.CLIENT,
            {"gen_ai.operation.name": operation, **known},
        )
    if work is None:
        effect, is_tool = _intended(asked)
    else:
        effect, is_tool = work.call_options.effect, work.call_options.is_tool
    told = {"holdfast.step.effect": effect}
    if is_tool:
        told |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": asked.name}
        return f"execute_tool {asked.name}", SpanKind.INTERNAL, told
    return asked.name, SpanKind.INTERNAL, told


def _intended(asked: RequestedCall) -> tuple[str, bool]:
    """The effect of a recorded call, and whether it is a tool's."""
    held = asked.here.held
    intent = contents_of(held.intent_of(held.view.calls[asked.key]))
    return intent["effect"], bool(intent.get("tool"))


def _details(event: Event) -> dict[str, Any]:
    """The short fields of an event, without questions to people."""
    body = contents_of(event.body)
    wanted = ("attempt", "last", "reason", "how", "via", "id", "kind", "why", "failures", "by")
    return {
        f"holdfast.{name}": body[name] for name in wanted if isinstance(body.get(name), (str, int, float))
    }


def _tell_error(span: Any, error: BaseException | None) -> None:
    if error is None:
        return
    if isinstance(error, (Parked, PremiseMissing)):
        span.set_attribute("holdfast.parked", True)
        return
    span.set_attribute("error.type", type(error).__qualname__)
    if isinstance(error, StepInDoubt):
        span.set_attribute("holdfast.in_doubt", True)
    span.set_status(Status(StatusCode.ERROR, mask(str(error)).partition("\n")[0]))


def _traceparent(of: SpanContext) -> str:
    return f"00-{of.trace_id:032x}-{of.span_id:016x}-{of.trace_flags:02x}"


def _span_context(traceparent: Any) -> SpanContext | None:
    """The span of the attempt before; None if it was not traced, or has an unknown format."""
    parts = traceparent.split("-") if isinstance(traceparent, str) else []
    if len(parts) != 4 or parts[0] != "00":
        return None
    found = SpanContext(
        int(parts[1], 16), int(parts[2], 16), is_remote=True, trace_flags=TraceFlags(int(parts[3], 16))
    )
    return found if found.is_valid else None
