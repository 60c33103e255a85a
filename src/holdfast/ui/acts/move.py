"""Move work elsewhere: an export, a handoff."""

from pathlib import Path

from orjson import OPT_INDENT_2, dumps

from holdfast.api.store.store import Store
from holdfast.errors import Misuse
from holdfast.ui.acts.form import Actor, Done, Field, Form, Given, run_of
from holdfast.views.value_text import count, size


def export_form(store: Store, given: Given) -> Form:
    """What would be written, and what cannot go along."""
    run = run_of(given)
    path = str(Path.cwd() / f"{run.replace('/', '-')}.holdfast")
    plan = store.export(run, path, dry_run=True)
    told = [f"{count(plan.events, 'event')} of {count(1 + plan.children, 'run')} are written.", *plan.losses]
    fields = (Field("run", "", "hidden", run), Field("path", "File", "text", path))
    told.append("The run stays here; an import of the file is a fork.")
    return Form("export", f"Export {run}", fields, tuple(told), "Export")


def export(store: Store, given: Given, actor: Actor) -> Done:
    """Write the file."""
    path = given.get("path", "").strip()
    if not path:
        raise Misuse(problem="an export needs a file", advice="name one that does not exist yet")
    if Path(path).exists():
        # The command line replaces an older export; a page cannot see what lies there.
        raise Misuse(problem=f"{path} already exists", advice="name another file")
    store.export(run_of(given), path, by=actor.person)
    return Done(f"{run_of(given)} is written to {path}, by {actor.person}")


def handoff_form(store: Store, given: Given) -> Form:
    """The receiver, the file, and what the document has."""
    run = run_of(given)
    document = dumps(store.handoff(run), option=OPT_INDENT_2, default=str).decode()
    fields = (
        Field("run", "", "hidden", run),
        Field("to", "Receiver (optional)", "text"),
        Field("path", "File", "text", str(Path.cwd() / f"{run.replace('/', '-')}.handoff.json")),
        Field("seal", "Seal the run, so that it does not go on here as well", "check"),
    )
    told = (f"The document has {size(len(document))}: goal, decisions, effects, doubts, open questions.",)
    return Form("handoff", f"Hand over {run}", fields, told, "Write the handoff", is_grave=True)


def handoff(store: Store, given: Given, actor: Actor) -> Done:
    """Write the document."""
    run = run_of(given)
    path = Path(given.get("path", "").strip() or f"{run}.handoff.json")
    if path.exists():
        raise Misuse(problem=f"{path} already exists", advice="name another file")
    document = store.handoff(run, given.get("to", ""), seal=bool(given.get("seal")), by=actor.person)
    with path.open("xb") as file:
        file.write(dumps(document, option=OPT_INDENT_2, default=str))
    return Done(f"the handoff of {run} is in {path}; `holdfast accept {path}` takes it over")
