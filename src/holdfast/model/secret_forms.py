"""How else the value of a secret is written inside of other texts: by JSON, a ``repr``, an address, a form.

Each form can be made of the value again, so that a reference to it is filled in exactly. It knows no secret.
"""

import re
from collections.abc import Callable
from typing import Final

import orjson


def _in_json(value: str) -> str:
    return orjson.dumps(value).decode()[1:-1]


def _as_ascii(value: str) -> str:
    from json import dumps  # as the standard library writes it: only for values that are not ASCII

    return value if value.isascii() else dumps(value)[1:-1]


def _in_url(value: str, safe: str = "", blank: str = "%20") -> str:
    if _UNRESERVED.fullmatch(value):
        return value
    from urllib.parse import quote  # only for values that a URL changes

    return quote(value, safe=safe).replace("%20", blank)


_UNRESERVED: Final = re.compile(r"[A-Za-z0-9_.~-]*")
FORMS: Final[dict[str, Callable[[str], str]]] = {
    "json": _in_json,
    "json2": lambda value: _in_json(_in_json(value)),
    "ascii": _as_ascii,
    "repr": lambda value: repr(value)[1:-1],
    "quoted": lambda value: _in_json(repr(value)[1:-1]),
    "url": _in_url,
    "path": lambda value: _in_url(value, safe="/"),
    "form": lambda value: _in_url(value, blank="+"),
}
"""By their names. ``json2`` is JSON in JSON, as a tool's arguments; ``quoted`` is a ``repr`` in JSON."""


def other_forms(value: str) -> list[str]:
    """The forms that differ from the value."""
    return [written for write in FORMS.values() if (written := write(value)) != value]
