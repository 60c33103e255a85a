"""The table that a ``dynamodb://`` URL names. It knows no driver, so that naming a store imports none."""

import re
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

from holdfast.errors import BadUrl
from holdfast.model.named_tuple import NamedTuple

_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_BUCKET: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/\s]+)*")
_ENDPOINTS: Final = ("endpoint", "blobs_endpoint")
_OPTIONS: Final = frozenset({"region", "blobs", *_ENDPOINTS})


class Target(NamedTuple):
    """A table, and a bucket for large blobs, if one is given. The default region is the environment's."""

    table: str
    region: str = ""
    endpoint: str = ""
    blobs: str = ""
    """``s3://bucket/prefix``, without a slash at its end."""
    blobs_endpoint: str = ""

    @property
    def name(self) -> str:
        """The table and its place in canonical form: the part after ``://``."""
        told = self._asdict()
        del told["table"]
        query = "&".join(f"{key}={quote(value, safe=':/')}" for key, value in told.items() if value)
        return f"{self.table}?{query}" if query else self.table

    @property
    def url(self) -> str:
        return f"dynamodb://{self.name}"

    @property
    def objects_at(self) -> str:
        """The endpoint for buckets: one server often serves both."""
        return self.blobs_endpoint or self.endpoint


def target_of(name: str, url: str) -> Target:
    """Parses the part after ``://`` of a URL; refuses unknown options. Raises BadUrl."""
    table, _, query = name.partition("?")
    table = unquote(table).strip("/")
    if not _TABLE.fullmatch(table):
        shown = table.rpartition("@")[2]  # a password may have been written before it
        problem = f"names no table ({shown!r}): 3 to 255 of letters, digits and _ . - are one"
        raise BadUrl(url=url, problem=problem)
    options = parse_qs(query, keep_blank_values=True)
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise BadUrl(url=url, problem=f"has an unknown option {unknown[0]!r}")
    told = {key: values[-1] for key, values in options.items()}
    for option in _ENDPOINTS:
        told[option] = _endpoint(url, option, told.get(option, ""))
    told["blobs"] = told.get("blobs", "").rstrip("/")
    if told["blobs"] and not _BUCKET.fullmatch(told["blobs"]):
        raise BadUrl(
            url=url, problem=f"has blobs={told['blobs']!r}, which is no s3://bucket or s3://bucket/prefix"
        )
    if told["blobs_endpoint"] and not told["blobs"]:
        raise BadUrl(url=url, problem="has a blobs_endpoint and no blobs=s3://bucket")
    return Target(table, **told)


def bucket_and_key(name: str) -> tuple[str, str]:
    """Splits ``s3://bucket/key``."""
    bucket, _, key = name.removeprefix("s3://").partition("/")
    return bucket, key


def _endpoint(url: str, option: str, told: str) -> str:
    endpoint = told.rstrip("/")
    if endpoint and not (endpoint.startswith(("http://", "https://")) and urlsplit(endpoint).hostname):
        raise BadUrl(url=url, problem=f"has {option}={endpoint!r}, which is no http:// or https:// address")
    return endpoint
