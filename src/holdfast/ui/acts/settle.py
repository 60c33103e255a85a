"""Settle in place: answer a question, resolve a doubt, cancel a run, start it again."""

import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread
from typing import Any, Final

from holdfast.api.store.store import Store
from holdfast.core.people.questions import UnfitError, offered, read_typed
from holdfast.errors import BadAnswer, Misuse
from holdfast.ui.acts.form import Actor, Done, Field, Form, Given, json_of, run_of, words
from holdfast.views.in_doubt import doubt_line

_EARLY_EXIT_S: Final = 1.5
"""A command that is refused ends within this time; one that works goes on."""


def answer_form(store: Store, given: Given) -> Form:
    """The question, and what fits it."""
    asked = store.find_question(run_of(given), given.get("question") or None)
    choices = words(*map(str, asked.wants.choices))
    if asked.wants.kind == "bool":
        choices = words("yes", "no")
    kind: Any = "choice" if choices else "long" if asked.wants.kind in {"text", "json", "object"} else "text"
    return Form(
        "answer",
        asked.question,
        (
            Field("run", "", "hidden", asked.run),
            Field("question", "", "hidden", asked.id),
            Field("value", f"Answer ({offered(asked.wants)})", kind, choices=choices),
            Field("reason", "Reason, for the agent (optional)", "text"),
        ),
        ("A waiting run continues at once; a parked one when it is started again. The first answer counts.",),
        "Answer",
    )


def answer(store: Store, given: Given, actor: Actor) -> Done:
    """Answer it."""
    run = run_of(given)
    asked = store.find_question(run, given.get("question") or None)
    try:
        value = read_typed(asked.wants, given.get("value", ""))
    except UnfitError as unfit:
        raise BadAnswer(
            run=run, question=asked.id, problem=str(unfit), offered=offered(asked.wants), advice=""
        ) from None
    store.answer(run, value, asked.id, by=actor.person, reason=given.get("reason", ""))
    return Done(f"{run}: {asked.id} is answered, by {actor.person}")


_HOW: Final = {
    "done": ("It happened", "The call gets this result, as if it had returned it. It is not made again."),
    "retry": ("It did not happen", "The call is made again, with the same idempotency key."),
    "failed": ("It failed", "The call raises this error in the program."),
    "abandon": ("The program no longer makes it", "The recorded call is not asked about any more."),
    "same": ("It is the same effect", "The recorded outcome answers this call from now on."),
    "new": ("It is a new effect", "The call is made."),
}


def resolve_form(store: Store, given: Given) -> Form:
    """What the resolution means."""
    run, how = run_of(given), given.get("how", "done")
    if how not in _HOW:
        raise Misuse(problem=f"how={how[:40]!r} is not a way to resolve", advice=f"use {', '.join(_HOW)}")
    view = store.view(run)
    lines = [doubt_line(doubt, view) for doubt in store.doubts(run)]
    about = next((line for line in lines if given.get("step") in {line.id, line.key, line.step}), None)
    title, consequence = _HOW[how]
    fields = [Field(name, "", "hidden", given.get(name, "")) for name in ("run", "step", "how", "asked")]
    if how == "done":
        fields.append(Field("value", "What it returned, as JSON", "json", "null"))
    if how == "failed":
        fields.append(Field("message", "The error", "text", "it failed"))
    told = [] if about is None else [f"{about.step} {about.arguments}, {about.reason}"]
    if about is not None and about.idempotency_key:
        told.append(f"The outside service knows it as {about.idempotency_key}.")
    return Form("resolve", title, tuple(fields), (*told, consequence), "Record it", is_grave=True)


def resolve(store: Store, given: Given, actor: Actor) -> Done:
    """Post the resolution."""
    run, how = run_of(given), given.get("how", "")
    value = json_of(given.get("value") or "null") if how == "done" else None
    settled = store.resolve(
        run,
        given.get("step", ""),
        how,  # type: ignore[arg-type]  # the store refuses other words
        value=value,
        message=given.get("message", ""),
        asked=given.get("asked") or None,
        by=actor.person,
    )
    return Done(
        f"{run}: {settled.step} is resolved as {how}, by {actor.person}; the run reads it when it continues"
    )


def cancel_form(store: Store, given: Given) -> Form:
    """What becomes of the run."""
    info = store.get(run_of(given))
    held = "Its process stops with Cancelled." if info.holder == "alive" else "It is cancelled at once."
    return Form(
        "cancel",
        f"Cancel {info.run}",
        (Field("run", "", "hidden", info.run), Field("reason", "Reason (optional)", "text")),
        (held, "A cancelled run does nothing more, unless it is reopened on purpose."),
        "Cancel the run",
        is_grave=True,
    )


def cancel(store: Store, given: Given, actor: Actor) -> Done:
    """Cancel the run."""
    info = store.cancel(run_of(given), by=actor.person, reason=given.get("reason", ""))
    return Done(f"{info.run} is cancelled, by {actor.person}")


def resume_form(store: Store, given: Given) -> Form:
    """What starting it again would do."""
    run = run_of(given)
    command = store.command(run)
    told = ["`holdfast resume` starts its program again, in its own directory, beside this server."]
    if command is not None and command.needs_trust:
        told.append("Its command came from elsewhere: trust it first, with `holdfast resume RUN --trust`.")
    plan = store.resume_plan(run)
    told += [f"{doubt.step} is in doubt: {doubt.fate}" for doubt in plan.doubts]
    return Form("resume", f"Resume {run}", (Field("run", "", "hidden", run),), tuple(told), "Start it")


def resume(store: Store, given: Given, actor: Actor) -> Done:
    """Start the program of the run, beside this server."""
    run = store.get(run_of(given)).run
    log = tempfile.NamedTemporaryFile("wb", prefix="holdfast-resume-", suffix=".log", delete=False)  # noqa: SIM115 - the program writes to it
    named = ["--store", actor.store_option] if actor.store_option else []
    command = [sys.executable, "-m", "holdfast.cli", "resume", run, "--by", actor.person, *named]
    with log:
        process = subprocess.Popen(  # noqa: S603 - our own command, without a shell
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        code = process.wait(_EARLY_EXIT_S)
    except subprocess.TimeoutExpired:
        Thread(target=process.wait, daemon=True).start()  # so that it does not stay as a zombie
        return Done(f"{run} is started; it writes to {log.name}", f"/run/{run}")
    said = Path(log.name).read_text(errors="replace").strip().splitlines()
    if code in {0, 3}:
        return Done(f"{run} was started, and has ended: {said[-1] if said else ''}", f"/run/{run}")
    raise Misuse(problem=" ".join(said[-4:]) or f"exit code {code}", advice=f"its output is in {log.name}")
