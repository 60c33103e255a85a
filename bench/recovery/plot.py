"""``python -m bench.recovery.plot RESULTS PNG``: bars of what ``python -m bench.recovery --results`` wrote; needs matplotlib.

A program of its own, since the benchmark runs where Holdfast is developed, and matplotlib is among the peers.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

_PANELS: Final = {
    "calls_repeated": "finished calls asked again",
    "steps_lost": "steps lost per kill",
    "payments_doubled": "payments doubled",
    "tokens_again": "tokens paid twice",
}
"""Counts alone: times depend on what else the machine does."""
_OURS, _OTHERS = "#c2410c", "#9aa5b1"


def plot(told: dict[str, Any], target: Path) -> None:
    """A panel for each of four figures, a bar for each driver, Holdfast in colour."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = told["rows"][::-1]  # bars are drawn from below
    names = [row["driver"] for row in rows]
    colours = [_OURS if "Holdfast" in name else _OTHERS for name in names]
    figure, axes = plt.subplots(
        1, len(_PANELS), figsize=(11, 0.3 * len(rows) + 1.2), sharey=True, layout="constrained"
    )
    for axis, (name, title) in zip(axes, _PANELS.items(), strict=True):
        values = [row[name] for row in rows]
        bars = axis.barh(names, values, color=colours)
        axis.bar_label(bars, [f"{value:,.1f}" if name == "steps_lost" else f"{value:,.0f}" for value in values], padding=3, fontsize=8)  # fmt: skip
        axis.set_title(title, fontsize=10)
        axis.set_xlim(0, max(values) * 1.3 or 1)
        axis.tick_params(axis="both", length=0, labelsize=9)
        axis.set_xticks([])
        axis.spines[:].set_visible(False)
    for label, colour in zip(axes[0].get_yticklabels(), colours, strict=True):
        label.set_color(_OURS if colour == _OURS else "black")
    figure.suptitle(
        f"{rows[0]['kills']} kills of the same task, {told['date']}: shorter is better", fontsize=11
    )
    figure.savefig(target, dpi=90, facecolor="white")


if __name__ == "__main__":
    plot(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
