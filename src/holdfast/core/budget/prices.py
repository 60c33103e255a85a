"""Prices: what a model's tokens cost, looked up in a table that is data.

A table maps names of models to prices in US dollars per million tokens. A name may be a pattern (``gpt-4o-20??-??-??``) and
may begin with the provider whose price it is (``openai/gpt-4o``, or its host). The invariant: what the table does not say is not
known, and never zero.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from holdfast.errors import BadPrices
from holdfast.model.usage import Usage

_MILLION: Final = 1_000_000
_FOUND_MAX: Final = 1_000
_WILD: Final = frozenset("*?[")
HOSTS: Final = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "google",
    "api.mistral.ai": "mistral",
}
"""Providers by where they are reached: a call knows the host, a table the name."""


class Price(NamedTuple):
    """Dollars per million tokens. ``cached`` is for the part of the input that the provider had cached; None: as the rest."""

    input: float
    output: float
    cached: float | None = None


class PriceTable(dict[str, Price]):
    """Prices by name. Not changed once it is made: what a model costs is searched for once, and then known."""

    __slots__ = ("_found",)

    def __init__(self, entries: Mapping[str, Price] = MappingProxyType({})) -> None:
        super().__init__(entries)
        self._found: dict[tuple[str, str], Price | None] = {}

    def find(self, model: str, provider: str) -> Price | None:
        """The price of a model; None where the table has none.

        The provider's own entry goes before one for all; then the exact name before a pattern, and the longer pattern
        before the shorter. Where the provider is not known, an entry of any provider's does, if there is none for all.
        """
        asked = model, provider
        try:
            return self._found[asked]
        except KeyError:
            if len(self._found) >= _FOUND_MAX:  # names that a program makes up are no reason to grow for ever
                self._found.clear()
            price = self._found[asked] = self._search(model.lower(), provider.lower())
            return price

    def _search(self, model: str, provider: str) -> Price | None:
        whose = {provider, HOSTS.get(provider, "")} - {""}
        found = [
            (rank, name) for name in self if model and (rank := _rank(name.lower(), model, whose)) is not None
        ]
        return self[max(found)[1]] if found else None


def cost_of(usage: Usage, *tables: PriceTable) -> float | None:
    """What a call cost, in dollars; None where its model has no price, or a count that it takes is not known.

    The first table that has a price decides: a user who writes one means it.
    """
    prices = (table.find(usage.model, usage.provider) for table in tables)
    price = next((price for price in prices if price is not None), None)
    if price is None:
        return None
    cached = min(usage.cached_tokens or 0, usage.input_tokens or 0)
    fresh = None if usage.input_tokens is None else usage.input_tokens - cached
    parts = (
        (fresh, price.input),
        (cached, price.input if price.cached is None else price.cached),
        (usage.output_tokens, price.output),
    )
    if any(tokens is None and rate for tokens, rate in parts):
        return None
    return sum((tokens or 0) * rate for tokens, rate in parts) / _MILLION


def parse_prices(tree: object, source: str) -> PriceTable:
    """The table in a tree of JSON or TOML: names to prices, or these under ``models``. BadPrices names what is wrong."""
    entries = tree.get("models", tree) if isinstance(tree, Mapping) else tree
    if not isinstance(entries, Mapping):
        raise BadPrices(source=source, problem="is no table of names and prices")
    return PriceTable({str(name): _price(str(name), entry, source) for name, entry in entries.items()})


def _price(name: str, entry: object, source: str) -> Price:
    if isinstance(entry, Price):
        entry = entry._asdict()
    if not isinstance(entry, Mapping):
        raise _bad(source, name, f"is {entry!r}")
    unknown = sorted(set(entry) - set(Price._fields))
    if unknown:
        raise _bad(source, name, f"has {', '.join(map(repr, unknown))}")
    missing = [field for field in ("input", "output") if entry.get(field) is None]
    if missing:
        raise _bad(source, name, f"has no {' and no '.join(map(repr, missing))}")
    rates = {field: rate for field, rate in entry.items() if rate is not None}
    for field, rate in rates.items():
        if not _is_rate(rate):
            raise _bad(source, name, f"has {field!r}: {rate!r}")
    return Price(**{field: float(rate) for field, rate in rates.items()})


def _is_rate(value: Any) -> bool:
    return type(value) in {int, float} and isfinite(value) and value >= 0


def _bad(source: str, entry: str, problem: str) -> BadPrices:
    return BadPrices(source=source, problem=f"entry {entry!r} {problem}", entry=entry)


def _rank(name: str, model: str, whose: set[str]) -> tuple[int, bool, int] | None:
    """How well an entry fits; None if it does not: whose it is, whether it is exact, and how much of it is letters."""
    letters = sum(letter not in _WILD for letter in name)
    for whole in [f"{provider}/{model}" for provider in whose]:
        if _fits(name, whole):
            return 2, name == whole, letters
    if _fits(name, model):
        return 1, name == model, letters
    alone = name.partition("/")[2]
    # What a provider takes for everything says nothing of a call that may not be its own.
    if not whose and alone.strip("*?") and _fits(alone, model):
        return 0, alone == model, letters
    return None


def _fits(pattern: str, name: str) -> bool:
    # An exact name may hold brackets.
    return pattern == name or fnmatchcase(name, pattern)
