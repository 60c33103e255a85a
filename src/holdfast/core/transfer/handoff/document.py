"""Builds the handoff document from a run's journal and the blobs that it refers to.

What is too long or was pruned goes to ``left_out`` with a reason and an advice: nothing is dropped silently.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from orjson import loads

from holdfast.core.context.child_lines import Children
from holdfast.core.context.context import context_of
from holdfast.core.context.sentences import SECTIONS
from holdfast.core.context.story import Story, is_done
from holdfast.core.journal.recorded_calls import is_once
from holdfast.core.lineage.handoff_fold import HANDOFF
from holdfast.core.lineage.later_effects import reason_of, treatment_of
from holdfast.core.lineage.later_effects_fold import LATER_EFFECTS
from holdfast.core.llm.reasoning import Read, value_in
from holdfast.core.people import promises
from holdfast.core.people.promises import PROMISES
from holdfast.core.text.times import moment
from holdfast.core.transfer.handoff.carried_effects import (
    CARRIED,
    Effect,
    arguments_digest,
    effects_in,
    given_and_captured,
)
from holdfast.core.transfer.handoff.effect_numbers import RECORDED, TAKEN, forget_marks, number
from holdfast.core.transfer.handoff.remembered_facts import losses_of_facts
from holdfast.core.transfer.handoff.schema import FORMAT
from holdfast.core.transfer.handoff.validate import digest_of
from holdfast.core.transfer.handoff.work_state import budget_of, plan_of, premises_of, questions_of
from holdfast.errors import TooLarge
from holdfast.limits import HANDOFF_DOUBTS_MAX, HANDOFF_ITEMS_MAX, HANDOFF_VALUE_BYTES_MAX
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of, fields_of, is_hollow
from holdfast.model.events import Event
from holdfast.model.handoff import TELL, Loss, LossKind
from holdfast.model.named_tuple import NamedTuple

_SUMMARY_TOKENS: Final = 4_000
_UNKNOWN: Final = "EffectUnknown"


class HandoffContents(NamedTuple):
    """What the journal alone does not have: state and messages, or their sizes, and which owners are dead."""

    state: Any = None
    state_bytes: int = 0
    messages: list[Any] | None = None
    messages_bytes: int = 0
    whole: Callable[[str], bytes] = lambda _: b"{}"
    is_gone: Callable[[str], bool] = lambda _: False
    unread: int = 0
    """How many letters are in the giver's inbox."""
    behind: Sequence[tuple[Mapping[str, Any], bytes | None]] = ()
    """Later effects (see ``later_effects``) that the giver has not asked for, each with its intent."""
    children: Sequence[tuple[str, Mapping[str, Any], bytes | None]] = ()
    """Effects of the giver's children, each with the child's name and its intent."""
    born: frozenset[str] = frozenset()
    """The names of children that have journals. Those have what was handed over for them."""
    relatives: Children = Children()
    """The giver's children, for the summary."""


def document_of(
    run: str,
    store: str,
    to: str,
    events: Sequence[Event],
    read: Read,
    *,
    at: float,
    is_held: bool,
    sealed: bool = False,
    contents: HandoffContents | None = None,
) -> dict[str, Any]:
    """The document for the agent that takes over. ``is_held``: the giver is running and hands over itself."""
    contents = contents or HandoffContents()
    context = context_of(
        events, read, budget_tokens=_SUMMARY_TOKENS, is_held=is_held, children=contents.relatives
    )
    writing = _Writing(Story(events), read, contents, store=store, is_held=is_held)
    story, view = writing.story, writing.story.view
    started = {} if view.started is None else contents_of(view.started.body)
    document: dict[str, Any] = {
        "holdfast_handoff": FORMAT,
        "run": run,
        "store": store,
        "to": to,
        "at": moment(at),
        "event": view.head,
        "attempt": view.attempts[-1].number if view.attempts else 0,
        "agent": started.get("agent") or "",
        "status": str(view.status),
        "sealed": sealed,
        "goal": started.get("goal") or "",
        "inputs": started.get("inputs"),
        "summary": [
            {"about": SECTIONS[line.section][0], "text": line.text, "events": [*line.refs]}
            for line in context.lines
        ],
        "plan": [*plan_of(story)],
        **writing.steps(run),
        **writing.notes(),
        "artifacts": [*premises_of(story, {"artifact"})],
        "dependencies": [*premises_of(story, {"file", "endpoint"})],
        "promises": writing.listed(
            "promises",
            [
                {**promises.fields_of(p), "events": [*dict.fromkeys(map(story.cite, p.seqs))]}
                for p in PROMISES.of(view).values()
            ],
        ),
        "questions": [*questions_of(story)],
        **writing.luggage(),
        "budget": budget_of(story),
        "left_out": [loss._asdict() for loss in writing.left_out],
    }
    document["how_to_continue"] = [*_how_to_continue(document)]
    return {**document, "digest": digest_of(document)}


class _Writing:
    """A document while it is written, and what it leaves out."""

    def __init__(
        self, story: Story, read: Read, contents: HandoffContents, *, store: str, is_held: bool
    ) -> None:
        self.story = story
        self._store = store
        self.left_out: list[Loss] = []
        self._read = read
        self._contents = contents
        self._is_held = is_held
        self._owners = {
            attempt.event.fence: str(fields_of(attempt.event.body).get("owner", ""))
            for attempt in story.view.attempts
        }

    # -- steps -----------------------------------------------------------------------------------------------

    def steps(self, run: str) -> dict[str, Any]:
        """The effects that are done or in doubt, each with a number, and the other calls without an end."""
        story = self.story
        doubted, begun = story.open_calls(is_held=self._is_held)
        # The giver may be executing one of these right now. For the receiver it is in doubt.
        doubted += [call for call in begun if is_once(call)]
        # The program got EffectUnknown for these and continued: they are still in doubt.
        unknown = [one.call for one in story.failures() if str(one.error.get("type", "")).endswith(_UNKNOWN)]
        done = [call for call in story.steps() if is_done(call)]
        effects = [
            *self._inherited("answered"),
            *self._behind("answered"),
            *self._of_children("answered"),
            *self._done(done),
        ]
        in_doubt = [
            *(self._doubt(call) for call in (*doubted, *unknown)),
            *self._behind("asked"),
            *self._of_children("asked"),
            *self._inherited("asked"),
        ]
        if len(in_doubt) > HANDOFF_DOUBTS_MAX:
            raise TooLarge(
                what=f"the handoff of {run}",
                size=len(in_doubt),
                size_max=HANDOFF_DOUBTS_MAX,
                unit="effects in doubt (settle some with `holdfast resolve`)",
            )
        others = [self._step(call) for call in begun if not is_once(call) and call.name != TELL]
        begun_again = [
            *self._inherited("again"),
            *self._behind("again"),
            *self._of_children("again"),
        ]
        pending = [*begun_again, *self.listed("pending", others)]
        carried = [*effects, *in_doubt, *(step for step in pending if step["effect"] in CARRIED)]
        number(carried)
        return {
            "last_step": self._last(done),
            "pending": pending,
            "in_doubt": in_doubt,
            "effects": effects,
        }

    def _last(self, done: Sequence[Call]) -> dict[str, Any] | None:
        left_out = [*self.left_out]
        last = self._step(max(done, key=lambda call: call.outcomes[-1].seq)) if done else None
        self.left_out = left_out  # the same step is in another list too, which reports what it leaves out
        if last is not None:
            forget_marks(last)
        return last

    def _inherited(self, treatment: str) -> Iterator[dict[str, Any]]:
        """Effects that the giver took over and has not claimed; its own doubts became calls of its own."""
        fold = HANDOFF.of(self.story.view)
        if fold.handed is None:
            return
        seq, document = self.story.cite(fold.handed.seq), self._document_in(fold.handed)
        known = {entry["idempotency_key"] for entry, _ in self._contents.behind} | self._own_keys()
        own = [
            e
            for e in effects_in(document)
            if not e.is_in_doubt and e.number not in fold.claimed and (e.idempotency_key or None) not in known
        ]
        unborn = [e for e in effects_in(document, children=True) if not self._is_born(e.item["child"])]
        for effect in (*own, *unborn):
            if treatment == ("asked" if effect.is_in_doubt else "answered" if effect.is_done else "again"):
                taken = {"from": _source(effect), "events": [seq], TAKEN: effect.number}
                yield {**_without_number(effect), **taken}

    def _own_keys(self) -> set[str]:
        """The idempotency keys of the giver's own calls: an effect that one of them has is listed with it."""
        bodies = [call.body for call in self.story.view.calls.values() if call.seq and call.body]
        return {str(fields_of(body).get("idempotency_key", "")) for body in bodies}

    def _is_born(self, child: str) -> bool:
        return any(child == born or child.startswith(f"{born}/") for born in self._contents.born)

    def _behind(self, call_options: str) -> Iterator[dict[str, Any]]:
        """The later effects, after the point at which this history begins, that have this treatment."""
        fold = LATER_EFFECTS.of(self.story.view)
        for entry, intent in self._contents.behind:
            if _treatment(entry, fold.repeats) == call_options:
                cited = [self.story.cite(fold.events[-1].seq)]
                reason = reason_of(entry, fold.repeats)
                yield from self._carried(entry, intent, call_options, reason, cited)

    def _of_children(self, call_options: str) -> Iterator[dict[str, Any]]:
        """The effects of the giver's children, done or in doubt, for the children of the receiver."""
        for child, entry, intent in self._contents.children:
            if _treatment(entry, "answer") == call_options:
                reason = f"is in doubt already in run {entry['run']} (its #{entry['event']})"
                for step in self._carried(entry, intent, call_options, reason, []):
                    yield {**step, "child": child}

    def _carried(
        self,
        entry: Mapping[str, Any],
        intent: bytes | None,
        call_options: str,
        reason: str,
        cited: list[int],
    ) -> Iterator[dict[str, Any]]:
        """An effect of another journal, with what is known of it."""
        name = entry["step"]
        step: dict[str, Any] = {"step": name, "effect": entry["effect"], RECORDED: entry["key"]}
        if intent is None or is_hollow(intent):
            self._leave_arguments(name, f"happened in run {entry['run']} (its #{entry['event']})")
            recorded: dict[str, Any] = {}
            step |= {"arguments": None, "call": entry["key"]}
        else:
            recorded = contents_of(intent)
            step |= self._asked(recorded)
        step |= {"key": entry["key"]} if entry["key"].endswith(".k") else {}
        step |= {"idempotency_key": entry["idempotency_key"]} if entry["idempotency_key"] else {}
        step |= {"tool": True} if recorded.get("tool") else {}
        if call_options == "answered":
            step |= self._outcome(name, entry["outcome"]) if entry["outcome"] else {"result_gone": True}
        else:
            step |= {"since": moment(entry["started_at"]), "since_at": entry["started_at"]}
        if call_options == "asked":
            is_over = entry["over"] or self._contents.is_gone(entry["owner"])
            step |= {"doubt": reason, "is_over": is_over}
            step |= {"policy": recorded.get("in_doubt", "stop"), "verify": bool(recorded.get("verify"))}
        source = {"run": entry["run"], "store": self._store, "event": entry["event"]}
        yield {**step, "from": source, "events": cited}

    def _outcome(self, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The result of an effect, if it fits into the document."""
        if "lost" in fields:
            return {"lost": fields["lost"]}
        size = fields.get("value_bytes", 0)
        if "value_blob" not in fields:
            return {"result": fields.get("value")}
        if size <= HANDOFF_VALUE_BYTES_MAX:
            return {"result": loads(self._contents.whole(fields["value_blob"]))}
        why = f"what it returned is {size:,} bytes long: too long for the handoff"
        self._leave("value", name, why, "give --from the giver's store")
        return {"result_bytes": size}

    def _document_in(self, handed: Event) -> dict[str, Any]:
        fields = contents_of(handed.body)
        found = fields.get("value") or loads(self._contents.whole(fields["value_blob"]))
        assert isinstance(found, dict), "a handoff is an object"
        return found

    def _done(self, done: Sequence[Call]) -> Iterator[dict[str, Any]]:
        forgotten: dict[str, list[int]] = {}
        for call in done:
            if _effect_of(call) not in CARRIED or call.name == TELL:
                continue
            if is_hollow(call.body or b""):
                forgotten.setdefault(call.name, []).append(call.outcomes[-1].seq)
            yield self._step(call)
        for name, seqs in forgotten.items():
            self._leave_arguments(name, f"happened {len(seqs)} times up to #{max(seqs)}")

    def _step(self, call: Call) -> dict[str, Any]:
        """A call as an item of the document: its arguments, keys, and result."""
        intent = {} if call.body is None else contents_of(call.body)
        step: dict[str, Any] = {"step": call.name, "effect": intent.get("effect", ""), **self._asked(intent)}
        carried = intent.get("carried", {})
        key = carried["key"] if carried else call.key if call.key.endswith(".k") else ""
        if key:
            step["key"] = key
        is_gone = is_hollow(call.body or b"")
        if by_call := carried.get("call") or (is_gone and call.key):
            step |= {"arguments": None, "call": by_call}
            step.pop("arguments_sha256", None)
        if intent.get("idempotency_key"):
            step["idempotency_key"] = intent["idempotency_key"]
        if intent.get("tool"):
            step["tool"] = True
        if carried:
            step[TAKEN] = carried.get("n", 0)
        elif intent.get("effect") in CARRIED:
            step[RECORDED] = call.key
        if is_done(call):
            result = {"result_gone": True} if is_gone else self._result(call)
            return {**step, **result, "events": [self.story.cite(call.outcomes[-1].seq)]}
        step |= {"since": moment(call.started_at), "since_at": call.started_at}
        return {**step, "events": [self.story.cite(call.seq)]}

    def _asked(self, intent: Mapping[str, Any]) -> dict[str, Any]:
        arguments = intent.get("args")
        if "args_blob" in intent:
            arguments = loads(self._contents.whole(intent["args_blob"]))
        if intent.get("effect") not in CARRIED or not isinstance(arguments, dict):
            return {"arguments": None if "args_blob" in intent else arguments}
        data = {name: intent[name] for name in ("reads", "module_data") if intent.get(name)}
        digest = {"arguments_sha256": arguments_digest(arguments), **data}
        if intent.get("args_bytes", 0) > HANDOFF_VALUE_BYTES_MAX:
            return {"arguments": None, **digest}
        given, captured = given_and_captured(arguments)
        return {"arguments": given, **digest, **({"captured": captured} if captured else {})}

    def _result(self, call: Call) -> dict[str, Any]:
        body = call.outcomes[-1].body or b"{}"
        fields = contents_of(body)
        if "lost" in fields:
            return {"lost": fields["lost"]}
        value = None if is_hollow(body) else value_in(body, self._read)
        if value is None and ("value_blob" in fields or is_hollow(body)):
            size = fields.get("value_bytes", 0)
            if _effect_of(call) in CARRIED:
                why = (
                    f"{size:,} bytes long: too long for the handoff"
                    if size
                    else "pruned in the giver's journal"
                )
                self._leave("value", call.name, f"what it returned is {why}", "give --from the giver's store")
            return {"result_bytes": size}
        return {"result": value}

    def _doubt(self, call: Call) -> dict[str, Any]:
        intent = {} if call.body is None else contents_of(call.body)
        is_over = call.doubt is not None or not call.is_open
        if "carried" in intent:
            is_over = bool(intent["carried"]["is_over"])
        step = self._step(call) | {"doubt": call.doubt or "never reported back"}
        step["is_over"] = is_over or self._contents.is_gone(self._owners.get(call.fence, ""))
        step["policy"] = intent.get("in_doubt", "stop")
        step["verify"] = bool(intent.get("verify"))
        return step

    # -- the rest --------------------------------------------------------------------------------------------

    def notes(self) -> dict[str, Any]:
        """The agent's notes, and what failed."""
        failed = [
            {"step": one.call.name, "error": one.error, "events": [*one.seqs]}
            for one in self.story.failures()
        ]
        return {
            "decisions": self.listed("decisions", self._marks("decision")),
            "discoveries": self.listed("discoveries", self._marks("discovery")),
            "told": self.listed("told", self._marks("said")),
            "failed": self.listed("failed", failed),
        }

    def luggage(self) -> dict[str, Any]:
        """The state and the messages, if they fit."""
        bag = self._contents
        for name, size, advice in (
            ("state", bag.state_bytes, "run.state of the giver has it"),
            ("messages", bag.messages_bytes, "the giver's journal has it"),
        ):
            if size > HANDOFF_VALUE_BYTES_MAX:
                what: LossKind = "state" if name == "state" else "messages"
                self._leave(what, name, f"{size:,} bytes long: too long for the handoff", advice)
        self.left_out += losses_of_facts(self.story.view, self._read, self._store, self._document_in)
        if bag.unread:
            self._leave(
                "messages",
                "inbox",
                f"{bag.unread} letters lie unread in the giver's inbox",
                "have them sent again",
            )
        return {"state": bag.state, "messages": bag.messages or []}

    def listed(self, name: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The latest items of a sort. ``left_out`` says if there are more."""
        if len(items) > HANDOFF_ITEMS_MAX:
            why = f"the latest {HANDOFF_ITEMS_MAX} of {len(items):,} are in the handoff"
            self._leave("list", name, why, "the giver's journal has the others")
        return items[-HANDOFF_ITEMS_MAX:]

    def _marks(self, name: str) -> list[dict[str, Any]]:
        found = []
        for mark in self.story.marks:
            value = value_in(mark.body, self._read) if mark.name == name else None
            if isinstance(value, dict) and isinstance(value.get("text"), str):
                found.append({**value, "events": [mark.seq]})
        return found

    def _leave_arguments(self, name: str, how: str) -> None:
        why = f"{how}, and its arguments are gone: only the same call at the same place is recognised"
        self._leave("effect", name, why, f"before {name} is called elsewhere, look whether that was done")

    def _leave(self, what: LossKind, name: str, why: str, advice: str) -> None:
        self.left_out.append(Loss(what, name, why, advice))


def _treatment(entry: Mapping[str, Any], repeats: str) -> str:
    """As in a fork. But what is done without a result is no doubt: the run can finish that never calls it."""
    is_result_gone = entry["how"] == "done" and not entry["outcome"]
    return "answered" if is_result_gone else treatment_of(entry, repeats)


def _effect_of(call: Call) -> str:
    return "" if call.body is None else str(fields_of(call.body).get("effect", ""))


def _without_number(effect: Effect) -> dict[str, Any]:
    return {name: value for name, value in effect.item.items() if name not in {"number", "events"}}


def _source(effect: Effect) -> dict[str, Any]:
    return {"run": effect.run, "store": effect.store, "event": effect.event}


def _how_to_continue(document: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "`holdfast accept FILE --as NAME` begins a run with this, in the store that continues the work, "
        "and lists what is lost"
    )
    if document["in_doubt"]:
        names = ", ".join(dict.fromkeys(step["step"] for step in document["in_doubt"]))
        yield (
            f"find out whether {names} happened: the tool's verify is asked first; "
            "else `holdfast resolve NAME STEP --done … | --retry`"
        )
    if document["effects"]:
        yield (
            "call the same tools by the same names: "
            "an effect listed here is answered from here and not made again"
        )
    todo = [item["item"] for item in document["plan"] if not item["begun"]]
    if todo:
        yield f"next in the plan: {todo[0]}"
    elif document["last_step"]:
        yield f"the last step that ended was {document['last_step']['step']}"
    if any(p["state"] == "open" and p["side"] == "made" for p in document["promises"]):
        yield "keep the open promises, or break them: run.keep(id), run.break_promise(id, because=…)"
