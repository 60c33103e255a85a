"""Reads the recorded goal and inputs of a run, and compares them with those of a program that enters it.

It also checks the id that the program gives.
"""

from collections.abc import Mapping
from typing import Any

from orjson import loads

from holdfast.codec.values import canonical, decode_tree
from holdfast.core.journal.fold import View
from holdfast.core.journal.names import check_run_id
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.run.store_session import masked, masked_text
from holdfast.errors import BadName, InputsChanged
from holdfast.limits import RUN_ID_CHARS_MAX
from holdfast.model.event_fields import contents_of, fields_of, part_of
from holdfast.stores.port import StorePort


def recorded_inputs(store: StorePort, view: View, run: str, hints: Mapping[str, object]) -> dict[str, Any]:
    """An agent's arguments by name, decoded; ``hints`` are their annotations."""
    tree = inputs_tree(store, view)
    given = tree if isinstance(tree, dict) else {}
    return {
        name: decode_tree(value, what=f"input {name!r} of run {run}", hint=hints.get(name))
        for name, value in given.items()
    }


def check_inputs(
    store: StorePort,
    view: View,
    run: str,
    *,
    goal: str | None,
    inputs: Any,
    defaults: Mapping[str, Any] | None,
) -> None:
    """InputsChanged if the program gives a goal or inputs and others are recorded.

    ``defaults`` are the agent's default arguments: the process that submitted the run may not have known
    them.
    """
    if view.started is None:
        return
    if goal is not None:
        was, goal = part_of(view.started.body, "goal"), masked_text(goal)
        if goal != was and goal != masked_text(was):  # it may have been recorded in clear
            raise changed_inputs(run, "goal", {"goal": was}, {"goal": goal})
    if inputs is None:
        return
    asked, known = _tree(inputs, run), inputs_tree(store, view)
    if defaults and isinstance(known, dict):
        known = {**_tree(dict(defaults), run), **known}
    if asked != known:
        raise changed_inputs(run, "inputs", _by_name(known), _by_name(asked))


def usable_id(run: object) -> str:
    """The id of a run. BadName if it is not usable, or has a secret: masked, it would name another run."""
    name = check_run_id(run)
    shown = masked(name)
    if shown != name:
        raise BadName(
            what="run", name=shown, problem="has a secret in it, and is stored in clear",
            length_max=RUN_ID_CHARS_MAX, advice="name the run after what it works on",
        )  # fmt: skip
    return name


def changed_inputs(run: str, what: str, known: Mapping[str, Any], asked: Mapping[str, Any]) -> InputsChanged:
    """The error, with what differs."""
    from holdfast.core.steps.call_difference import arguments_diff

    return InputsChanged(run=run, what=what, diff=arguments_diff(known, asked))


def inputs_tree(store: StorePort, view: View) -> Any:
    """The inputs of a run as they are recorded; None if there are none."""
    body = {} if view.started is None else contents_of(view.started.body)
    return loads(read_blob(store, body["inputs_blob"])) if "inputs_blob" in body else body.get("inputs")


def _tree(inputs: Any, run: str) -> Any:
    # Encoded and parsed again: compared in the form in which inputs are recorded.
    return loads(canonical(inputs, what=f"inputs of run {run}"))


def _by_name(tree: Any) -> dict[str, Any]:
    return tree if isinstance(tree, dict) else {"inputs": tree}


def roots_of(view: "View") -> tuple[str, ...]:
    """The directories of the run's workspace, from its latest attempt that named any; empty if none did."""
    for attempt in reversed(view.attempts):
        named = fields_of(attempt.event.body).get("roots")
        if named:
            return tuple(named)
    if view.started is None:
        return ()
    body = contents_of(view.started.body)
    return tuple(body.get("roots") or ([body["workspace"]] if body.get("workspace") else ()))
