"""Keeps recent states of chains in memory: the process that continues a chain usually wrote the last one."""

from threading import Lock
from typing import Any

from holdfast.limits import CHAIN_MEMORY_BYTES_MAX


class Recent:
    """The last states written or read, by the body of their event: equal bodies have equal states."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._states: dict[bytes, tuple[Any, int]] = {}
        self._size = 0

    def find(self, body: bytes) -> Any:
        """The state, or None."""
        with self._lock:
            found = self._states.pop(body, None)
            if found is None:
                return None
            self._states[body] = found  # at the end: the least recently used one is dropped first
            return found[0]

    def keep(self, body: bytes, state: Any, size: int) -> None:
        """Keep a state that no caller changes any more; a large one is not kept."""
        with self._lock:
            if body in self._states or size > CHAIN_MEMORY_BYTES_MAX // 4:
                return
            self._states[body] = state, size
            self._size += size
            while self._size > CHAIN_MEMORY_BYTES_MAX:
                _, gone = self._states.pop(next(iter(self._states)))
                self._size -= gone

    def clear(self) -> None:
        """Forget all: the next reader reads the store."""
        with self._lock:
            self._states.clear()
            self._size = 0
