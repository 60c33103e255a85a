"""Objects in a bucket: one for each blob that is too large for the table, if the URL names a bucket.

An object's name is never reused: it ends in the stage that the blob's head names. So deleting the object of a
deleted blob never hits the object of the same blob put again, and no request needs a condition, which old S3
and many compatible servers do not have. A head names the bucket too: blobs put under another ``blobs=`` are
still found.
"""

import threading
from collections.abc import Iterator
from typing import Any, Final

from holdfast.errors import StoreMissing
from holdfast.stores.dynamodb.address import Target, bucket_and_key
from holdfast.stores.dynamodb.errors import bucket_service
from holdfast.stores.dynamodb.table.client import Line


class Objects:
    """The buckets of one store in this process; clients are made when they are first needed."""

    def __init__(self, target: Target) -> None:
        self._target: Final = target
        self._lines: Final[dict[str, Line]] = {}
        self._opening: Final = threading.Lock()

    def name(self, address: str, stage: str) -> str:
        """The name of a new object for a blob."""
        return f"{self._target.blobs}/{address}.{stage}"

    def put(self, name: str, content: bytes) -> None:
        """Write it; durable on return."""
        bucket, key = bucket_and_key(name)
        self._line(bucket).ask(lambda client: client.put_object(Bucket=bucket, Key=key, Body=content))

    def find(self, name: str) -> bytes | None:
        """The content, or None if there is no such object."""
        bucket, key = bucket_and_key(name)
        found: bytes | None = self._line(bucket).ask(
            lambda client: client.get_object(Bucket=bucket, Key=key)["Body"].read()
        )
        return found

    def size(self, name: str) -> int | None:
        """The size of the content, or None if there is no such object."""
        return next((size for found, size in self._listed(*bucket_and_key(name)) if found == name), None)

    def delete(self, name: str) -> None:
        """Remove it; a missing object, or even a missing bucket, is not an error."""
        bucket, key = bucket_and_key(name)
        try:
            self._line(bucket).ask(lambda client: client.delete_object(Bucket=bucket, Key=key))
        except StoreMissing:
            return

    def names(self, start: str) -> Iterator[tuple[str, int]]:
        """The names with this prefix in the URL's bucket, in order, with their sizes."""
        yield from self._listed(*bucket_and_key(f"{self._target.blobs}/{start}"))

    def _listed(self, bucket: str, prefix: str) -> Iterator[tuple[str, int]]:
        request: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix}
        while True:
            answer = self._line(bucket).ask(lambda client: client.list_objects_v2(**request))
            for one in answer.get("Contents", ()):
                yield f"s3://{bucket}/{one['Key']}", one["Size"]
            if not answer.get("IsTruncated"):
                return
            request["ContinuationToken"] = answer["NextContinuationToken"]

    def close(self) -> None:
        with self._opening:
            for line in self._lines.values():
                line.close()

    def _line(self, bucket: str) -> Line:
        with self._opening:
            found = self._lines.get(bucket)
            if found is None:
                found = self._lines[bucket] = Line(bucket_service(self._target, bucket), self._target)
            return found
