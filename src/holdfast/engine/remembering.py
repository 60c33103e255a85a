"""Facts that outlive their runs: kept as records of the store, and found again by words.

A fact's key is made of its scope and its id, and its id of its text where nobody names one: what is remembered twice, by a
program that was killed in between or by two that found out the same, is one fact.

Crash windows: a run writes the fact before the mark that tells of it. Killed in between, it writes the same fact again.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

from holdfast.codec.values import canonical, decode, encode
from holdfast.core.names import check_name
from holdfast.engine.hands import Hands
from holdfast.engine.marks import draw
from holdfast.engine.tenure import Tenure
from holdfast.errors import Misuse, StoreBusy, TooLarge
from holdfast.limits import FACT_KEY_CHARS_MAX, FACT_TEXT_CHARS_MAX, RECORD_PAGE_MAX, SCOPE_CHARS_MAX
from holdfast.model.memories import Fact, Recalled
from holdfast.model.rows import Record
from holdfast.stores.port import StorePort

FACTS: Final = "facts"
REMEMBERED: Final = "remembered"
RECALLED: Final = "recalled"
_BETWEEN: Final = "\x1f"
"""Stands between scope and id in a record's key; no name can hold it, and it sorts before all that one can."""
_TRIES: Final = 20
_ID_CHARS: Final = 16


def fact_of(
    text: str,
    *,
    tags: Iterable[str] = (),
    scope: str = "",
    key: str | None = None,
    importance: float = 0.5,
    value: Any = None,
) -> Fact:
    """The fact that somebody wants kept. BadName, Misuse or TooLarge where it cannot be one."""
    if not isinstance(text, str) or not text.strip():
        raise Misuse(
            problem=f"a fact needs a text, and was given {text!r}", advice="say what is to be remembered"
        )
    if len(text) > FACT_TEXT_CHARS_MAX:
        raise TooLarge(what="a fact's text", size=len(text), size_max=FACT_TEXT_CHARS_MAX, unit="characters")
    if not 0.0 <= importance <= 1.0:
        raise Misuse(problem=f"importance={importance!r}", advice="give a number from 0 to 1")
    named = tuple(dict.fromkeys(check_name("tag", tag, SCOPE_CHARS_MAX) for tag in _listed(tags)))
    id_ = sha256(text.strip().encode()).hexdigest()[:_ID_CHARS] if key is None else _key(key)
    return Fact(id_, text.strip(), check_scope(scope), named, importance, value)


def _listed(tags: Iterable[str]) -> Iterable[str]:
    return (tags,) if isinstance(tags, str) else tags


def _key(key: str) -> str:
    return check_name("fact", key, FACT_KEY_CHARS_MAX)


def check_scope(scope: str) -> str:
    """A scope that a fact can have: empty, or names with slashes between them. BadName."""
    return scope and check_name("scope", scope.strip("/"), SCOPE_CHARS_MAX)


# -- in a store ---------------------------------------------------------------------------------------------------


def remember(store: StorePort, fact: Fact, at: float) -> Fact:
    """Keep the fact; under a key that is taken, in the place of what was there. Durable when it returns."""
    for _ in range(_TRIES):
        record = store.get_record(FACTS, _address(fact.scope, fact.id))
        known = None if record is None else _fact(record)
        if known is not None and _same(known, fact):
            return known
        kept = fact._replace(created_at=at if known is None else known.created_at, changed_at=at)
        body = encode(_fields(kept), what=f"fact {fact.id}")
        if store.put_record(
            FACTS, _address(fact.scope, fact.id), body, revision=record.revision if record else 0
        ):
            return kept
    raise StoreBusy(store=store.url, problem=f"fact {fact.id} changes faster than it can be written")


def find_fact(store: StorePort, id_: str, scope: str = "") -> Fact | None:
    """The fact of this id in this scope, or None."""
    record = store.get_record(FACTS, _address(check_scope(scope), id_))
    return None if record is None else _fact(record)


def forget(store: StorePort, id_: str, scope: str = "") -> bool:
    """Let a fact go; False where there is none. Durable when it returns."""
    while (record := store.get_record(FACTS, _address(check_scope(scope), id_))) is not None:
        if store.delete_record(FACTS, record.key, revision=record.revision):
            return True
    return False


def facts(store: StorePort, *, scope: str | None = None, tags: Iterable[str] = ()) -> Iterator[Fact]:
    """The facts of a scope and of those below it, or of all, that have all of these tags; in the order of scope and id."""
    wanted = set(_listed(tags))
    prefix = "" if scope is None else check_scope(scope)
    after = ""
    while page := store.scan_records(FACTS, after=after, prefix=prefix, limit=RECORD_PAGE_MAX):
        for record in page:
            fact = _fact(record)
            if _is_within(fact.scope, scope) and wanted <= set(fact.tags):
                yield fact
        after = page[-1].key


def _is_within(scope: str, wanted: str | None) -> bool:
    return not wanted or scope == (wanted := wanted.strip("/")) or scope.startswith(f"{wanted}/")


def recall(
    store: StorePort, query: str, *, k: int, scope: str | None = None, tags: Iterable[str] = ()
) -> list[Recalled]:
    """The facts that fit the query best; without one, the newest."""
    if k < 1:
        raise Misuse(problem=f"k={k}: that is no number of facts", advice="ask for one or more")
    from holdfast.core.recall import rank  # every program that opens a run loads this module
    from holdfast.core.terms import query_of

    found = sorted(facts(store, scope=scope, tags=tags), key=lambda fact: fact.changed_at)
    if not query.strip():
        return [Recalled(fact, 0.0) for fact in found[::-1][:k]]
    ranked = rank(query_of(query), [searchable(fact) for fact in found])
    return [Recalled(found[place], round(score, 4)) for score, place in ranked[:k]]


def searchable(fact: Fact) -> str:
    """What a fact is found by: its text, its tags, and the texts in its value."""
    from holdfast.core.recall import texts_in

    inside = texts_in(fact.value, chars_max=FACT_TEXT_CHARS_MAX) if fact.value is not None else ()
    return " ".join([fact.text, *fact.tags, *inside])


def _address(scope: str, id_: str) -> str:
    return f"{scope}{_BETWEEN}{id_}"


def _same(known: Fact, fact: Fact) -> bool:
    return known._replace(run="", created_at=0.0, changed_at=0.0) == fact._replace(run="")


def _fields(fact: Fact) -> dict[str, Any]:
    """A fact as it is written down: without what it does not have."""
    kept = {
        name: value for name, value in fact._asdict().items() if name == "value" or value not in ("", 0, ())
    }
    return {**kept, "tags": [*fact.tags], "importance": fact.importance}


def _fact(record: Record) -> Fact:
    fields: dict[str, Any] = decode(record.body, what="a fact")
    scope, _, id_ = record.key.partition(_BETWEEN)
    return _restored({**fields, "id": id_, "scope": scope})


# -- in a run -----------------------------------------------------------------------------------------------------


async def remember_in_run(tenure: Tenure, hands: Hands, fact: Fact) -> Fact:
    """Keep a fact that the run found out, and tell so in its journal; a replay does neither. Synced when it returns."""
    fact = fact._replace(run=tenure.run)

    def make() -> dict[str, Any]:
        return _fields(remember(tenure.store, fact, tenure.clock.wall()))

    data = canonical(_fields(fact), what=f"{REMEMBERED} of run {tenure.run}")
    return _restored(await draw(tenure, hands, REMEMBERED, make, data))


async def recall_in_run(
    tenure: Tenure, hands: Hands, query: str, k: int, scope: str | None, tags: Iterable[str]
) -> list[Recalled]:
    """The facts that fit the query best, drawn once: the same in every replay. Synced when it returns."""
    wanted = sorted(_listed(tags))
    asked = {"query": query, "k": k, "scope": scope, "tags": wanted}

    def make() -> dict[str, Any]:
        found = recall(tenure.store, query, k=k, scope=scope, tags=wanted)
        told = [{"fact": _fields(one.fact), "score": one.score} for one in found]
        return {"text": f"{len(told)} on {query!r}", "found": told}

    data = canonical(asked, what=f"{RECALLED} of run {tenure.run}")
    drawn: dict[str, Any] = await draw(tenure, hands, RECALLED, make, data)
    return [Recalled(_restored(one["fact"]), one["score"]) for one in drawn["found"]]


def _restored(fields: dict[str, Any]) -> Fact:
    return Fact(**{**fields, "tags": tuple(fields.get("tags", ()))})
