"""Facts of memory, for the eye: what the commands about them share."""

from holdfast.api.store.store import Store
from holdfast.cli.errors import RefusedError
from holdfast.cli.output.blocks import Span
from holdfast.model.facts import Fact, UnreadValue
from holdfast.views.value_text import ago, moment


def fact_facts(fact: Fact, *, whole: bool = False) -> list[tuple[str, list[Span]]]:
    """What there is to say of a fact, label by label."""
    pairs: list[tuple[str, list[Span]]] = [("text", [Span(fact.text, "strong")])]
    pairs.append(("scope", [Span(fact.scope or "everybody", "plain" if fact.scope else "dim")]))
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
    """Where a fact comes from, as it is typed: ``debt-cycles@#41``."""
    return f"{fact.run}@#{fact.event}" if fact.run and fact.event else fact.run


def age(fact: Fact, now: float) -> str:
    """How long it is known."""
    return ago(max(0.0, now - fact.created_at))


def chosen(store: Store, name: str, scope: str | None) -> Fact:
    """The fact whose id somebody typed, or the beginning of it, in any scope or in this one."""
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
        raise RefusedError(
            f"{name} may be any of {len(found)} facts: {places}", "give the whole id, and --scope"
        )
    return found[0]
