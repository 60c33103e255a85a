"""What a person can do on the page: each act is one call of the store handle, the same that the CLI makes.

An act has a form, which says beforehand what it would do, and a deed, which does it in the person's name.
Nothing is decided here: the store refuses what must not be, and its error is shown.
"""

from typing import Any, Final

from holdfast.errors import Misuse
from holdfast.ui.acts import branch, keep, move, settle
from holdfast.ui.acts.form import Act, Actor

__all__ = ["ACTS", "Act", "Actor", "act_named", "checked"]

ACTS: Final[dict[str, Act]] = {
    "answer": Act(settle.answer_form, settle.answer, ("question", "value", "reason")),
    "resolve": Act(settle.resolve_form, settle.resolve, ("step", "how", "value", "message", "asked")),
    "cancel": Act(settle.cancel_form, settle.cancel, ("reason",)),
    "resume": Act(settle.resume_form, settle.resume, ()),
    "fork": Act(
        branch.fork_form,
        branch.fork,
        ("at", "name", "override", "effects", "edits_at", *branch.EDITS),
    ),
    "rewind": Act(branch.rewind_form, branch.rewind, ("at", "effects", "files")),
    "label": Act(keep.label_form, keep.label, ("at", "name")),
    "pin": Act(keep.pin_form, keep.pin, ("at", "remove")),
    "prune": Act(keep.prune_form, keep.prune, (), needs_run=False),
    "export": Act(move.export_form, move.export, ("path",)),
    "handoff": Act(move.handoff_form, move.handoff, ("to", "path", "seal")),
}


def act_named(name: str) -> Act:
    """The act of this name. Raises Misuse."""
    if name not in ACTS:
        raise Misuse(problem=f"there is no act {name[:40]!r}", advice=f"the acts are: {', '.join(ACTS)}")
    return ACTS[name]


def checked(name: str, given: Any) -> dict[str, str]:
    """What was sent for an act. Misuse names what is missing, unknown or no text."""
    act = act_named(name)
    if not isinstance(given, dict):
        raise Misuse(problem="the body is no JSON object", advice='send {"run": …}')
    known = {"run", *act.fields}
    if unknown := sorted(given.keys() - known):
        raise Misuse(
            problem=f"{name} takes no {', '.join(unknown)[:80]}",
            advice=f"it takes {', '.join(sorted(known))}",
        )
    texts = {}
    for key, value in given.items():
        if isinstance(value, bool):
            value = "on" if value else ""  # noqa: PLW2901 - as a form sends it
        if not isinstance(value, str):
            raise Misuse(
                problem=f"{key} is no text", advice="send texts; JSON values as the text of the JSON"
            )
        texts[key] = value
    return texts
