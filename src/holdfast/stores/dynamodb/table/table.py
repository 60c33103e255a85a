"""The only module that calls DynamoDB: transactions, batches, pages. ``client`` does the retries."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import methodcaller
from typing import Any, Final

from holdfast.stores.dynamodb.address import Target
from holdfast.stores.dynamodb.errors import table_service
from holdfast.stores.dynamodb.format_mark import FORMAT, MARK_KEY, check_format
from holdfast.stores.dynamodb.s3_objects import Objects
from holdfast.stores.dynamodb.table.actions import Action, decoded, encoded, projection
from holdfast.stores.dynamodb.table.client import Line
from holdfast.stores.dynamodb.table.keys import Key, new_id
from holdfast.stores.dynamodb.table.known_rows import KnownRows

Item = dict[str, Any]

ACTIONS_MAX: Final = 100
TRANSACTION_BYTES_MAX: Final = 3_500_000
"""The service takes 4 MB; the rest is room for what is not counted."""
_GET_MAX: Final = 100
_WRITE_MAX: Final = 25


class Table:
    """One table in this process; requests may come from any thread."""

    def __init__(self, target: Target) -> None:
        self.target: Final = target
        self.line: Final = Line(table_service(target), target)
        self.objects: Final = Objects(target)
        self.known: Final = KnownRows()
        self._has_format = False

    @property
    def is_open(self) -> bool:
        return self.line.is_open

    def check(self) -> None:
        """Raises ForkedHandle or HandleClosed if this handle must not be used."""
        self.line.check()

    def close(self) -> None:
        self.line.close()
        self.objects.close()

    # -- write -----------------------------------------------------------------------------------------------

    def transact(self, actions: Sequence[Action]) -> bool:
        """Do all of it or nothing: False if a condition does not hold. What is done is durable."""
        assert 0 < len(actions) <= ACTIONS_MAX, f"a transaction of {len(actions)} actions"
        items = [{one.kind: {"TableName": self.target.table, **one.request}} for one in actions]
        request = {"TransactItems": items, "ClientRequestToken": new_id()}
        return self._ask("transact_write_items", request) is not None

    def update(self, action: Action) -> bool:
        """One update outside of a transaction, for what may happen twice.

        False if its condition does not hold.
        """
        request = {"TableName": self.target.table, **action.request}
        return self._ask("update_item", request) is not None

    def updated(self, action: Action) -> Item | None:
        """The item as such an update has left it; None if its condition does not hold."""
        request = {"TableName": self.target.table, "ReturnValues": "ALL_NEW", **action.request}
        answer = self._ask("update_item", request)
        return None if answer is None else decoded(answer["Attributes"])

    def write_all(self, requests: Iterable[Mapping[str, Any]]) -> None:
        """Put and delete without conditions, any number, in any order: only for data that no reader sees."""
        for batch in _batches(requests, _WRITE_MAX):
            left: Any = {self.target.table: list(batch)}
            for pause_s in self.line.patience():
                left = self._request("batch_write_item", RequestItems=left).get("UnprocessedItems")
                if not left:
                    break
                self.line.pause(pause_s)

    def delete_all(self, found: Iterable[Key]) -> None:
        self.write_all(
            {"DeleteRequest": {"Key": encoded({"pk": one["pk"], "sk": one["sk"]})}} for one in found
        )

    # -- read ------------------------------------------------------------------------------------------------

    def get(self, key: Key) -> Item | None:
        if not self._has_format:
            return self._check_format(key)
        request = {"TableName": self.target.table, "Key": encoded(key), "ConsistentRead": True}
        found = self._request("get_item", **request).get("Item")
        return None if found is None else decoded(found)

    def get_all(self, wanted: Iterable[Key], attributes: Sequence[str] = ()) -> list[Item]:
        """The existing ones of these items, in any order; ``attributes`` must include the keys."""
        items: list[Item] = []
        shape: dict[str, Any] = {"ConsistentRead": True, **(projection(attributes) if attributes else {})}
        if not self._has_format:
            self._check_format()
        for batch in _batches((encoded(key) for key in wanted), _GET_MAX):
            items += self._got(batch, shape)
        return items

    def _got(self, keys: Sequence[Any], shape: Mapping[str, Any]) -> list[Item]:
        """The existing items of one batch."""
        items: list[Item] = []
        left: Any = {self.target.table: {"Keys": list(keys), **shape}}
        for pause_s in self.line.patience():
            answer = self.line.ask(methodcaller("batch_get_item", RequestItems=left))
            items += map(decoded, answer["Responses"].get(self.target.table, ()))
            left = answer.get("UnprocessedKeys")
            if not left:
                break
            self.line.pause(pause_s)
        return items

    def query(
        self,
        pk: str,
        *,
        low: str = "",
        high: str = "",
        below: str = "",
        above: str = "",
        prefix: str = "",
        newest_first: bool = False,
        page: int = 0,
        attributes: Sequence[str] = (),
        kinds: Collection[str] = (),
    ) -> Iterator[Item]:
        """The items of a partition in sort order, read lazily; ``low`` and ``high`` are inclusive.

        With ``kinds``, the service sends only items of these kinds; it reads, and bills, the others as well.
        """
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
        elif above:
            condition, values = f"{condition} AND #sk > :above", {**values, "above": above}
        elif prefix:
            condition, values = f"{condition} AND begins_with(#sk, :prefix)", {**values, "prefix": prefix}
        if low or below or above or prefix:
            names["#sk"] = "sk"
        if kinds:
            named = {f"kind{number}": kind for number, kind in enumerate(kinds)}
            names["#kind"], values = "kind", {**values, **named}
            request["FilterExpression"] = f"#kind IN (:{', :'.join(named)})"
        request["ExpressionAttributeValues"] = encoded({f":{name}": value for name, value in values.items()})
        request.update(TableName=self.target.table, KeyConditionExpression=condition, ConsistentRead=True)
        request["ScanIndexForward"] = not newest_first
        if page:
            request["Limit"] = page
        for answer in self._pages("query", request):
            yield from map(decoded, answer["Items"])

    def scan(self, prefix: str) -> Iterator[Item]:
        """The items of all partitions with this key prefix, in any order.

        Reads, and pays for, the complete table.
        """
        request: dict[str, Any] = {
            "TableName": self.target.table,
            "FilterExpression": "begins_with(#pk, :prefix)",
            "ExpressionAttributeNames": {"#pk": "pk"},
            "ExpressionAttributeValues": encoded({":prefix": prefix}),
            "ConsistentRead": True,
        }
        for answer in self._pages("scan", request):
            yield from map(decoded, answer["Items"])

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
        return sum(int(answer["Count"]) for answer in self._pages("query", request))

    def describe(self) -> Item:
        """The service's description of the table."""
        told: Item = self._request("describe_table", TableName=self.target.table)["Table"]
        return told

    # -- requests --------------------------------------------------------------------------------------------

    def _pages(self, verb: str, request: dict[str, Any]) -> Iterator[Any]:
        """The answers to a request that is answered in pages, as many as the caller takes."""
        while True:
            answer = self._request(verb, **request)
            yield answer
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _request(self, verb: str, **request: Any) -> Any:
        answer = self._ask(verb, request)
        assert answer is not None, f"{verb} has no condition that could fail"
        return answer

    def _ask(self, verb: str, request: Mapping[str, Any]) -> Any:
        if not self._has_format:
            self._check_format()
        return self.line.ask(methodcaller(verb, **request))

    def _check_format(self, key: Key | None = None) -> Item | None:
        """Read the table's format, and in the same request the item of this key. Raises NewerFormat."""
        keys = [encoded(one) for one in (MARK_KEY, key if key != MARK_KEY else None) if one is not None]
        found: dict[str, Item] = {item["pk"]: item for item in self._got(keys, {"ConsistentRead": True})}
        check_format(found.get(MARK_KEY["pk"], {}).get("format", FORMAT), self.target)
        self._has_format = True
        return None if key is None else found.get(key["pk"])


def _batches(things: Iterable[Any], size: int) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for thing in things:
        batch.append(thing)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
