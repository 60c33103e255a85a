"""Prices: which entry is a model's, what a call costs by it, and what a table must look like."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.budget import prices
from holdfast.core.budget.prices import Price, PriceTable, cost_of, parse_prices
from holdfast.engine.budget.price_tables import own_prices, shipped_prices
from holdfast.model.usage import Usage

TABLE = PriceTable(
    {
        "gpt-4o*": Price(2.5, 10),
        "gpt-4o-mini*": Price(0.15, 0.6),
        "gpt-4o-mini-2024-07-18": Price(1, 1),
        "azure/gpt-4*": Price(3, 12),
        "openai/o3": Price(2, 8),
        "my.azure.com/*": Price(4, 4),
        "strange[1]": Price(7, 7),
    }
)


@pytest.mark.parametrize(
    ("model", "provider", "entry"),
    [
        ("gpt-4o", "", "gpt-4o*"),
        ("gpt-4o-mini", "", "gpt-4o-mini*"),
        ("gpt-4o-mini-2025-01-01", "openai", "gpt-4o-mini*"),
        ("GPT-4o-Mini", "openai", "gpt-4o-mini*"),
        ("gpt-4o-mini-2024-07-18", "openai", "gpt-4o-mini-2024-07-18"),
        ("gpt-4o-mini-2024-07-18", "azure", "azure/gpt-4*"),
        ("o3", "openai", "openai/o3"),
        ("o3", "", "openai/o3"),
        ("o3", "api.openai.com", "openai/o3"),
        ("gpt-4o", "my.azure.com", "my.azure.com/*"),
        ("strange[1]", "", "strange[1]"),
    ],
)
def test_the_entry_of_a_model(model: str, provider: str, entry: str) -> None:
    """The provider's own, then the exact name, then the longest pattern; where the provider is not known, the name decides."""
    assert TABLE.find(model, provider) == TABLE[entry]


@pytest.mark.parametrize(
    ("model", "provider"), [("o3", "127.0.0.1:8080"), ("o3-mini", "openai"), ("", ""), ("o4", "")]
)
def test_what_the_table_does_not_say_is_not_known(model: str, provider: str) -> None:
    """Another provider's price is not this one's: a local server may call its model anything."""
    assert TABLE.find(model, provider) is None


def test_a_model_is_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are compared with a name when it is first met, and never again, found or not: each model call asks."""
    compared: list[str] = []

    def counted(name: str, pattern: str) -> bool:
        compared.append(pattern)
        return fnmatchcase(name, pattern)

    monkeypatch.setattr(prices, "fnmatchcase", counted)
    table = PriceTable({f"model-{number}*": Price(1, 1) for number in range(100)})
    assert table.find("model-7", "openai") == Price(1, 1)
    assert table.find("other", "openai") is None
    assert compared
    compared.clear()
    for _ in range(3):
        assert table.find("model-7", "openai") == Price(1, 1)
        assert table.find("other", "openai") is None
    assert compared == []


def test_names_that_are_made_up_do_not_pile_up() -> None:
    """What was searched for is remembered for a bounded number of names."""
    table = PriceTable({"model*": Price(1, 1)})
    for number in range(2_500):
        assert table.find(f"model-{number}", "") == Price(1, 1)
    assert len(table._found) <= 1_000


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage("m", "", 1_000_000, 0), 2.0),
        (Usage("m", "", 1_000_000, 500_000), 6.0),
        (Usage("m", "", 1_000_000, 0, cached_tokens=400_000), 1.4),
        (Usage("m", "", 100, 0, cached_tokens=400), 100 * 0.5 / 1e6),
        (Usage("m", "", None, 10), None),
        (Usage("m", "", 10, None), None),
        (Usage("other", "", 10, 10), None),
        (Usage("embed", "", 1_000_000, None), 0.02),
        (Usage("free", "", None, None), 0.0),
        (Usage("m", "", 0, 0), 0.0),
    ],
)
def test_what_a_call_costs(usage: Usage, cost: float | None) -> None:
    """A count matters where it has a price. Planted: a missing count taken as zero; cached tokens paid for twice."""
    table = PriceTable({"m": Price(2, 8, cached=0.5), "embed": Price(0.02, 0), "free": Price(0, 0)})
    found = cost_of(usage, table)
    assert found is None if cost is None else found == pytest.approx(cost, abs=1e-12)


def test_cached_input_without_a_price_of_its_own_costs_as_the_rest() -> None:
    """The most that it can be."""
    assert cost_of(Usage("m", "", 1_000_000, 0, 1_000_000), PriceTable({"m": Price(2, 8)})) == 2.0


def test_whoever_writes_a_table_means_it() -> None:
    """An entry of one's own goes before any that is shipped, also before the provider's. Planted: one merged table."""
    usage = Usage("o3", "openai", 1_000_000, 0)
    assert cost_of(usage, PriceTable({"o*": Price(1, 1)}), TABLE) == 1.0
    assert cost_of(usage, PriceTable(), TABLE) == 2.0


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ([], "is no table"),
        ({"m": 3}, "entry 'm' is 3"),
        ({"m": {"input": 1}}, "entry 'm' has no 'output'"),
        ({"m": {}}, "entry 'm' has no 'input' and no 'output'"),
        ({"m": {"input": "1", "output": 2}}, "entry 'm' has 'input': '1'"),
        ({"m": {"input": True, "output": 2}}, "entry 'm' has 'input': True"),
        ({"m": {"input": -1, "output": 2}}, "entry 'm' has 'input': -1"),
        ({"m": {"input": float("nan"), "output": 2}}, "entry 'm' has 'input': nan"),
        ({"m": {"input": 1, "output": 2, "ouptut": 3}}, "entry 'm' has 'ouptut'"),
        ({"models": 3}, "is no table"),
    ],
)
def test_a_table_that_is_none_is_refused(tree: Any, problem: str) -> None:
    """The error names the file and the entry."""
    with pytest.raises(holdfast.BadPrices, match=r"^price table mine\.json: ") as refused:
        parse_prices(tree, "mine.json")
    assert problem in str(refused.value)
    assert "dollars per million tokens" in refused.value.hint


def test_tables_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON or TOML; what ``prices=`` says goes before what ``HOLDFAST_PRICES`` names."""
    monkeypatch.delenv("HOLDFAST_PRICES", raising=False)
    assert own_prices(None) is None
    toml = tmp_path / "mine.toml"
    toml.write_text('["smollm2*"]\ninput = 0\noutput = 0\n\n["big"]\ninput = 1.5\noutput = 3\ncached = 0.1\n')
    assert own_prices(toml) == {"smollm2*": Price(0, 0), "big": Price(1.5, 3, 0.1)}
    json = tmp_path / "mine.json"
    json.write_text(
        '{"as_of": "2026-01-01", "models": {"big": {"input": 1, "output": 2}, "x": {"input": 1, "output": 1}}}'
    )
    monkeypatch.setenv("HOLDFAST_PRICES", str(json))
    assert own_prices(None) == {"big": Price(1, 2), "x": Price(1, 1)}
    assert own_prices({"big": {"input": 9, "output": 9, "cached": None}}) == {
        "big": Price(9, 9),
        "x": Price(1, 1),
    }


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [("a.json", "{", "is not JSON"), ("a.toml", "= 3", "is not TOML"), ("a.toml", b"\xff", "is not TOML")],
)
def test_a_file_that_cannot_be_parsed(tmp_path: Path, name: str, content: str | bytes, problem: str) -> None:
    """It is named, with what is wrong."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(holdfast.BadPrices, match=problem) as refused:
        own_prices(path)
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The path is named, with the reason."""
    with pytest.raises(holdfast.BadPrices, match=r"nothing\.json: cannot be read: No such file"):
        own_prices(tmp_path / "nothing.json")


def test_the_shipped_table_prices_dated_names_and_nothing_else() -> None:
    """Variants that cost otherwise (audio, search, another size) have no price rather than a wrong one."""
    table = shipped_prices()
    assert table.find("gpt-4o-mini-2024-07-18", "openai") == Price(0.15, 0.6, 0.075)
    assert table.find("gpt-4o-2024-08-06", "openai") == Price(2.5, 10, 1.25)
    assert table.find("gpt-4o-2024-05-13", "openai") == Price(5, 15)
    assert table.find("claude-sonnet-4-5-20250929", "anthropic") == Price(3, 15, 0.3)
    assert table.find("claude-sonnet-4-20250514", "anthropic") == Price(3, 15, 0.3)
    for model in (
        "gpt-4o-mini-audio-preview",
        "gpt-4o-search-preview",
        "gpt-5-pro",
        "gpt-4o-mini-tts",
        "smollm2",
    ):
        assert table.find(model, "openai") is None, model
    assert table.find("gpt-4o-mini", "127.0.0.1:8080") is None
    for name, price in table.items():
        assert "/" in name
        assert price.cached is None or price.cached <= price.input
