"""Facts of memory as text, for all commands that show them."""

from holdfast.api.store.store import Store
from holdfast.cli.errors import RefusedError
from holdfast.cli.output.blocks import Span
from holdfast.model.facts import Fact, UnreadValue
from holdfast.views.value_text import ago, moment


def fact_facts(fact: Fact, *, whole: bool = False) -> list[tuple[str, list[Span]]]:
    """The fields of a fact, with labels."""
    pairs: list[tuple[str, list[Span]]] = [("text", [Span(fact.text, "strong")])]
    pairs.append(("scope", [Span(fact.scope or "everyone", "plain" if fact.scope else "dim")]))
    if fact.tags:
        pairs.append(("tags", [Span(", ".join(fact.tags))]))
    if fact.run:
        pairs.append(("from", [Span(source(fact))]))
    if fact.supersedes:
        pairs.append(("supersedes", [Span(fact.supersedes)]))
    if fact.superseded_by:
        pairs.append(("superseded by", [Span(fact.superseded_by, "doubt")]))
    if whole:
        pairs.append(("importance", [Span(f"{fact.importance:g}")]))
        pairs.append(("created", [Span(moment(fact.created_at))]))
        if fact.changed_at > fact.created_at:
            pairs.append(("changed", [Span(moment(fact.changed_at))]))
        recalled = f"{fact.recalls}, last {moment(fact.recalled_at)}" if fact.recalls else "never"
        pairs.append(("recalled", [Span(recalled)]))
        if fact.value is not None:
            pairs.append(("value", [Span(unread(fact), "doubt") if unread(fact) else Span(repr(fact.value))]))
    return pairs


def unread(fact: Fact) -> str:
    """Why a fact's value cannot be shown; empty where it can, or there is none."""
    value = fact.value
    return f"not read: {value.type_name}, {value.problem}" if isinstance(value, UnreadValue) else ""


def source(fact: Fact) -> str:
    """The origin of a fact as you type it: ``debt-cycles@#41``."""
    return f"{fact.run}@#{fact.event}" if fact.run and fact.event else fact.run


def age(fact: Fact, now: float) -> str:
    """How long the fact has been known."""
    return ago(max(0.0, now - fact.created_at))


def chosen(store: Store, name: str, scope: str | None) -> Fact:
    """The fact with this id, or with an id that starts so, in any scope or in the given one."""
    found = [
        fact
        for fact in store.memory.list(scope=scope)
        if fact.id.startswith(name) and (scope is None or fact.scope == scope.strip("/"))
    ]
    exact = [fact for fact in found if fact.id == name]
    found = exact or found
    if not found:
        raise RefusedError(f"memory has no fact {name}", "`holdfast memories` lists them")
    if len(found) > 1:
        places = ", ".join(f"{fact.id} in {fact.scope or 'no scope'}" for fact in found[:5])
        raise RefusedError(f"{name} matches {len(found)} facts: {places}", "give the full id, and --scope")
    return found[0]
