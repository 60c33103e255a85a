"""The effects of a handoff that the new run has not claimed yet, matched to its calls.

A call claims the effect with the same name and equal arguments, wherever it is in the program. A call with an
explicit key claims the effect with that key. Each effect answers one call, in the giver's order.
"""

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

from orjson import loads

from holdfast.core.transfer.handoff.carried_effects import Effect, arguments_digest, effects_in


class Carried:
    """The unclaimed effects of a handoff document. Safe to use from several threads."""

    def __init__(self, document: Mapping[str, Any], claimed: Iterable[int]) -> None:
        self._lock = Lock()
        self._taken = set(claimed)
        self._by_what: dict[tuple[str, str], list[Effect]] = {}
        for effect in effects_in(document):
            what = ("", effect.key) if effect.key else (effect.step, effect.arguments_sha256)
            self._by_what.setdefault(what, []).append(effect)

    def take(self, name: str, key: str, arguments: bytes) -> Effect | None:
        """Claim the effect for this call, if there is one. ``key`` is the call's explicit key, or empty."""
        known = self._by_what
        # Most calls match no effect by name; their arguments need no digest.
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
        """Undo a claim that could not be recorded."""
        with self._lock:
            self._taken.discard(effect.number)
