"""Makes and records a model call: a step whose request is stored as a tree of nodes.

A growing conversation costs only what was added, because requests share their unchanged nodes. The request is
recorded before it is sent, and the answer before the program gets it. A call that was cut off is made again;
an answered one never is. If the journal has another request at this call site, nothing is sent: the answer
would belong to another conversation than the one that the run recorded.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from orjson import dumps

from holdfast.core.llm.request_shapes import known_of, model_in, parts, summary, usage_in
from holdfast.core.people.wait_fold import WAITS
from holdfast.core.steps.identity import site_of
from holdfast.engine.budget.budget import check_before_model_call, note, note_failure
from holdfast.engine.journal.drafts import Draft
from holdfast.engine.llm.provider_wait import Line, Watch
from holdfast.engine.premises.premises import meet_model
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.run.store_session import masked_text
from holdfast.engine.state.held_states import STATES
from holdfast.engine.state.state_store import REQUEST, Taken, blobs_of, read_state
from holdfast.engine.steps.call_identity import RequestedCall, find_answer, intent_of, place
from holdfast.engine.steps.step import Work
from holdfast.engine.sync_async import Runtime
from holdfast.model.calls import MODEL, Call, Outcome
from holdfast.model.markers import KNOWN
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.usage import Usage

IDENTITY_CHARS: Final = 16


class Ask(NamedTuple):
    """A question for a model: the step's name, the request as plain data, the model and its provider."""

    name: str
    request: Any
    model: str = ""
    provider: str = ""
    is_json: bool = False
    """Whether Holdfast parsed the request from JSON: then no other thread can change it, and it is plain."""

    @property
    def model_asked(self) -> str:
        """The model that is to answer; empty where neither the caller nor the request names one."""
        return self.model or model_in(self.request)


class Answer(NamedTuple):
    """The answer, and whether it came from the journal."""

    value: Any
    is_replayed: bool


async def answer_of(held: HeldRun, runtime: Runtime, ask: Ask, call: Callable[[Any], Any]) -> Any:
    """The recorded answer to this request, or ``call(request)``, recorded before it is returned."""
    return (await ask_model(held, runtime, ask, call, ask.request)).value


async def ask_model(
    held: HeldRun, runtime: Runtime, ask: Ask, call: Callable[..., Any], *args: Any, line: Line | None = None
) -> Answer:
    """The recorded answer to this request, or that of ``call(*args)``, recorded before it is returned."""
    held.check_usable()
    states = STATES.of(held)
    if runtime.waits or states.store.lineage is None:
        await states.learn_first(runtime)
    taken, asked = identify_request(held, ask)
    try:
        recorded = held.view.calls.get(asked.key)
        found = await find_answer(held, runtime, asked, recorded, call)
        if found is not None:
            return Answer(found.value, is_replayed=True)
        work = ModelWork(held, runtime, ask, taken, asked, call, args, line)
        await work.enter(recorded)
        return Answer(await work.perform(), is_replayed=False)
    finally:
        held.land(asked.site)


def identify_request(held: HeldRun, ask: Ask) -> tuple[Taken, RequestedCall]:
    """The request as a tree of nodes, and the identity of the call."""
    here, point = place(held, ask.name)
    taken = STATES.of(held).store.take(
        ask.request, what=f"request of {ask.name!r}", series=REQUEST, is_json=ask.is_json
    )
    identity = taken.planted.identity
    site = site_of(here.scope, f"model:{ask.name}", identity)
    if KNOWN:
        site = _recorded_site(held, here.scope, ask.name, taken, site)
    n = held.claim(site)
    # The intent gets a summary as its arguments; the request itself is stored as a state.
    # Masked before it is cut: half a secret would not be found.
    brief = summary(ask.request, sha256(identity).hexdigest()[:IDENTITY_CHARS], masked_text)

    def compare(body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        return parts(read_state(held.store, body["request"])), parts(taken.tree)

    return taken, RequestedCall(
        ask.name, f"{site}.{n}", site, n, dumps(brief), here, point, taken.tree, compare
    )


def _recorded_site(held: HeldRun, scope: str, name: str, taken: Taken, site: str) -> str:
    """The site that a request had before the secrets in it were known, if its record is there."""
    from holdfast.engine.steps.secret_arguments import is_recorded

    before = None if is_recorded(held, site) else STATES.of(held).store.identity_in_clear(taken)
    clear = site if before is None else site_of(scope, f"model:{name}", before)
    return clear if is_recorded(held, clear) else site


class Waited(Exception):
    """The call has waited for its provider, and is to be tried again."""


class ModelWork(Work):
    """One live model call."""

    __slots__ = ("_is_under_way", "ask", "line", "model", "taken", "watch")

    def __init__(
        self,
        held: HeldRun,
        runtime: Runtime,
        ask: Ask,
        taken: Taken,
        asked: RequestedCall,
        call: Callable[..., Any],
        args: tuple[Any, ...] = (),
        line: Line | None = None,
    ) -> None:
        super().__init__(held, runtime, MODEL, asked, call, args, {})
        self.ask = ask
        self.model = ask.model_asked
        self.taken = taken
        self.line = line or Line()
        self.watch = Watch(self)
        self._is_under_way = False
        """Whether the budget counts the call as being made now."""

    async def enter(self, call: Call | None) -> Outcome | None:
        """Check that the call may be made, and that its model is the one that earlier attempts used."""
        ask = self.ask
        try:
            await meet_model(self.held, self.runtime, ask.name, self.model, ask.provider)
        except BaseException:
            self.held.unclaim(self.asked.site, self.asked.n)
            raise
        return await super().enter(call)

    async def begin(self) -> None:
        """Record the request, if the budget allows it. Nodes that are stored already are only referenced."""
        states = STATES.of(self.held)
        await check_before_model_call(self.held, self.runtime)
        self._is_under_way = True
        with states.store.building:
            planted = states.store.build_on(states.known_roots(), self.taken)
            fields = {
                "model": self.model,
                "provider": self.ask.provider,
                "request_bytes": planted.size,
                **self._said(),
            }
            intent = intent_of(self, fields, {"request": planted.root})
            intent = Draft(intent.kind, intent.name, intent.key, intent.body, blobs_of(planted))
            self.intent = intent.body
            # Flushed, not synced: after a power cut that loses it, the call is simply made again.
            self.intent_seq = await self.append(intent, synced=False)
            states.store.settle(planted)
        states.latest_request = self.intent_seq, planted.root
        if self.asked.key in WAITS.of(self.held.view).open:
            await self.watch.resume()

    async def _failed(self, error: Exception, began: float) -> Any:
        """Wait for an outage to end; record any other failure."""
        if await self.watch.outlast(error):
            raise Waited
        await self.watch.over()
        return await super()._failed(error, began)

    async def _try(self) -> Any:
        while True:
            try:
                return await super()._try()
            except Waited:
                continue

    def _said(self) -> dict[str, Any]:
        """Further fields of the intent."""
        return {}

    async def succeed(self, value: Any, fields: dict[str, Any], parts: dict[str, Any] | None = None) -> None:
        """Record the answer and its usage.

        The usage is the first field, so that a fold need not parse the rest.
        """
        if self.watch.is_waiting:
            await self.watch.over()
        usage = note(self.held, self.usage_of(value))
        self._is_under_way = False
        parts = {**(parts or {}), **self.line.notes}
        if self.watch.fell_back:
            parts["fell_back"] = self.watch.fell_back
        await super().succeed(value, {"usage": known_of(usage), **fields}, parts)

    def leave(self) -> None:
        """End the call for the program; without an answer, the budget stops counting it as being made."""
        if self._is_under_way:
            self._is_under_way = False
            note_failure(self.held)
        super().leave()

    def usage_of(self, value: Any) -> Usage:
        """The usage that the answer reports."""
        return usage_in(value, model=self.model, provider=self.line.provider or self.ask.provider)
