"""Keep and free: labels and pins for points, and prune."""

from holdfast.api.store.store import Store
from holdfast.ui.acts.form import Actor, Done, Field, Form, Given, place_of, run_of
from holdfast.views.labels import names_at
from holdfast.views.value_text import count, size


def label_form(store: Store, given: Given) -> Form:
    """The point and its name. The labels that there are, are listed."""
    run = run_of(given)
    labels = store.labels(run)
    now = names_at(labels).get(store.locate(place_of(given))[1], "") if given.get("at") else ""
    told = [f"{one.name} is #{one.seq}, from {one.by or 'a person'}." for one in labels]
    fields = (
        Field("run", "", "hidden", run),
        Field("name", "Name; leave it empty to take the name back", "text", now),
        Field("at", "Point, label or #event", "text", given.get("at", "")),
    )
    consequences = ("RUN@NAME means the point everywhere, and pruning keeps it.", *told[:12])
    return Form("label", f"Label a point of {run}", fields, consequences, "Label")


def label(store: Store, given: Given, actor: Actor) -> Done:
    """Give the point its name, or take it back."""
    place, name = place_of(given), given.get("name", "").strip()
    if name:
        made = store.label(place, name, by=actor.person)
        return Done(f"{run_of(given)}@{made.name} is {place}, by {actor.person}")
    found = store.unlabel(place, by=actor.person)
    return Done(f"{place} had no name" if found is None else f"{found.name} is taken back, by {actor.person}")


def pin_form(store: Store, given: Given) -> Form:
    """The point, and what is pinned already."""
    run = run_of(given)
    pinned = [one.place for one in store.pins_of(run)]
    told = f"Pinned now: {', '.join(pinned)}." if pinned else "Nothing of this run is pinned."
    fields = (
        Field("run", "", "hidden", run),
        Field("at", "Point or label", "text", given.get("at", "")),
        Field("remove", "Take the pin back instead", "check"),
    )
    return Form("pin", f"Pin a point of {run}", fields, ("A pinned point is never pruned.", told), "Pin")


def pin(store: Store, given: Given, actor: Actor) -> Done:
    """Pin the point, or let it go."""
    place = place_of(given)
    if given.get("remove"):
        was = store.unpin(place, by=actor.person)
        return Done(f"{place} is unpinned, by {actor.person}" if was else f"{place} was not pinned")
    return Done(f"{store.pin(place, by=actor.person).place} is pinned, by {actor.person}")


def prune_form(store: Store, given: Given) -> Form:
    """The plan of the prune."""
    report = store.prune(given.get("run") or None, dry_run=True)
    goes = [
        f"{line.run}: {part.number or ''} {part.what}: {part.why}".replace("  ", " ")
        for line in report.runs
        for part in line.goes
    ]
    freed = size(max(0, report.bytes_before - report.bytes_after))
    told = [*goes[:20], *([f"and {len(goes) - 20} more"] if len(goes) > 20 else [])]
    told.append(
        f"{freed} less. Heads, labels, pins and fork points stay." if goes else "There is nothing to prune."
    )
    fields = (Field("run", "", "hidden", given.get("run", "")),)
    return Form(
        "prune", f"Prune {given.get('run') or 'the store'}", fields, tuple(told), "Prune", is_grave=True
    )


def prune(store: Store, given: Given, actor: Actor) -> Done:
    """Carry the plan out."""
    report = store.prune(given.get("run") or None, by=actor.person)
    freed = size(max(0, report.bytes_before - report.bytes_after))
    return Done(f"{freed} less, of {count(len(report.runs), 'run')}, by {actor.person}")
