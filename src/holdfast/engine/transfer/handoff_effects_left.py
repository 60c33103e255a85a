"""The effects of a handoff that the new run has not claimed yet, matched to its calls.

A call claims the effect with the same name, explicit key and equal arguments, wherever it is in the program;
or the one whose arguments are gone, and whose call had the same key.
Each effect answers one call, in the giver's order. Invariant: effects with one idempotency key are one
effect, also where the new run knows it by a fork or a rewind as well.
"""

from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any

from orjson import loads

from holdfast.core.steps.arguments import defaults_of
from holdfast.core.transfer.handoff.carried_effects import Effect, effects_in, find_same


class Carried:
    """The unclaimed effects of a handoff document. Safe to use from several threads."""

    def __init__(self, document: Mapping[str, Any], claimed: Iterable[int]) -> None:
        self._lock = Lock()
        self._taken = set(claimed)
        self._by_name: dict[str, list[Effect]] = {}
        for effect in effects_in(document):
            self._by_name.setdefault(effect.step, []).append(effect)

    def take(
        self,
        name: str,
        key: str,
        call: str,
        arguments: bytes,
        fn: Callable[..., Any] | None = None,
        reads: Mapping[str, str] | None = None,
    ) -> Effect | None:
        """Claim the effect for this call, if there is one.

        ``key`` is the call's explicit key, or empty; ``call`` the key of its identity, or empty.
        """
        known = self._by_name.get(name)
        if known is None:  # most calls: their arguments need no digest
            return None
        given, defaults = loads(arguments), {} if fn is None else defaults_of(fn)
        with self._lock:
            left = [effect for effect in known if effect.number not in self._taken]
            known_by_call = next((effect for effect in left if call and effect.call == call), None)
            found = known_by_call or find_same(left, key, given, defaults, reads)
            if found is not None:
                self._taken.add(found.number)
        return found

    def has(self, name: str) -> bool:
        """Whether there are effects of this step."""
        return name in self._by_name

    def claim(self, idempotency_key: str) -> None:
        """Take out the effect with this key: a call has it otherwise."""
        with self._lock:
            for effects in self._by_name.values():
                self._taken |= {
                    e.number for e in effects if idempotency_key and e.idempotency_key == idempotency_key
                }

    def put_back(self, effect: Effect) -> None:
        """Undo a claim that could not be recorded."""
        with self._lock:
            self._taken.discard(effect.number)
