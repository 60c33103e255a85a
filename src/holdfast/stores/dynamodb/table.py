"""The one place that talks to the service: requests, patience, transactions, pages.

Every request that passes here may be repeated: transactions carry a token under which the service acts once, parts are
written under names of their own, and a beat too many does no harm. So a lost answer is asked for again, with growing
pauses and jitter, for as long as another store would wait for a lock; then the caller hears what is known: Throttled where
nothing was done, StoreUnavailable where nobody can tell.
"""

import os
import random
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from holdfast.stores.dynamodb.actions import Action, decoded, encoded, projection
from holdfast.stores.dynamodb.errors import CONTENDED, THROTTLED, code_of, is_answered, may_pass, translated
from holdfast.stores.dynamodb.keys import Key, new_id
from holdfast.stores.dynamodb.target import Target

Item = dict[str, Any]

ACTIONS_MAX: Final = 100
TRANSACTION_BYTES_MAX: Final = 3_500_000
"""The service takes 4 MB; the rest is room for what is not counted."""
_GET_MAX: Final = 100
_WRITE_MAX: Final = 25
_PAUSE_S: Final = 0.02
_PAUSE_S_MAX: Final = 1.0
_loader: Final = create_loader()
"""What describes the service is megabytes of JSON: read once, opening a store takes 20 ms instead of 200."""


class Table:
    """One table as this process uses it; its requests may come from any thread."""

    def __init__(self, target: Target) -> None:
        self.target: Final = target
        self._pid: Final = os.getpid()
        self.closing: Final = threading.Event()
        self._client: Final = client_of(target)

    @property
    def is_open(self) -> bool:
        return not self.closing.is_set() and self._pid == os.getpid()

    def check(self) -> None:
        """ForkedHandle or HandleClosed, where this handle is not to be used."""
        if self._pid != os.getpid():
            raise ForkedHandle(what=f"store {self.target.url}", opened_by=self._pid, used_by=os.getpid())
        if self.closing.is_set():
            raise HandleClosed(what=f"store {self.target.url}")

    def close(self) -> None:
        if self.is_open:
            self.closing.set()
            self._client.close()

    # -- writing ---------------------------------------------------------------------------------------------

    def transact(self, actions: Sequence[Action]) -> bool:
        """Do all of it or nothing: False when a condition does not hold. What is done is durable."""
        assert 0 < len(actions) <= ACTIONS_MAX, f"a transaction of {len(actions)} actions"
        items = [{one.kind: {"TableName": self.target.table, **one.request}} for one in actions]
        answer = self._patiently("transact_write_items", TransactItems=items, ClientRequestToken=new_id())
        return answer is not None

    def update(self, action: Action) -> bool:
        """One update outside of a transaction, for what may as well happen twice; False when its condition does not hold."""
        request = {"TableName": self.target.table, **action.request}
        return self._patiently("update_item", **request) is not None

    def write_all(self, requests: Iterable[Mapping[str, Any]]) -> None:
        """Put and delete without conditions, in any order, any number: for what nobody else looks at."""
        for batch in _batches(requests, _WRITE_MAX):
            left: Any = {self.target.table: list(batch)}
            for pause_s in self._patience():
                left = self._request("batch_write_item", RequestItems=left).get("UnprocessedItems")
                if not left:
                    break
                self._pause(pause_s)

    def delete_all(self, found: Iterable[Key]) -> None:
        self.write_all(
            {"DeleteRequest": {"Key": encoded({"pk": one["pk"], "sk": one["sk"]})}} for one in found
        )

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, key: Key) -> Item | None:
        request = {"TableName": self.target.table, "Key": encoded(key), "ConsistentRead": True}
        found = self._request("get_item", **request).get("Item")
        return None if found is None else decoded(found)

    def get_all(self, wanted: Iterable[Key], attributes: Sequence[str] = ()) -> list[Item]:
        """Those that are there, in any order; ``attributes`` must have the keys."""
        items: list[Item] = []
        shape: dict[str, Any] = {"ConsistentRead": True, **(projection(attributes) if attributes else {})}
        for batch in _batches((encoded(key) for key in wanted), _GET_MAX):
            left: Any = {self.target.table: {"Keys": list(batch), **shape}}
            for pause_s in self._patience():
                answer = self._request("batch_get_item", RequestItems=left)
                items += map(decoded, answer["Responses"].get(self.target.table, ()))
                left = answer.get("UnprocessedKeys")
                if not left:
                    break
                self._pause(pause_s)
        return items

    def query(
        self,
        pk: str,
        *,
        low: str = "",
        high: str = "",
        below: str = "",
        newest_first: bool = False,
        page: int = 0,
        attributes: Sequence[str] = (),
    ) -> Iterator[Item]:
        """The items of a partition in order of their sort key, as many as the caller takes; ``low`` and ``high`` included."""
        request: dict[str, Any] = projection(attributes) if attributes else {}
        names = request.setdefault("ExpressionAttributeNames", {})
        names["#pk"], condition, values = "pk", "#pk = :pk", {"pk": pk}
        if low and high:
            condition, values = (
                f"{condition} AND #sk BETWEEN :low AND :high",
                {**values, "low": low, "high": high},
            )
        elif low:
            condition, values = f"{condition} AND #sk >= :low", {**values, "low": low}
        elif below:
            condition, values = f"{condition} AND #sk < :below", {**values, "below": below}
        if low or below:
            names["#sk"] = "sk"
        request["ExpressionAttributeValues"] = encoded({f":{name}": value for name, value in values.items()})
        request.update(TableName=self.target.table, KeyConditionExpression=condition, ConsistentRead=True)
        request["ScanIndexForward"] = not newest_first
        if page:
            request["Limit"] = page
        while True:
            answer = self._request("query", **request)
            yield from map(decoded, answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def count(self, pk: str) -> int:
        """How many items a partition has."""
        request: dict[str, Any] = {
            "TableName": self.target.table,
            "KeyConditionExpression": "#pk = :pk",
            "ExpressionAttributeNames": {"#pk": "pk"},
            "ExpressionAttributeValues": encoded({":pk": pk}),
            "ConsistentRead": True,
            "Select": "COUNT",
        }
        total = 0
        while True:
            answer = self._request("query", **request)
            total += int(answer["Count"])
            if "LastEvaluatedKey" not in answer:
                return total
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def describe(self) -> Item:
        """What the service tells of the table."""
        told: Item = self._request("describe_table", TableName=self.target.table)["Table"]
        return told

    # -- patience --------------------------------------------------------------------------------------------

    def _request(self, verb: str, **request: Any) -> Any:
        answer = self._patiently(verb, **request)
        assert answer is not None, f"{verb} has no condition that could fail"
        return answer

    def _patiently(self, verb: str, **request: Any) -> Any:
        """The answer; None when a condition does not hold."""
        deadline, unknown = SystemClock.monotonic() + limits.BUSY_TIMEOUT_S, False
        for pause_s in _pauses():
            self.check()
            try:
                return getattr(self._client, verb)(**request)
            except (ClientError, BotoCoreError) as error:
                reasons = _reasons(error)
                if code_of(error) == "ConditionalCheckFailedException" or "ConditionalCheckFailed" in reasons:
                    return None
                passes = may_pass(error) or bool(reasons & (THROTTLED | CONTENDED))
                unknown = unknown or (passes and not is_answered(error) and not reasons)
                if not passes or SystemClock.monotonic() + pause_s > deadline:
                    self.check()  # a client that was closed under a request fails in ways of its own
                    raise self._failed(error, reasons, unknown=unknown) from error
            self._pause(pause_s)
        raise AssertionError("pauses do not end")

    def _failed(self, error: Exception, reasons: frozenset[str], *, unknown: bool) -> Exception:
        if unknown:
            made = translated(error, self.target)
            problem = f"no answer, so nobody knows whether it happened: {made.problem}"
            return StoreUnavailable(store=self.target.url, problem=problem).because(error)
        if reasons & (THROTTLED | CONTENDED) and isinstance(error, ClientError):
            code = min(reasons & (THROTTLED | CONTENDED))
            error = ClientError({"Error": {"Code": code, "Message": str(error)}}, error.operation_name)
        return translated(error, self.target)

    def _patience(self) -> Iterator[float]:
        """Pauses until the time is up; then Throttled."""
        deadline = SystemClock.monotonic() + limits.BUSY_TIMEOUT_S
        for pause_s in _pauses():
            if SystemClock.monotonic() > deadline:
                raise Throttled(
                    store=self.target.url, problem="the service keeps leaving parts of a batch for later"
                )
            yield pause_s

    def _pause(self, pause_s: float) -> None:
        self.closing.wait(pause_s)
        self.check()


def client_of(target: Target) -> Any:
    """A client that makes each request once: whether to repeat it is this package's decision. Raises BadUrl."""
    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=3,
        read_timeout=limits.BUSY_TIMEOUT_S / 3,
        max_pool_connections=64,
        tcp_keepalive=True,
    )
    told: dict[str, Any] = {"region_name": target.region or None, "endpoint_url": target.endpoint or None}
    shared = BotocoreSession()
    shared.register_component("data_loader", _loader)
    try:
        return Session(botocore_session=shared).client("dynamodb", config=config, **told)
    except NoRegionError as error:
        problem = "names no region, and neither does the environment: add ?region=…"
        raise BadUrl(url=target.url, problem=problem) from error
    except (BotoCoreError, ValueError) as error:
        raise BadUrl(url=target.url, problem=f"cannot be used: {error}") from error


def _reasons(error: Exception) -> frozenset[str]:
    """Why a transaction was cancelled; empty for every other error."""
    if code_of(error) != "TransactionCanceledException" or not isinstance(error, ClientError):
        return frozenset()
    told: Any = error.response.get("CancellationReasons", ())
    return frozenset(one.get("Code", "") for one in told)


def _pauses() -> Iterator[float]:
    """Longer and longer, each anywhere up to its bound: those who collided do not meet again."""
    for attempt in count():
        yield random.uniform(0, min(_PAUSE_S_MAX, _PAUSE_S * 2 ** min(attempt, 10)))  # noqa: S311 - no secret


def _batches(things: Iterable[Any], size: int) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for thing in things:
        batch.append(thing)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
