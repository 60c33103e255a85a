"""The address in a store's URL: the server, the schema, whether to poll; and its form for people.

It knows libpq's URLs; it connects to nothing. The invariant: a password is used to connect and never shown.
"""

import re
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from holdfast.errors import BadUrl
from holdfast.model.named_tuple import NamedTuple

SCHEMA: Final = "holdfast"
_SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_OURS: Final = frozenset({"schema", "poll"})
_SECRET: Final = frozenset({"password", "sslpassword"})
"""Parameters that a shown URL leaves out."""


class Address(NamedTuple):
    """The place of a store in PostgreSQL's terms."""

    url: str
    schema: str
    polls: bool
    conninfo: dict[str, Any]

    @property
    def user(self) -> str:
        return str(self.conninfo.get("user") or "")

    @property
    def database(self) -> str:
        return str(self.conninfo.get("dbname") or "")


def address_of(name: str, password: str | None = None) -> Address:
    """The address in the part of a URL after ``postgresql://``. Raises BadUrl."""
    rest, _, query = name.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    shown = {key: value for key, value in options.items() if key not in _SECRET}
    url = f"postgresql://{rest}" + (f"?{urlencode(shown, safe='/', quote_via=quote)}" if shown else "")
    schema = options.get("schema", SCHEMA)
    if not _SCHEMA_NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise BadUrl(
            url=url,
            problem=f"names the schema {schema!r}",
            advice="use lower-case letters, digits and _ for the schema",
        )
    polls = options.get("poll", "0")
    if polls not in {"0", "1"}:
        raise BadUrl(url=url, problem=f"has poll={polls!r}", advice="use poll=1, or leave it out")
    theirs = {key: value for key, value in options.items() if key not in _OURS}
    try:
        conninfo = conninfo_to_dict(
            f"postgresql://{rest}" + (f"?{urlencode(theirs, quote_via=quote)}" if theirs else "")
        )
    except psycopg.ProgrammingError as error:
        raise BadUrl(
            url=url, problem=f"is refused by libpq: {' '.join(str(error).split())}", advice=""
        ) from error
    if password is not None:
        conninfo["password"] = password
    return Address(url, schema, polls == "1", conninfo)
