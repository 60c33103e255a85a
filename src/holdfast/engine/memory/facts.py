"""Stores facts as records. The records are the truth of memory; every index is derived from them.

The key of a record is the fact's scope and id. Without a given id, the id is a hash of the text. So a fact
that is remembered twice, after a kill or by two programs, is one fact.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

from orjson import dumps, loads

from holdfast.codec.secrets import mask_known, masked, masked_text
from holdfast.codec.values import decode, decode_tree, encode, encode_tree
from holdfast.core.journal.names import check_name
from holdfast.engine.journal.damaged_records import discard, find_sound
from holdfast.errors import Misuse, StoreBusy, TooLarge, ValueUnreadable
from holdfast.limits import (
    COUNT_MAX,
    FACT_KEY_CHARS_MAX,
    FACT_TEXT_CHARS_MAX,
    RECORD_PAGE_MAX,
    SCOPE_CHARS_MAX,
)
from holdfast.model.facts import Fact, UnreadValue
from holdfast.model.markers import KNOWN, SHAPES
from holdfast.model.search import BETWEEN, Within
from holdfast.model.store_rows import Record
from holdfast.stores.port import StorePort

SPACE: Final = "facts"
_FORGOTTEN: Final = "forgotten"
"""The record space of forgotten facts: when, under a hash of each key, since the key may say too much."""
_TRIES: Final = 20
_ID_CHARS: Final = 16
_BARE: Final = Fact("", "")
_TEXTS: Final = frozenset({"id", "text", "scope", "run", "supersedes", "superseded_by"})
_COUNTS: Final = frozenset({"event", "recalls"})
_TIMES: Final = frozenset({"created_at", "changed_at", "recalled_at"})


def fact_of(
    text: str,
    *,
    tags: Iterable[str] = (),
    scope: str = "",
    key: str | None = None,
    importance: float = 0.5,
    value: Any = None,
) -> Fact:
    """A checked fact, not stored yet. May raise BadName, Misuse, TooLarge."""
    if not isinstance(text, str) or not text.strip():
        raise Misuse(
            problem=f"a fact needs a text, and was given {text!r}", advice="say what is to be remembered"
        )
    if KNOWN or SHAPES:  # it is found by its words, and given to models
        text, tags, scope = masked_text(text), masked([*listed(tags)]), mask_known(scope)
        key = None if key is None else mask_known(key)
    if len(text) > FACT_TEXT_CHARS_MAX:
        raise TooLarge(what="a fact's text", size=len(text), size_max=FACT_TEXT_CHARS_MAX, unit="characters")
    if not 0.0 <= importance <= 1.0:
        raise Misuse(problem=f"importance={importance!r}", advice="give a number from 0 to 1")
    named = tuple(dict.fromkeys(check_name("tag", tag, SCOPE_CHARS_MAX) for tag in listed(tags)))
    id_ = id_of(text) if key is None else check_name("fact", key, FACT_KEY_CHARS_MAX)
    return Fact(id_, text.strip(), check_scope(scope), named, importance, value)


def id_of(text: str) -> str:
    """The id of a fact without a given key."""
    return sha256(text.strip().encode()).hexdigest()[:_ID_CHARS]


def listed(tags: Iterable[str]) -> Iterable[str]:
    """The tags as a list. A single string is one tag, not a sequence of characters."""
    return (tags,) if isinstance(tags, str) else tags


def check_scope(scope: str) -> str:
    """A checked scope: empty, or names with slashes between them. May raise BadName."""
    return scope and check_name("scope", scope.strip("/"), SCOPE_CHARS_MAX)


def within(scope: str | None, tags: Iterable[str] = ()) -> Within:
    """The search bounds of a scope and the scopes below it; None means all scopes."""
    wanted = "" if scope is None else check_scope(scope)
    prefixes = (f"{wanted}{BETWEEN}", f"{wanted}/") if wanted else ()
    return Within(prefixes, tuple(sorted(set(listed(tags)))))


def address(fact: Fact) -> str:
    """The key of the fact's record."""
    return key_of(fact.id, fact.scope)


def key_of(id_: str, scope: str) -> str:
    """The key of the record of the fact with this id and scope."""
    return f"{scope}{BETWEEN}{id_}"


# -- records -------------------------------------------------------------------------------------------------


def find_fact(store: StorePort, key: str) -> Fact | None:
    """The fact under this key, or None. Corrupt where the record is damaged."""
    record = store.get_record(SPACE, key)
    return None if record is None else fact_in(record)


def find_whole(store: StorePort, key: str) -> Fact | None:
    """The fact under this key; None also where the record is damaged, which is logged."""
    record = find_sound(store, SPACE, key)
    return None if record is None else fact_in(record)


def put_fact(store: StorePort, fact: Fact, *, over: Record | None, synced: bool = True) -> bool:
    """Write the fact over the record ``over``, or as a new record; False if another process was faster."""
    body = body_of(fact)
    return store.put_record(SPACE, address(fact), body, revision=over.revision if over else 0, synced=synced)


def change(store: StorePort, key: str, *, synced: bool = True, **fields: Any) -> Fact | None:
    """Change fields of a fact. Returns the changed fact, or None where there is none. May raise StoreBusy."""
    for _ in range(_TRIES):
        record = store.get_record(SPACE, key)
        if record is None:
            return None
        known = fact_in(record)
        changed = known._replace(**fields)
        if changed == known or put_fact(store, changed, over=record, synced=synced):
            return changed
    raise busy(store, key)


def busy(store: StorePort, key: str) -> StoreBusy:
    """The error for a fact that other processes change at every try."""
    name = key.rpartition(BETWEEN)[2]
    return StoreBusy(store=store.url, problem=f"fact {name} changes faster than it can be written")


def delete_fact(store: StorePort, key: str, at: float) -> bool:
    """Delete a fact; False where there is none. Durable on return.

    The time is noted first: killed in between, the fact is there, and the note forbids only older versions.
    """
    if find_sound(store, SPACE, key) is not None:
        _note_forgotten(store, key, at)
    return discard(store, SPACE, key)


def _note_forgotten(store: StorePort, key: str, at: float) -> None:
    noted = _noted_as(key)
    for _ in range(_TRIES):
        known = find_sound(store, _FORGOTTEN, noted)
        if store.put_record(_FORGOTTEN, noted, dumps({"at": at}), revision=known.revision if known else 0):
            return
    raise busy(store, key)


def is_forgotten(store: StorePort, fact: Fact) -> bool:
    """Whether this version of a fact was forgotten here: it is not newer than that."""
    record = find_sound(store, _FORGOTTEN, _noted_as(address(fact)))
    return record is not None and bool(fact.changed_at <= loads(record.body)["at"])


def _noted_as(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def facts(store: StorePort, bounds: Within) -> Iterator[Fact]:
    """The facts within these bounds, in the order of scope and id."""
    prefix = bounds.prefixes[0].removesuffix(BETWEEN) if bounds.prefixes else ""
    after = ""
    while page := store.scan_records(SPACE, after=after, prefix=prefix, limit=RECORD_PAGE_MAX):
        for record in page:
            if not bounds.prefixes or record.key.startswith(bounds.prefixes):
                fact = fact_in(record)
                if set(bounds.tags) <= {*fact.tags}:
                    yield fact
        after = page[-1].key


def fields_of(fact: Fact) -> dict[str, Any]:
    """The fields of a fact to store, without those that have their defaults."""
    kept = {
        name: value
        for name, value, bare in zip(Fact._fields, fact, _BARE, strict=True)
        if name in {"id", "text", "importance"} or value != bare
    }
    return {**kept, "tags": [*fact.tags]}


def body_of(fact: Fact) -> bytes:
    """A fact as bytes. May raise NotStorable."""
    fields, what = fields_of(fact), f"fact {fact.id}"
    # A value of a type that this process does not know is written back as it was read.
    if isinstance(fact.value, UnreadValue):
        return dumps(
            {**loads(encode({**fields, "value": None}, what=what)), "value": loads(fact.value.stored)}
        )
    return encode(fields, what=what)


def stored_value(fact: Fact) -> Any:
    """The value as plain data, also where this process cannot decode it."""
    if isinstance(fact.value, UnreadValue):
        return loads(fact.value.stored)
    return encode_tree(fact.value, what=f"fact {fact.id}")


def fact_in_body(body: bytes) -> Fact:
    """The fact in bytes from outside the store.

    TypeError, or what ``fact_of`` raises, where they are invalid.
    """
    from holdfast.model.event_schema import is_time  # late: every program that opens a run loads this module

    fact = fact_from(_fields_in(body))
    for name, value in zip(Fact._fields, fact, strict=True):
        if name in _TEXTS and type(value) is not str:
            raise TypeError(f"{name} is {value!r:.80}")
        if name in _COUNTS and (type(value) is not int or not 0 <= value <= COUNT_MAX):
            raise TypeError(f"{name} is {value!r:.80}")
        if name in _TIMES and not is_time(value):
            raise TypeError(f"{name} is {value!r:.80}")
    checked = fact_of(fact.text, tags=fact.tags, scope=fact.scope, key=fact.id, importance=fact.importance)
    return fact._replace(id=checked.id, scope=checked.scope, tags=checked.tags)


def fact_from(fields: dict[str, Any]) -> Fact:
    """The fact with these stored fields."""
    return Fact(**{**fields, "tags": tuple(fields.get("tags", ()))})


def fact_in(record: Record) -> Fact:
    """The fact in a record."""
    scope, _, id_ = record.key.partition(BETWEEN)
    return fact_from({**_fields_in(record.body), "id": id_, "scope": scope})


def _fields_in(body: bytes) -> dict[str, Any]:
    """The stored fields of a fact.

    A value that cannot be decoded becomes an UnreadValue, and the rest is read.
    """
    try:
        fields: dict[str, Any] = decode(body, what="a fact")
    except ValueUnreadable as error:
        if error.type_name == "JSON":
            raise
        tree = loads(body)
        value = UnreadValue(error.type_name, error.problem, dumps(tree.pop("value", None)).decode())
        return {**decode_tree(tree, what="a fact"), "value": value}
    return fields
