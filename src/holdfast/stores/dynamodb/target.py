"""Which table: what a ``dynamodb://`` URL names. Knows no driver, so that naming a store imports none."""

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from holdfast.errors import BadUrl

_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_OPTIONS: Final = frozenset({"region", "endpoint"})


class Target(NamedTuple):
    """A table. Without a region, the one that the environment or the profile says."""

    table: str
    region: str = ""
    endpoint: str = ""

    @property
    def name(self) -> str:
        """The table and where it is, the same however it was written: what follows the ``://``."""
        told = {"region": self.region, "endpoint": self.endpoint}
        query = "&".join(f"{key}={quote(value, safe=':/')}" for key, value in told.items() if value)
        return f"{self.table}?{query}" if query else self.table

    @property
    def url(self) -> str:
        return f"dynamodb://{self.name}"


def target_of(name: str, url: str) -> Target:
    """From what follows the ``://`` of a URL; other options than ours are refused. Raises BadUrl."""
    table, _, query = name.partition("?")
    table = unquote(table).strip("/")
    if not _TABLE.fullmatch(table):
        raise BadUrl(
            url=url, problem=f"names no table ({table!r}): 3 to 255 of letters, digits and _ . - are one"
        )
    options = parse_qs(query, keep_blank_values=True)
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise BadUrl(url=url, problem=f"has an unknown option {unknown[0]!r}")
    told = {key: values[-1] for key, values in options.items()}
    endpoint = told.get("endpoint", "").rstrip("/")
    if endpoint and not (endpoint.startswith(("http://", "https://")) and urlsplit(endpoint).hostname):
        raise BadUrl(url=url, problem=f"has endpoint={endpoint!r}, which is no http:// or https:// address")
    return Target(table, told.get("region", ""), endpoint)
