"""Facts as records of the store: the truth of memory. What finds them again is derived from these.

A fact's key is made of its scope and its id, and its id of its text where nobody names one: what is remembered twice, by a
program that was killed in between or by two that found out the same, is one fact.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

from orjson import dumps, loads

from holdfast.codec.values import decode, decode_tree, encode, encode_tree
from holdfast.core.journal.names import check_name
from holdfast.engine.journal.damaged_records import discard, find_sound
from holdfast.errors import Misuse, StoreBusy, TooLarge, ValueUnreadable
from holdfast.limits import (
    FACT_KEY_CHARS_MAX,
    FACT_TEXT_CHARS_MAX,
    RECORD_PAGE_MAX,
    SCOPE_CHARS_MAX,
)
from holdfast.model.facts import Fact, UnreadValue
from holdfast.model.search import BETWEEN, Within
from holdfast.model.store_rows import Record
from holdfast.stores.port import StorePort

SPACE: Final = "facts"
_TRIES: Final = 20
_ID_CHARS: Final = 16
_BARE: Final = Fact("", "")


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
    named = tuple(dict.fromkeys(check_name("tag", tag, SCOPE_CHARS_MAX) for tag in listed(tags)))
    id_ = id_of(text) if key is None else check_name("fact", key, FACT_KEY_CHARS_MAX)
    return Fact(id_, text.strip(), check_scope(scope), named, importance, value)


def id_of(text: str) -> str:
    """The id of a fact that nobody named."""
    return sha256(text.strip().encode()).hexdigest()[:_ID_CHARS]


def listed(tags: Iterable[str]) -> Iterable[str]:
    """Tags as somebody gave them: one alone is a tag, and not a row of letters."""
    return (tags,) if isinstance(tags, str) else tags


def check_scope(scope: str) -> str:
    """A scope that a fact can have: empty, or names with slashes between them. BadName."""
    return scope and check_name("scope", scope.strip("/"), SCOPE_CHARS_MAX)


def within(scope: str | None, tags: Iterable[str] = ()) -> Within:
    """Where the facts of a scope and of those below it are; None means all."""
    wanted = "" if scope is None else check_scope(scope)
    prefixes = (f"{wanted}{BETWEEN}", f"{wanted}/") if wanted else ()
    return Within(prefixes, tuple(sorted(set(listed(tags)))))


def address(fact: Fact) -> str:
    """The key of its record."""
    return key_of(fact.id, fact.scope)


def key_of(id_: str, scope: str) -> str:
    """The key of the record of a fact."""
    return f"{scope}{BETWEEN}{id_}"


# -- records --------------------------------------------------------------------------------------------------------


def find_fact(store: StorePort, key: str) -> Fact | None:
    """The fact under this key, or None. Corrupt where it is not what was written."""
    record = store.get_record(SPACE, key)
    return None if record is None else fact_in(record)


def find_whole(store: StorePort, key: str) -> Fact | None:
    """The same for whoever only looks around: a damaged one is as good as none, and is named in the log."""
    record = find_sound(store, SPACE, key)
    return None if record is None else fact_in(record)


def put_fact(store: StorePort, fact: Fact, *, over: Record | None, synced: bool = True) -> bool:
    """Write it in place of what was there, or where there was nothing; False if that has changed meanwhile."""
    body = body_of(fact)
    return store.put_record(SPACE, address(fact), body, revision=over.revision if over else 0, synced=synced)


def change(store: StorePort, key: str, *, synced: bool = True, **fields: Any) -> Fact | None:
    """Give a fact other fields; as it is now, or None where there is none. StoreBusy."""
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
    """Others change it all the time."""
    name = key.rpartition(BETWEEN)[2]
    return StoreBusy(store=store.url, problem=f"fact {name} changes faster than it can be written")


def delete_fact(store: StorePort, key: str) -> bool:
    """Let a fact go; False where there is none. Durable when it returns."""
    return discard(store, SPACE, key)


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
    """A fact as it is written down: without what it does not have."""
    kept = {
        name: value
        for name, value, bare in zip(Fact._fields, fact, _BARE, strict=True)
        if name in {"id", "text", "importance"} or value != bare
    }
    return {**kept, "tags": [*fact.tags]}


def body_of(fact: Fact) -> bytes:
    """A fact as bytes. NotStorable."""
    fields, what = fields_of(fact), f"fact {fact.id}"
    if isinstance(fact.value, UnreadValue):
        return dumps(
            {**loads(encode({**fields, "value": None}, what=what)), "value": loads(fact.value.stored)}
        )
    return encode(fields, what=what)


def stored_value(fact: Fact) -> Any:
    """The value as it is kept, whether it can be read here or not."""
    if isinstance(fact.value, UnreadValue):
        return loads(fact.value.stored)
    return encode_tree(fact.value, what=f"fact {fact.id}")


def fact_in_body(body: bytes) -> Fact:
    """The fact in bytes that somebody gives. TypeError, or what ``fact_of`` raises, where they hold none."""
    fact = fact_from(_fields_in(body))
    checked = fact_of(fact.text, tags=fact.tags, scope=fact.scope, key=fact.id, importance=fact.importance)
    return fact._replace(id=checked.id, scope=checked.scope, tags=checked.tags)


def fact_from(fields: dict[str, Any]) -> Fact:
    """The fact that was written down."""
    return Fact(**{**fields, "tags": tuple(fields.get("tags", ()))})


def fact_in(record: Record) -> Fact:
    """The fact in a record."""
    scope, _, id_ = record.key.partition(BETWEEN)
    return fact_from({**_fields_in(record.body), "id": id_, "scope": scope})


def _fields_in(body: bytes) -> dict[str, Any]:
    """A fact as it was written down. A value that cannot be read is told apart: it hides neither its text nor other facts."""
    try:
        fields: dict[str, Any] = decode(body, what="a fact")
    except ValueUnreadable as error:
        if error.type_name == "JSON":
            raise
        tree = loads(body)
        value = UnreadValue(error.type_name, error.problem, dumps(tree.pop("value", None)).decode())
        return {**decode_tree(tree, what="a fact"), "value": value}
    return fields
