"""The effects that a handoff brings: which one a call of the taker asks for.

A call asks for an effect of the same name with equal arguments, wherever it stands; one that was given a key, for the one
with the same key. Each effect answers one call, in the order in which the giver had them. What a function has captured
is no part of it: it says where the taker's program keeps things, and not what is asked for.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from threading import Lock
from typing import Any, Final, NamedTuple

from orjson import OPT_SORT_KEYS, dumps, loads

from holdfast.core.binding import CLOSURE

CARRIED: Final = frozenset({"once", "idempotent"})
"""Effects that must not simply be made again by somebody else: under another key, an idempotent one happens twice."""


class Effect(NamedTuple):
    """One effect of the giver, or of whoever gave to it: ``run``, ``store`` and ``event`` say where it stands recorded."""

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
    """As the document has it."""

    @property
    def outcome(self) -> dict[str, Any]:
        """The fields that say what it came to, as an event has them."""
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


def effects_in(document: Mapping[str, Any]) -> list[Effect]:
    """Every effect that a document brings, by its number."""
    found = [
        _effect(document, item, is_done=name == "effects", is_in_doubt=name == "in_doubt")
        for name in ("effects", "in_doubt", "pending")
        for item in document[name]
        if "number" in item
    ]
    return sorted(found, key=lambda effect: effect.number)


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """What tells arguments apart, given as they are recorded."""
    told = {name: value for name, value in arguments.items() if not name.startswith(CLOSURE)}
    return sha256(dumps(told, option=OPT_SORT_KEYS)).hexdigest()


class Carried:
    """The effects of a document that the taker's program has not asked for yet. Calls ask from any thread."""

    def __init__(self, document: Mapping[str, Any], claimed: Iterable[int]) -> None:
        self._lock = Lock()
        self._taken = set(claimed)
        self._by_what: dict[tuple[str, str], list[Effect]] = {}
        for effect in effects_in(document):
            what = ("", effect.key) if effect.key else (effect.step, effect.arguments_sha256)
            self._by_what.setdefault(what, []).append(effect)

    def take(self, name: str, key: str, arguments: bytes) -> Effect | None:
        """The effect that this call asks for, which is nobody else's from now on. ``key``: of one that was given a key."""
        known = self._by_what
        if not known or not (key or any(step == name for step, _ in known)):
            return None
        what = ("", key) if key else (name, arguments_digest(loads(arguments)))
        with self._lock:
            for effect in known.get(what, ()):
                if effect.number not in self._taken:
                    self._taken.add(effect.number)
                    return effect
        return None

    def put_back(self, effect: Effect) -> None:
        """It could not be recorded that the call asks for it."""
        with self._lock:
            self._taken.discard(effect.number)


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
