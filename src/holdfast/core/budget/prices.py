"""Prices of model tokens, from a table that is data.

A table maps names of models to prices in US dollars per million tokens. A name may be a pattern
(``gpt-4o-20??-??-??``) and may begin with a provider or its host (``openai/gpt-4o``). The invariant: a price
that is not in the table is unknown, never zero.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

from holdfast.errors import BadPrices
from holdfast.model.named_tuple import NamedTuple
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
"""Names of providers by host. A call knows the host; price tables use the name."""


class Price(NamedTuple):
    """Dollars per million tokens. ``cached`` is for cached input; None means the price of other input."""

    input: float
    output: float
    cached: float | None = None


class PriceTable(dict[str, Price]):
    """Prices by name.

    A table does not change once it is made, because it remembers what it found for a model.
    """

    __slots__ = ("_found",)

    def __init__(self, entries: Mapping[str, Price] = MappingProxyType({})) -> None:
        super().__init__(entries)
        self._found: dict[tuple[str, str], Price | None] = {}

    def find(self, model: str, provider: str) -> Price | None:
        """The price of a model; None if the table has none.

        An entry of the provider precedes one for all providers; then the exact name precedes a pattern, and a
        longer pattern a shorter one. If the provider is unknown and no entry is for all, any provider's entry
        counts.
        """
        asked = model, provider
        try:
            return self._found[asked]
        except KeyError:
            # A program may make up model names: the memory of found prices must not grow without a bound.
            if len(self._found) >= _FOUND_MAX:
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
    """The cost of a call in dollars; None if its model has no price, or if a token count it needs is unknown.

    The first table with a price decides, so a user's table overrides the shipped one.
    """
    for table in tables:
        price = table.find(usage.model, usage.provider)
        if price is not None:
            return _cost(usage, price)
    return None


def _cost(usage: Usage, price: Price) -> float | None:
    # Cached tokens are part of the input tokens here. A provider that reports more of them must not make it
    # negative.
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
    """The table in a tree of JSON or TOML: names to prices, maybe under ``models``. Raises BadPrices."""
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
    """How well an entry fits: its provider, whether it is exact, how much of it is letters.

    None if it does not.
    """
    letters = sum(letter not in _WILD for letter in name)
    for whole in [f"{provider}/{model}" for provider in whose]:
        if _fits(name, whole):
            return 2, name == whole, letters
    if _fits(name, model):
        return 1, name == model, letters
    alone = name.partition("/")[2]
    # A pattern such as ``openai/*`` says nothing about a call of an unknown provider.
    if not whose and alone.strip("*?") and _fits(alone, model):
        return 0, alone == model, letters
    return None


def _fits(pattern: str, name: str) -> bool:
    # An exact name may contain brackets, which a pattern would read as a set of characters.
    return pattern == name or fnmatchcase(name, pattern)
