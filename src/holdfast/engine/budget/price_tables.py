"""Reads price tables: the shipped one, and the user's own, from ``prices=`` or ``HOLDFAST_PRICES``."""

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from orjson import loads

from holdfast.errors import BadPrices

if TYPE_CHECKING:
    from holdfast.core.budget.prices import PriceTable
    from holdfast.engine.run.entry import Entry

Prices = Mapping[str, object] | str | os.PathLike[str]
"""A table, or the path of one."""


def own_prices(given: Prices | None) -> "PriceTable | None":
    """The user's own entries: those of ``HOLDFAST_PRICES``, then the given ones, which win; or None.

    BadPrices.
    """
    place = os.environ.get("HOLDFAST_PRICES")
    if given is None and not place:
        return None
    from holdfast.core.budget.prices import PriceTable, parse_prices

    own = _read(place) if place else PriceTable()
    if given is None:
        return own
    return PriceTable(own | (parse_prices(given, "prices=") if isinstance(given, Mapping) else _read(given)))


def check_prices(entry: "Entry") -> None:
    """BadPrices for a table that cannot be read."""
    own_prices(entry.prices)


@cache
def shipped_prices() -> "PriceTable":
    """The table that comes with Holdfast."""
    return _read(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "prices.json"))  # noqa: PTH118, PTH120 - pathlib is not loaded for this


def _read(place: str | os.PathLike[str]) -> "PriceTable":
    from holdfast.core.budget.prices import parse_prices

    source = os.fspath(place)
    try:
        with open(source, "rb") as file:  # noqa: PTH123 - as above
            content = file.read()
    except OSError as error:
        raise BadPrices(source=source, problem=f"cannot be read: {error.strerror}") from None
    return parse_prices(_parsed(content, source), source)


def _parsed(content: bytes, source: str) -> object:
    is_toml = source.endswith(".toml")
    try:
        return _from_toml(content) if is_toml else loads(content)
    except ValueError as error:
        kind = "TOML" if is_toml else "JSON"
        raise BadPrices(source=source, problem=f"is not {kind}: {error}") from None


def _from_toml(content: bytes) -> object:
    from tomllib import loads as loads_toml

    return loads_toml(content.decode())
