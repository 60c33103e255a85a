"""The effects of a handoff that are left: which one a call of the taker asks for.

A call asks for an effect of the same name with equal arguments, wherever it stands; one that was given a key, for the one
with the same key. Each effect answers one call, in the order in which the giver had them.
"""

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

from orjson import loads

from holdfast.core.transfer.handoff.carried_effects import Effect, arguments_digest, effects_in


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
