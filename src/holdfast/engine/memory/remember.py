"""Keeps facts that outlive their runs, finds them by words and by meaning, and supersedes old ones.

Crash windows. The index entry is written before the fact: killed in between, the entry has no fact, and the
next search drops it; in the other order, the fact would exist and never be found. Each version of a fact has
an index entry of its own, so that a change that was cut off leaves the old version findable. A fact that
supersedes another names it before the older one is marked: killed in between, a search that finds both hides
the older one, and the next ``remember`` of the newer one marks it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

from orjson import OPT_SORT_KEYS, dumps, loads

from holdfast.engine.journal.damaged_records import find_sound
from holdfast.engine.memory.facts import (
    SPACE,
    address,
    busy,
    change,
    delete_fact,
    fact_in,
    facts,
    find_fact,
    find_whole,
    id_of,
    is_forgotten,
    key_of,
    put_fact,
    stored_value,
    within,
)
from holdfast.engine.memory.index_cache import tidy_index, watched, with_index
from holdfast.engine.run.store_session import StoreSession, masked_text
from holdfast.errors import Misuse, StoreError, UnknownFact
from holdfast.limits import FACT_TEXT_CHARS_MAX
from holdfast.model.facts import Fact, Recalled, UnreadValue
from holdfast.model.search import BETWEEN, FACTS, Within
from holdfast.stores.port import IndexPort, StorePort

_WHOLE: Final = f"{FACTS}:whole.2"
"""The note that every fact is in the index, and with vectors of which embedder.

The number is that of the format.
"""
_ALIKE_MAX: Final = 8
"""How many of the nearest facts are compared with a new one, which may repeat or supersede them."""
_USE_COUNTS_S: Final = 3_600
"""Several recalls of a fact within this time count as one use."""
_TRIES: Final = 20
_BATCH: Final = 256


# -- keeping -------------------------------------------------------------------------------------------------


def remember(session: StoreSession, fact: Fact) -> Fact:
    """Keep the fact, or return a known one that says the same. Durable on return.

    A fact under a taken key replaces the one there. A fact that it contradicts is superseded, and can still
    be looked up.
    """
    return with_index(
        session, lambda index: _remember(session, index, fact), ready=_filler(session), writes=True
    )


def _remember(session: StoreSession, index: IndexPort | None, fact: Fact) -> Fact:
    store, at = session.store, session.clock.wall()
    for _ in range(_TRIES):
        record = find_sound(store, SPACE, address(fact))
        known = None if record is None else fact_in(record)
        if known is not None and _says_the_same(known, fact):
            _supersede(session, index, known)
            return known
        # Only a fact without a given key may merge with another: under a key, the program said which fact it
        # is.
        if fact.id == id_of(fact.text):
            if known is not None and not known.superseded_by and known.value == fact.value:
                return _merged(session, index, known, fact)
            alike = _alike(session, index, fact)
            if alike is not None and alike[0] == "same":
                return _merged(session, index, alike[1], fact)
            fact = fact._replace(supersedes=alike[1].id if alike is not None else "")
        kept = fact._replace(created_at=at if known is None else known.created_at, changed_at=at)
        if index is not None:  # before the fact: see the crash windows above
            index.put(FACTS, _documents(session, [kept]), synced=True)
        if put_fact(store, kept, over=record):
            if index is not None:
                index.drop(FACTS, address(kept), but=version_of(kept))
            _supersede(session, index, kept)
            return kept
    raise busy(store, address(fact))


def edit(session: StoreSession, id_: str, scope: str, **fields: Any) -> Fact:
    """Change the text, the tags or the importance of a fact, which keeps its id. May raise UnknownFact."""
    return with_index(
        session,
        lambda index: _edit(session, index, id_, scope, fields),
        ready=_filler(session),
        writes=True,
    )


def _edit(
    session: StoreSession, index: IndexPort | None, id_: str, scope: str, fields: Mapping[str, Any]
) -> Fact:
    known = find_fact(session.store, key_of(id_, scope))
    if known is None:
        raise UnknownFact(fact=id_, scope=scope or "no scope", store=session.store.url)
    at = session.clock.wall()
    if index is not None and not known.superseded_by:
        index.put(FACTS, _documents(session, [known._replace(**fields, changed_at=at)]), synced=True)
    changed = change(session.store, address(known), **fields, changed_at=at)
    if changed is None:  # another process has deleted it meanwhile
        raise UnknownFact(fact=id_, scope=scope or "no scope", store=session.store.url)
    if index is not None:
        index.drop(FACTS, address(changed), but=version_of(changed))
    return changed


def forget(session: StoreSession, id_: str, scope: str = "") -> bool:
    """Delete a fact for good; False where there is none. No search finds it, and no import brings it back."""
    key = key_of(id_, scope)
    is_gone = delete_fact(session.store, key, session.clock.wall())
    tidy_index(session.store, lambda index: index.drop(FACTS, key))
    return is_gone


def _says_the_same(known: Fact, fact: Fact) -> bool:
    """Whether a fact adds nothing to a known one. Its origin and its uses do not count."""
    compared = ("text", "scope", "tags", "importance", "value")
    return not known.superseded_by and all(getattr(known, name) == getattr(fact, name) for name in compared)


def _alike(session: StoreSession, index: IndexPort | None, fact: Fact) -> tuple[str, Fact] | None:
    """A fact of the same scope that says the same (``same``), or that this one supersedes."""
    from holdfast.core.memory.dedupe import compare
    from holdfast.engine.memory.fact_search import candidates, cosine_of

    here = Within((f"{fact.scope}{BETWEEN}",))
    places = _searched(session, index, here)
    for key in candidates(places, FACTS, fact.text, here, embedder=session.embedder, limit=_ALIKE_MAX):
        known = find_whole(session.store, key)
        if known is None or known.superseded_by or known.id == fact.id:
            continue
        # The cosine of the texts alone: the index has vectors of the text together with tags and value.
        verdict = compare(fact.text, known.text, cosine_of(fact.text, known.text, session.embedder))
        if verdict == "same" and known.value != fact.value and fact.value is not None:
            return "supersedes", known  # the same words about other data
        if verdict != "apart":
            return verdict, known
    return None


def _merged(session: StoreSession, index: IndexPort | None, known: Fact, fact: Fact) -> Fact:
    """The known fact, with the tags and the importance that the new one adds."""
    tags = tuple(dict.fromkeys((*known.tags, *fact.tags)))
    importance = max(known.importance, fact.importance)
    if (tags, importance) == (known.tags, known.importance):
        return known
    fields = {"tags": tags, "importance": importance}
    return _edit(session, index, known.id, known.scope, fields)


def _supersede(session: StoreSession, index: IndexPort | None, fact: Fact) -> None:
    """Mark the fact that this one supersedes. It can be looked up by id, but no search finds it."""
    if not fact.supersedes:
        return
    key = key_of(fact.supersedes, fact.scope)
    older = find_whole(session.store, key)
    if older is not None and not older.superseded_by:
        change(session.store, key, superseded_by=fact.id)
        if index is not None:
            index.drop(FACTS, key)


def take_in(session: StoreSession, fact: Fact) -> str:
    """Keep a fact of another store: ``added``; ``replaced``, if newer than the one here; or ``known``.

    A forgotten fact is known, too.
    """
    return with_index(
        session, lambda index: _take_in(session, index, fact), ready=_filler(session), writes=True
    )


def _take_in(session: StoreSession, index: IndexPort | None, fact: Fact) -> str:
    store = session.store
    for _ in range(_TRIES):
        record = find_sound(store, SPACE, address(fact))
        known = None if record is None else fact_in(record)
        if _is_known(store, fact, known):
            return "known"
        if index is not None and not fact.superseded_by:
            index.put(FACTS, _documents(session, [fact]), synced=True)
        if put_fact(store, fact, over=record):
            if index is not None:
                index.drop(FACTS, address(fact), but="" if fact.superseded_by else version_of(fact))
            older = find_whole(store, key_of(fact.supersedes, fact.scope)) if fact.supersedes else None
            if older is not None and older.changed_at <= fact.changed_at:  # else it was remembered again
                _supersede(session, index, fact)
            return "added" if known is None else "replaced"
    raise busy(store, address(fact))


def is_news(store: StorePort, fact: Fact) -> bool:
    """Whether a fact of another store is not known here, or newer than the one here."""
    return not _is_known(store, fact, find_whole(store, address(fact)))


def _is_known(store: StorePort, fact: Fact, known: Fact | None) -> bool:
    return is_forgotten(store, fact) if known is None else not _is_newer(fact, known)


def _is_newer(fact: Fact, known: Fact) -> bool:
    """Whether it was changed later. To be superseded changes no time."""
    if fact.changed_at != known.changed_at:
        return fact.changed_at > known.changed_at
    return bool(fact.superseded_by) and not known.superseded_by


# -- finding -------------------------------------------------------------------------------------------------


def recall(
    session: StoreSession, query: str, *, k: int, scope: str | None = None, tags: Iterable[str] = ()
) -> list[Recalled]:
    """The ``k`` best facts for the query; without a query, the newest."""
    if k < 1:
        raise Misuse(problem=f"k={k}: that is no number of facts", advice="ask for one or more")
    return recall_within(session, query, k, within(scope, tags))


def recall_within(
    session: StoreSession, query: str, k: int, bounds: Within, but_of: str | None = None
) -> list[Recalled]:
    """``but_of``: facts of this run do not count."""
    query = masked_text(query)  # an embedder may send it; and so it finds a fact that has the mask

    def look(index: IndexPort | None) -> list[Recalled]:
        return _recall_by(session, index, query, k, bounds, but_of)

    return with_index(session, look, ready=_filler(session))


def _recall_by(
    session: StoreSession, index: IndexPort | None, query: str, k: int, bounds: Within, but_of: str | None
) -> list[Recalled]:
    if not query.strip():
        found_now = [fact for fact in current_facts(session, bounds) if fact.run != but_of]
        newest = sorted(found_now, key=lambda fact: fact.changed_at)
        return [Recalled(fact, 0.0) for fact in newest[::-1][:k]]
    # Late imports, because every program that opens a run loads this module.
    from holdfast.core.memory.terms import holds, query_of
    from holdfast.engine.memory.fact_search import find

    asked = query_of(query)
    found = list[Recalled]()
    now = session.clock.wall()
    places = _searched(session, index, bounds)
    ranked = find(places, FACTS, query, bounds, embedder=session.embedder, now=now)
    superseded: set[str] = set()
    for one in ranked:
        fact = find_whole(session.store, one.key)
        if fact is None or fact.superseded_by or version_of(fact) != one.version:
            _drop_stale(index, one.key, fact)
        elif fact.run == but_of:
            continue
        elif holds(asked, searchable(fact)) and one.key not in superseded:
            superseded.add(key_of(fact.supersedes, fact.scope))
            found.append(Recalled(_used(session, index, fact, now), round(one.score, 4)))
            if len(found) == k:
                break
    return found


def _drop_stale(index: IndexPort | None, key: str, fact: Fact | None) -> None:
    """Drop an index entry that has no fact, or an older version of it."""
    if index is not None:
        index.drop(FACTS, key, but="" if fact is None or fact.superseded_by else version_of(fact))


def _used(session: StoreSession, index: IndexPort | None, fact: Fact, now: float) -> Fact:
    """Count a use of the fact, which raises its weight in later searches."""
    if now - fact.recalled_at < _USE_COUNTS_S:
        return fact
    with suppress(StoreError):  # on a full disk, a recall still works
        used = change(session.store, address(fact), synced=False, recalled_at=now, recalls=fact.recalls + 1)
        if used is not None and index is not None:
            index.touch(FACTS, address(fact), at=used.used_at, uses=used.recalls)
        return used or fact
    return fact


def searchable(fact: Fact) -> str:
    """The text by which a search finds a fact: its own, its tags, and the texts in its value.

    An index keeps it, and an embedder may send it: so it has masks for secrets.
    """
    from holdfast.core.memory.bm25 import texts_in

    value = loads(fact.value.stored) if isinstance(fact.value, UnreadValue) else fact.value
    inside = texts_in(masked_text(value), chars_max=FACT_TEXT_CHARS_MAX) if value is not None else ()
    return " ".join([fact.text, *fact.tags, *inside])


def version_of(fact: Fact) -> str:
    """A hash of what a search finds a fact by.

    It does not depend on whether this process can decode the value.
    """
    content = [fact.text, [*fact.tags], stored_value(fact)]
    return sha256(dumps(content, option=OPT_SORT_KEYS)).hexdigest()[:16]


# -- the index -----------------------------------------------------------------------------------------------


def rebuild(session: StoreSession) -> int:
    """Index all facts after the index was deleted, with this process's embedder. Returns their number.

    IndexLost.
    """
    index = watched(session.store.find_index())
    return 0 if index is None else _fill(session, index)


def _filler(session: StoreSession) -> Callable[[IndexPort], None]:
    """A function that adds every fact to an index that lacks them."""

    def fill(index: IndexPort) -> None:
        # An index that was filled without an embedder has no vectors.
        whole = index.get_notes(_WHOLE).get(_WHOLE)
        has_more_now = whole == "" and session.embedder is not None
        if whole is None or has_more_now:
            _fill(session, index)

    return fill


def _fill(session: StoreSession, index: IndexPort) -> int:
    count, batch = 0, list[Fact]()

    def put() -> None:
        index.put(FACTS, _documents(session, batch))
        batch.clear()

    for fact in current_facts(session, Within()):
        batch.append(fact)
        count += 1
        if len(batch) == _BATCH:
            put()
    put()
    # The note comes last: killed before it, the next process fills the index again.
    embedder = session.embedder
    index.put(FACTS, [], notes={_WHOLE: embedder.model if embedder else ""}, synced=True)
    return count


def current_facts(session: StoreSession, bounds: Within) -> Iterator[Fact]:
    """The facts within these bounds that are not superseded."""
    return (fact for fact in facts(session.store, bounds) if not fact.superseded_by)


def _searched(session: StoreSession, index: IndexPort | None, bounds: Within) -> Any:
    """The index to search; without one, a scan of the facts within the bounds."""
    if index is not None:
        return index
    from holdfast.engine.memory.fact_search import Scanned

    return Scanned(_texts([*current_facts(session, bounds)]), session.embedder)


def _documents(session: StoreSession, some: list[Fact]) -> list[Any]:
    from holdfast.engine.memory.fact_search import documents

    return documents(_texts(some), session.embedder)


def _texts(some: list[Fact]) -> list[Any]:
    from holdfast.engine.memory.fact_search import Texts

    return [
        Texts(
            address(fact),
            version_of(fact),
            searchable(fact),
            fact.used_at,
            fact.recalls,
            fact.importance,
            fact.tags,
        )
        for fact in some
    ]
