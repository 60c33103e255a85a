"""The effects in a handoff, and how the receiver recognises the same call.

A call is the same if its name, its explicit key and its arguments are equal. Arguments are equal by their
digest, or by value as in the giver's own run. Another program may capture other values for the same call; of
those that both have, all must be equal. Where a function at module level reads other data than the giver's,
a person is asked. Where the arguments are gone, because they were compacted or their branch was erased, it is
the call with the same key: the same call at the same place of the program.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from orjson import OPT_SORT_KEYS, dumps

from holdfast.core.steps.arguments import NOT_GIVEN
from holdfast.core.steps.call_difference import are_equal, is_same_by_value
from holdfast.core.steps.data_difference import differing
from holdfast.model.named_tuple import NamedTuple

CARRIED: Final = frozenset({"once", "idempotent"})
"""Effects that another run must not make again.

Under another key, an idempotent effect would happen twice.
"""


class Effect(NamedTuple):
    """One effect of the giver, or of a giver before it; ``run``, ``store`` and ``event`` are its record."""

    number: int
    step: str
    effect: str
    key: str
    arguments: Any
    arguments_sha256: str
    idempotency_key: str
    run: str
    store: str
    event: int
    is_done: bool
    is_in_doubt: bool
    item: Mapping[str, Any]
    """Its item in the document."""

    @property
    def call(self) -> str:
        """The key of the call, by which it is known where its arguments are gone; else empty."""
        return str(self.item.get("call", ""))

    @property
    def is_result_gone(self) -> bool:
        """Whether it is done, and nothing has its result."""
        return bool(self.item.get("result_gone"))

    @property
    def outcome(self) -> dict[str, Any]:
        """The fields of the outcome, as an event has them, if the result itself is not in the document."""
        if "lost" in self.item:
            return {"lost": dict(self.item["lost"])}
        if "result_bytes" in self.item:
            from holdfast.limits import HANDOFF_VALUE_BYTES_MAX

            what = f"result of {self.step!r}, which run {self.run} has,"
            size = self.item["result_bytes"]
            return {
                "lost": {"what": what, "size": size, "size_max": HANDOFF_VALUE_BYTES_MAX, "unit": "bytes"}
            }
        return {}


def effects_in(document: Mapping[str, Any], *, children: bool = False) -> list[Effect]:
    """The effects of the giver itself in a document, or those of its children, by their numbers."""
    found = [
        _effect(document, item, is_done=name == "effects", is_in_doubt=name == "in_doubt")
        for name in ("effects", "in_doubt", "pending")
        for item in document[name]
        if "number" in item and bool(item.get("child")) == children
    ]
    return sorted(found, key=lambda effect: effect.number)


def for_child(document: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The part of a document that a child of this name begins with; None if it has no effect of it."""
    lists = {what: [*_of_child(document[what], name)] for what in ("effects", "in_doubt", "pending")}
    if not any(lists.values()):
        return None
    emptied: dict[str, Any] = {what: [] for what, value in document.items() if isinstance(value, list)}
    return {**document, **emptied, **lists, "state": None}


def _of_child(items: Iterable[Mapping[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    for item in items:
        child = str(item.get("child", ""))
        if child == name:
            yield {field: value for field, value in item.items() if field != "child"}
        elif child.startswith(f"{name}/"):
            yield {**item, "child": child[len(name) + 1 :]}


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """A digest of recorded arguments, without captured values and data of the module."""
    return sha256(dumps(given_and_captured(arguments)[0], option=OPT_SORT_KEYS)).hexdigest()


def find_same(
    effects: Iterable[Effect],
    key: str,
    arguments: Mapping[str, Any],
    defaults: Mapping[str, Any],
    reads: Mapping[str, str] | None = None,
) -> Effect | None:
    """The effect that is this call, of these, which have its name.

    ``key`` is the call's explicit key, or empty; ``reads`` are digests of the data that its function reads
    from its module. Of several effects, one with the same data comes first, then one with exactly these
    arguments. Of long arguments the document has only the digest.
    """
    keyed = [effect for effect in effects if effect.key == key]
    if not keyed:
        return None
    digest = arguments_digest(arguments)
    given, captured = given_and_captured(arguments)
    found: list[tuple[bool, bool, int, Effect]] = []
    for effect in keyed:
        before = effect.item.get("captured") or {}
        if not all(are_equal(before[name], captured[name]) for name in before.keys() & captured.keys()):
            continue
        recorded, is_exact = effect.arguments, effect.arguments_sha256 == digest
        if is_exact or (isinstance(recorded, Mapping) and is_same_by_value(recorded, given, defaults)):
            has_other_data = bool(differing(effect.item.get("reads") or {}, reads or {}))
            found.append((has_other_data, not is_exact, effect.number, effect))
    return min(found)[-1] if found else None


def given_and_captured(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Recorded arguments: those that the caller gave, and what the function has captured."""
    captured = {name: value for name, value in arguments.items() if name.startswith(NOT_GIVEN)}
    return {name: value for name, value in arguments.items() if name not in captured}, captured


def _effect(
    document: Mapping[str, Any], item: Mapping[str, Any], *, is_done: bool, is_in_doubt: bool
) -> Effect:
    source = item.get("from") or {"run": document["run"], "store": document["store"]}
    return Effect(
        item["number"],
        item["step"],
        item["effect"],
        item.get("key", ""),
        item["arguments"],
        item.get("arguments_sha256", ""),
        item.get("idempotency_key", ""),
        source["run"],
        source["store"],
        source.get("event", item["events"][0] if item["events"] else 0),
        is_done,
        is_in_doubt,
        item,
    )
