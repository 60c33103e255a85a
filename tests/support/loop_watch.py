"""Finds store calls that hold an event loop: verbs that an async rule calls in the loop's own thread."""

import asyncio
import inspect
import os
import sys
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any

import pytest

import holdfast
from holdfast.engine.sync_async import AsyncRuntime, BlockingRuntime, drive
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.port import StorePort
from holdfast.stores.sqlite.store import SqliteStore

VERBS = [name for name, member in vars(StorePort).items() if inspect.isfunction(member) and name[0] != "_"]
_OURS = os.path.dirname(holdfast.__file__)


def watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is found as long as the patch lasts, in memory and in SQLite: the verb, and the functions that led to it."""
    found: list[str] = []
    for store in (MemoryStore, SqliteStore):
        for name in VERBS:
            monkeypatch.setattr(store, name, _watched(getattr(store, name), found))
    return found


def _watched(verb: Callable[..., Any], found: list[str]) -> Callable[..., Any]:
    @wraps(verb)
    def call(*args: Any, **kwargs: Any) -> Any:
        if asyncio._get_running_loop() is not None:
            led = _led_by_async_rule(sys._getframe(1))
            if led:
                found.append(f"{verb.__name__} < {led}")
        return verb(*args, **kwargs)

    return call


def _led_by_async_rule(frame: FrameType | None) -> str:
    """The functions from the verb to the rule; empty where it is a blocking one, or the program itself."""
    names: list[str] = []
    while frame is not None:
        code = frame.f_code
        if code is drive.__code__:
            return ""
        runtime = frame.f_locals.get("runtime") or getattr(frame.f_locals.get("work"), "runtime", None)
        runtime = runtime or frame.f_locals.get("self")
        runtime = getattr(runtime, "runtime", runtime)  # a call that knows in which way it is made
        if isinstance(runtime, BlockingRuntime):
            return ""
        if code.co_filename.startswith(_OURS):
            names.append(f"{os.path.relpath(code.co_filename, _OURS)}:{code.co_name}")
            is_rule = isinstance(runtime, AsyncRuntime) or bool(code.co_flags & inspect.CO_COROUTINE)
            if is_rule:
                return " < ".join(names)
        elif code.co_name != "pass_on":  # code of the test: what it calls is its own doing, and no rule's
            return ""
        frame = frame.f_back
    return ""
