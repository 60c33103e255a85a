"""A connection to one service: a client, retries, and errors mapped to ``holdfast.errors``.

Every request here may be repeated: transactions carry a token under which the service acts once, parts and
objects have unique names, and an extra heartbeat does no harm. So a request with a lost answer is repeated,
with growing pauses and jitter, for as long as another store would wait for a lock. Then the caller gets what
is known: Throttled if nothing was done, StoreUnavailable if the outcome is unknown.
"""

import os
import random
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoRegionError
from botocore.loaders import create_loader
from botocore.session import Session as BotocoreSession

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.errors import BadUrl, ForkedHandle, HandleClosed, StoreUnavailable, Throttled
from holdfast.stores.dynamodb.address import Target
from holdfast.stores.dynamodb.errors import (
    CONTENDED,
    THROTTLED,
    Service,
    code_of,
    is_answered,
    may_pass,
    reasons_of,
    translated,
)

_PAUSE_S: Final = 0.02
_PAUSE_S_MAX: Final = 1.0
_NO: Final = frozenset({"ConditionalCheckFailedException", "ConditionalCheckFailed", "NoSuchKey"})
"""Answers, not failures: a condition does not hold, or there is no such object."""
_loader: Final = create_loader()
"""A service's description is megabytes of JSON: read once, opening a store takes 20 ms instead of 200."""


class Line:
    """One service in this process; requests may come from any thread."""

    def __init__(self, service: Service, target: Target) -> None:
        self._service: Final = service
        self._pid: Final = os.getpid()
        self.closing: Final = threading.Event()
        self.client: Final = client_of(service.kind, target)

    @property
    def is_open(self) -> bool:
        return not self.closing.is_set() and self._pid == os.getpid()

    def check(self) -> None:
        """Raises ForkedHandle or HandleClosed if this handle must not be used."""
        what = f"store {self._service.store}"
        if self._pid != os.getpid():
            raise ForkedHandle(what=what, opened_by=self._pid, used_by=os.getpid())
        if self.closing.is_set():
            raise HandleClosed(what=what)

    def close(self) -> None:
        if self.is_open:
            self.closing.set()
            self.client.close()

    def ask(self, request: Callable[[Any], Any]) -> Any:
        """The service's answer to a request; None if it is a no."""
        deadline, unknown = SystemClock.monotonic() + limits.BUSY_TIMEOUT_S, False
        for pause_s in _pauses():
            self.check()
            try:
                return request(self.client)
            except (ClientError, BotoCoreError) as error:
                reasons = reasons_of(error)
                if {code_of(error), *reasons} & _NO:
                    return None
                passes = may_pass(error) or bool(reasons & (THROTTLED | CONTENDED))
                unknown = unknown or (passes and not is_answered(error) and not reasons)
                if not passes or SystemClock.monotonic() + pause_s > deadline:
                    self.check()  # a client that was closed during a request fails in its own ways
                    raise self._failed(error, reasons, unknown=unknown) from error
            self.pause(pause_s)
        raise AssertionError("pauses do not end")

    def _failed(self, error: Exception, reasons: frozenset[str], *, unknown: bool) -> Exception:
        if unknown:
            made = translated(error, self._service)
            problem = f"no answer, so it is unknown whether it happened: {made.problem}"
            return StoreUnavailable(store=self._service.store, problem=problem).because(error)
        if reasons & (THROTTLED | CONTENDED) and isinstance(error, ClientError):
            code = min(reasons & (THROTTLED | CONTENDED))
            error = ClientError({"Error": {"Code": code, "Message": str(error)}}, error.operation_name)
        return translated(error, self._service)

    def patience(self) -> Iterator[float]:
        """Pauses until the time is up; then raises Throttled."""
        deadline = SystemClock.monotonic() + limits.BUSY_TIMEOUT_S
        for pause_s in _pauses():
            if SystemClock.monotonic() > deadline:
                raise Throttled(
                    store=self._service.store, problem="the service keeps leaving parts of a batch for later"
                )
            yield pause_s

    def pause(self, pause_s: float) -> None:
        self.closing.wait(pause_s)
        self.check()


def client_of(kind: str, target: Target) -> Any:
    """A client that makes each request once: this package decides about retries. Raises BadUrl."""
    endpoint = target.objects_at if kind == "s3" else target.endpoint
    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=3,
        # An object is megabytes, which the server must write to its disks before it answers.
        read_timeout=limits.BUSY_TIMEOUT_S / (1 if kind == "s3" else 3),
        max_pool_connections=64,
        tcp_keepalive=True,
        # Only Amazon's own name servers know bucket names as part of a host name.
        s3={"addressing_style": "path" if endpoint else "auto"},
    )
    told: dict[str, Any] = {"region_name": target.region or None, "endpoint_url": endpoint or None}
    shared = BotocoreSession()
    shared.register_component("data_loader", _loader)
    try:
        return Session(botocore_session=shared).client(kind, config=config, **told)
    except NoRegionError as error:
        problem = "names no region, and neither does the environment: add ?region=…"
        raise BadUrl(url=target.url, problem=problem) from error
    except (BotoCoreError, ValueError) as error:
        raise BadUrl(url=target.url, problem=f"cannot be used: {error}") from error


def _pauses() -> Iterator[float]:
    """Growing, each random up to its bound, so that writers that collided do not collide again."""
    for attempt in count():
        yield random.uniform(0, min(_PAUSE_S_MAX, _PAUSE_S * 2 ** min(attempt, 10)))  # noqa: S311 - no secret
