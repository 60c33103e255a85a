"""``make kills``: kill agents, and print what it cost. Exits 1 if a finished call was lost or the loss is above its bar."""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from tests.support import results

from bench.kills.director import Calm, Plan, calm_run, killed_run
from bench.kills.witnesses import Loss, Verdict

BAR: Final = 0.01
"""The part of all streamed tokens that may be lost."""
_NOTHING_OF: Final = ("finished_calls_lost", "effects_twice", "effects_missing", "answers_changed")
_KEPT: Final = ("kills", "runs", *_NOTHING_OF, "streamed_tokens", "lost_tokens")


def main() -> int:
    options, began = _options(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-kills-") as place:
        print("a calm run …", file=sys.stderr, flush=True)
        calm = calm_run(Path(place) / "calm", options.calls)
        verdicts = list(_verdicts(Path(place), calm, options))
    facts = summary(verdicts, options)
    if options.json:
        json.dump(facts, sys.stdout, indent=2)
        print()
    else:
        _show(facts)
    counts = {name.replace("_", " "): facts[name] for name in _KEPT} | {
        "part lost": f"{facts['lost_part']:.2%}"
    }
    results.save(options.results, counts, seconds=time.monotonic() - began, passed=facts["passes"])
    return 0 if facts["passes"] else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="in all")
    parser.add_argument("--per-run", type=int, default=2, help="kills of one run")
    parser.add_argument("--calls", type=int, default=40, help="model calls of one run")
    parser.add_argument("--rate", type=float, default=100.0, help="tokens a second of one stream")
    parser.add_argument("--parallel", type=int, default=16, help="runs at a time: they mostly wait")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="all figures, and every kill, as JSON")
    results.add_option(parser)
    return parser.parse_args()


def _verdicts(place: Path, calm: Calm, options: argparse.Namespace) -> Iterable[Verdict]:
    runs = -(-options.kills // options.per_run)
    plans = [
        Plan(
            place / f"run-{number}",
            options.calls,
            min(options.per_run, options.kills - number * options.per_run),
            options.seed * 10_000 + number,
            1000 / options.rate,
        )
        for number in range(runs)
    ]
    with ThreadPoolExecutor(options.parallel) as pool:
        for number, verdict in enumerate(pool.map(lambda plan: killed_run(plan, calm), plans), 1):
            print(f"\r{number} of {runs} runs", end="", file=sys.stderr, flush=True)
            yield verdict
    print(file=sys.stderr)


def summary(verdicts: list[Verdict], options: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    losses = [loss for verdict in verdicts for loss in verdict.losses]
    struck = [loss for loss in losses if loss.kind != "between"]
    streamed = sum(verdict.streamed_tokens for verdict in verdicts)
    needed = sum(verdict.needed_tokens for verdict in verdicts)
    lost = sum(loss.tokens for loss in losses)
    nothing = {name: sum(getattr(verdict, name) for verdict in verdicts) for name in _NOTHING_OF}
    part = lost / streamed
    return {
        "kills": len(losses),
        "runs": len(verdicts),
        "calls_per_run": options.calls,
        "tokens_per_second": options.rate,
        "seed": options.seed,
        "in_mid_stream": sum(loss.kind == "stream" for loss in losses),
        "in_a_tool_call": sum(loss.kind == "call" for loss in losses),
        "between": len(losses) - len(struck),
        **nothing,
        "streamed_tokens": streamed,
        "lost_tokens": lost,
        "lost_part": part,
        "bar": BAR,
        "sent_again_tokens": streamed - needed,
        "sent_to_the_dead_tokens": sum(loss.late_tokens for loss in losses),
        "lost_tokens_per_kill": _spread([loss.tokens for loss in losses]),
        "lost_ms_per_kill": _spread([loss.lost_ms for loss in losses]),
        "passes": part <= BAR and not any(nothing.values()),
        "losses": [_told(loss) for loss in losses],
    }


def _spread(values: list[float] | list[int]) -> dict[str, float]:
    ordered = sorted(values)

    def at(part: float) -> float:
        return round(float(ordered[min(len(ordered) - 1, int(part * len(ordered)))]), 1)

    mean = round(statistics.fmean(ordered), 1)
    return {"mean": mean, "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1)}


def _told(loss: Loss) -> dict[str, Any]:
    return {**loss._asdict(), "lost_ms": round(loss.lost_ms, 1)}


def _show(facts: dict[str, Any]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 100)
    table = Table("what", "measured", "bar", "")

    def row(what: str, measured: str, bar: str = "", passes: bool | None = None) -> None:
        verdict = "" if passes is None else "[green]pass[/]" if passes else "[red]miss[/]"
        table.add_row(what, measured, bar, verdict)

    for name in _NOTHING_OF:
        row(name.replace("_", " "), str(facts[name]), "0", facts[name] == 0)
    lost, streamed = facts["lost_tokens"], facts["streamed_tokens"]
    row(
        "streamed tokens lost",
        f"{facts['lost_part']:.2%}  ({lost:,} of {streamed:,})",
        f"≤ {BAR:.0%}",
        facts["lost_part"] <= BAR,
    )
    row(
        "streamed tokens sent again",
        f"{facts['sent_again_tokens']:,}, {facts['sent_to_the_dead_tokens']:,} of them sent after the kill",
    )
    for name, unit in (("tokens", ""), ("ms", " ms")):
        spread = facts[f"lost_{name}_per_kill"]
        row(f"lost {name} per kill", "  ".join(f"{key} {value:.0f}" for key, value in spread.items()) + unit)
    where = f"{facts['in_mid_stream']} in mid-stream, {facts['in_a_tool_call']} in a tool call, {facts['between']} between"
    console.print(table)
    console.print(
        f"{facts['kills']} kills of {facts['runs']} runs of {facts['calls_per_run']} calls "
        f"at {facts['tokens_per_second']:g} tokens/s: {where}"
    )


if __name__ == "__main__":
    sys.exit(main())
