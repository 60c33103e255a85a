"""Write docs/guarantees.md of ``scripts/promises.py`` and of docs/results: ``make guarantees``. Says how old each result is."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from scripts.promises import PROMISES, Promise, Trial
from scripts.wrap_markdown import wrapped
from tests.support.results import ROOT, Result, age, load_all

PAGE: Final = ROOT / "docs" / "guarantees.md"
_HEADLINES: Final = 4
"""How many counts a trial's row shows; the table of the last runs has all of them."""

_INTRODUCTION: Final = """# What is promised, and how it is tested

`make guarantees` writes this page out of `scripts/promises.py` and `docs/results`, where each target keeps the
counts that it printed; a test fails when they differ. Every test says in its docstring which bug was planted to see
it fail. What to do when a store is damaged: [damaged stores](damaged-stores.md).
"""


def page(results: Mapping[str, Result]) -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    parts += [_section(number, promise, results) for number, promise in enumerate(PROMISES, 1)]
    parts += [_last_runs(results), *(_findings(result) for result in results.values() if result.rows)]
    return wrapped("\n".join(parts))


def _section(number: int, promise: Promise, results: Mapping[str, Result]) -> str:
    rows = [(_link(trial.where), trial.how, _last_run(trial, results)) for trial in promise.trials]
    missing = "\n".join(f"- {text}" for text in promise.not_covered)
    return (
        f"## {number}. {promise.title}\n\n{promise.says}\n\n"
        + _table(("tried by", "how", "last run"), rows)
        + f"\nNot covered:\n\n{missing}\n"
    )


def _link(where: str) -> str:
    return f"`{where}`" if where.startswith("make ") else f"[{where}](../{where})"


def _last_run(trial: Trial, results: Mapping[str, Result]) -> str:
    """The first counts of each part of a target; or how many tests of a folder passed."""
    if trial.where.startswith("make "):
        of_it = [one for one in results.values() if one.target == trial.where.removeprefix("make ")]
        told = (f"{_verdict(one)}{_counted(_flat(one.counts)[:_HEADLINES])} ({one.date})" for one in of_it)
        return "; ".join(told) or "no result is kept"
    suite = results.get("test")
    folders = suite.counts.get("by folder", {}) if suite else {}
    passed = sum(
        count
        for folder, count in folders.items()
        if folder == trial.where or folder.startswith(f"{trial.where}/")
    )
    return f"{passed:,} tests in `make test`" if passed else "in `make test`"


def _last_runs(results: Mapping[str, Result]) -> str:
    rows = [
        (
            f"`make {one.target}`",
            f"`{one.command}`",
            f"`{one.commit}`",
            one.date,
            f"{one.seconds:,.0f} s",
            _verdict(one) + _counted(_flat(one.counts)),
        )
        for one in results.values()
    ]
    return "## Last runs\n\nA `+` behind a commit: files had changed since.\n\n" + _table(
        ("target", "command", "commit", "date", "took", "counts"), rows
    )


def _findings(result: Result) -> str:
    """The table of a result that has one: the mutations, and which test notices each."""
    heads = tuple(result.rows[0])
    return f"## Rows of `make {result.target}`\n\n" + _table(
        heads, [tuple(row[head] for head in heads) for row in result.rows]
    )


def _verdict(result: Result) -> str:
    return "" if result.passed else "**failed**: "


def _flat(counts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Names and numbers; those of a group behind its name."""
    flat: list[tuple[str, Any]] = []
    for name, value in counts.items():
        if isinstance(value, Mapping):
            flat += [(f"{name} {one}", number) for one, number in _flat(value)]
        else:
            flat.append((name, value))
    return flat


def _counted(counts: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(
        f"{value:,} {name}" if isinstance(value, int | float) else f"{name} {value}" for name, value in counts
    )


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    def lines() -> Iterator[str]:
        yield f"| {' | '.join(heads)} |"
        yield "|---" * len(heads) + "|"
        for row in rows:
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"

    return "\n".join(lines()) + "\n"


def main() -> None:
    results = load_all()
    PAGE.write_text(page(results), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(PROMISES)} promises, {len(results)} results")
    for name, result in results.items():
        commits = age(result)
        old = "of a commit that is not here" if commits is None else f"{commits} commits behind"
        print(f"  {name}: {result.date}, {old}{'' if result.passed else ', FAILED'}")


if __name__ == "__main__":
    main()
