"""Go back and branch: fork a run, with something edited if a person likes, or rewind it."""

from json import dumps
from typing import Any, Final

from holdfast.api.store.store import Store
from holdfast.core.lineage.later_effects import REPEATS
from holdfast.core.lineage.points import parse_place
from holdfast.core.llm.message_shapes import message_line, role_of
from holdfast.errors import Misuse
from holdfast.model.fork_edits import Editable
from holdfast.model.recorded_value import Recorded
from holdfast.ui.acts.form import Actor, Done, Field, Form, Given, json_of, place_of, run_of, words
from holdfast.views.rewind_cost import cost_behind, then_words
from holdfast.views.run_record import call_words
from holdfast.views.value_text import one_line

_TEXT_CHARS_MAX: Final = 200_000
"""A longer value is not put into a form: the command line takes it from a file."""
_MESSAGES_MAX: Final = 50
EDITS: Final = ("state", "inputs", "message", "text", "message_json")
"""The fields with what is edited: ``message`` says which one, and one of the last two what it is to be."""


def behind(store: Store, place: str, effects: str, verb: str) -> tuple[str, ...]:
    """What lies behind a place, in sentences."""
    named = parse_place(place)
    events = store.events(named.run)
    event = events[-1] if named.is_head and events else store.find_event(named, events)
    if event is None:
        raise store.absence(named, events, events[-1].seq if events else 0)
    cost = cost_behind(named.run, event.seq, store.later_children(place), store.events)
    told = [f"{one.place}: {one.words(verb)}" for one in (cost, *cost.children) if one.steps]
    told = told or [f"Nothing was recorded behind {place}."]
    told += [f"{run}: {call_words(line)}: {then_words(line, effects)}" for run, line in cost.all_effects()]
    return tuple(told)


def _effects_field(given: Given) -> Field:
    label = "An effect from after the point that the program makes again: answer it from the record, ask, or make it"
    return Field("effects", label, "choice", _effects(given), words(*REPEATS), refills=True)


def _effects(given: Given) -> Any:
    chosen = given.get("effects") or REPEATS[0]
    if chosen not in REPEATS:
        raise Misuse(problem=f"effects={chosen[:40]!r} is no choice", advice=f"use {', '.join(REPEATS)}")
    return chosen


# -- fork ----------------------------------------------------------------------------------------------------


def fork_form(store: Store, given: Given) -> Form:
    """Where from, under which name, and what is to be different."""
    place = place_of(given)
    taken = {info.run for info in store.runs(prefix=run_of(given))}
    name = next(name for n in range(1, 10_000) if (name := f"{run_of(given)}-try-{n}") not in taken)
    return Form(
        "fork",
        f"Fork {place}",
        (
            Field("run", "", "hidden", run_of(given)),
            Field("at", "Point, label or #event", "text", given.get("at", ""), refills=True),
            Field("name", "Name of the new run", "text", given.get("name") or name),
            _effects_field(given),
            *_edit_fields(store.editable(place), given),
            _override_field(store, given),
        ),
        (
            *behind(store, place, _effects(given), "does without"),
            f"{run_of(given)} stays as it is. Nothing is copied.",
        ),
        "Fork",
    )


def _override_field(store: Store, given: Given) -> Field:
    """Other outcomes of steps; that of one step is there to be edited if its event was named."""
    text, seq = "", given.get("outcome", "")
    if seq.isdecimal():
        run = store.run_with(run_of(given), int(seq))
        found = store.events(run, after_seq=int(seq) - 1, upto_seq=int(seq), whole=True)
        value = store.content(found[0]).get("value") if found else None
        text = dumps({found[0].key: value}, indent=2, ensure_ascii=False) if found else ""
    return Field(
        "override",
        'Other outcomes, as {"step": value}',
        "json",
        text if len(text) <= _TEXT_CHARS_MAX else "",
        group="Give steps other outcomes",
        note="A step is answered with it when the program asks for it. It is named by its name or its key.",
        is_open=bool(seq),
    )


def _edit_fields(form: Editable, given: Given) -> list[Field]:
    """The fields to edit what the fork begins with; where something cannot be edited, why not."""
    wished = given.get("edit", "")
    state = _json_field(
        "state",
        "Edit the state",
        form.state,
        form.state_refusal or "run.restore() returns it, and the program continues from there.",
        is_there=not form.state_refusal,
        is_open=wished == "state",
    )
    inputs = _json_field(
        "inputs",
        "Edit the inputs",
        form.inputs,
        "An agent gets them as its arguments; a script that names its inputs must name these. Recorded steps "
        "are answered where they are asked for with the same arguments.",
        is_open=wished == "inputs",
    )
    return [
        Field("edits_at", "", "hidden", given.get("at", "")),
        state,
        *_message_fields(form, given),
        inputs,
    ]


def _json_field(
    name: str, group: str, value: Any, note: str, *, is_there: bool = True, is_open: bool = False
) -> Field:
    text = dumps(value, indent=2, ensure_ascii=False) if is_there else ""
    if len(text) > _TEXT_CHARS_MAX:
        note = f"It has {len(text):,} characters: `holdfast fork … --{name} @FILE` takes it from a file."
        is_there = False
    if not is_there:
        return Field(name, "", "note", group=group, note=note, is_open=is_open)
    return Field(name, f"The {name}, as recorded", "json", text, (), group, note, is_open)


def _message_fields(form: Editable, given: Given) -> list[Field]:
    group, count = "Edit a message", len(form.messages)
    if form.messages_refusal:
        is_open = "message" in given
        return [Field("message", "", "note", group=group, note=form.messages_refusal, is_open=is_open)]
    index = _index(given.get("message") or str(count - 1), count)
    shown = range(max(0, min(index, count - _MESSAGES_MAX)), count)
    choices = tuple((str(n), f"{n}: {one_line(_told(form.messages[n]), 60)}") for n in shown)
    message = form.messages[index]
    is_text = isinstance(message, dict) and isinstance(message.get("content"), str)
    note = "The conversation of the fork has it: models are asked with it from there."
    which = Field("message", "Message", "choice", str(index), choices, group, "", "message" in given, True)
    if is_text:
        label = f"What the {role_of(message) or 'message'} says"
        return [which, Field("text", label, "long", message["content"], (), group, note)]
    return [which, Field("message_json", "The message", "json", dumps(message, indent=2), (), group, note)]


def _told(message: Any) -> str:
    return f"{role_of(message) or 'message'}: {message_line(message)}"


def _index(text: str, count: int) -> int:
    if not text.removeprefix("-").isdecimal() or not -count <= int(text) < count:
        raise Misuse(
            problem=f"there is no message {text[:20]!r}", advice=f"there are {count}, the first is 0"
        )
    return int(text) % count


def fork(store: Store, given: Given, actor: Actor) -> Done:
    """Make the fork."""
    override = json_of(given["override"]) if given.get("override", "").strip() else None
    if override is not None and not isinstance(override, dict):
        raise Misuse(problem="override is no JSON object", advice='write {"step": value}')
    made = store.fork(
        place_of(given),
        as_=given.get("name", ""),
        override=override and {step: Recorded(value) for step, value in override.items()},
        effects=_effects(given),
        by=actor.person,
        **_edits(store, given),
    )
    return Done(f"{made.run} is a fork of {place_of(given)}; resume starts its program", f"/run/{made.run}")


def _edits(store: Store, given: Given) -> dict[str, Any]:
    """What differs from what the form showed. A form that showed another point edits nothing."""
    sent = [name for name in EDITS if name != "message" and given.get(name, "").strip()]
    if not sent:
        return {}
    shown_at = given.get("edits_at", given.get("at", ""))
    form = store.editable(place_of({**given, "at": shown_at}))
    edits: dict[str, Any] = {}
    for name, known in (("state", form.state), ("inputs", form.inputs)):
        if name in sent and (value := json_of(given[name])) != known:
            edits[name] = Recorded(value)
    if "text" in sent or "message_json" in sent:
        edits |= _edited_message(form, given)
    if edits and shown_at != given.get("at", ""):
        raise Misuse(
            problem=f"what you edited is that of {shown_at or 'the head'}, and the fork is from "
            f"{given.get('at') or 'the head'}",
            advice="open the form of that point, and edit it there",
        )
    return edits


def _edited_message(form: Editable, given: Given) -> dict[str, Any]:
    index = _index(given.get("message", "-1"), len(form.messages))
    known = form.messages[index]
    if given.get("message_json", "").strip():
        value = json_of(given["message_json"])
    else:
        # A browser sends line breaks as \r\n.
        value = (
            {**known, "content": given["text"].replace("\r\n", "\n")} if isinstance(known, dict) else known
        )
    return {} if value == known else {"messages": {index: Recorded(value)}}


# -- rewind --------------------------------------------------------------------------------------------------


def rewind_form(store: Store, given: Given) -> Form:
    """What that throws away, and what stays."""
    place = place_of(given)
    return Form(
        "rewind",
        f"Rewind to {place}",
        (
            Field("run", "", "hidden", run_of(given)),
            Field("at", "", "hidden", given.get("at", "")),
            _effects_field(given),
            Field("files", "Restore the run's files as of that point", "check"),
        ),
        (
            *behind(store, place, _effects(given), "throws away"),
            "What came after the point is kept as a fork.",
        ),
        "Rewind",
        is_grave=True,
    )


def rewind(store: Store, given: Given, actor: Actor) -> Done:
    """Move the head back."""
    if not given.get("at"):
        raise Misuse(problem="a rewind needs a point to go back to", advice="choose a point on the scrubber")
    made = store.rewind(
        place_of(given), effects=_effects(given), files=bool(given.get("files")), by=actor.person
    )
    return Done(
        f"{made.run} stands at {place_of(given)}; {made.kept} keeps what came after it", f"/run/{made.run}"
    )
