"""Draws what runs again after a kill, docs/images/replay.svg: ``python -m scripts.replay_picture``, in the root of the project.

The picture has a ground of its own and asks the reader's system for light or dark, so that it can be read on any page.
"""

from pathlib import Path
from typing import Final

FILE: Final = Path("docs/images/replay.svg")
_WIDTH: Final = 860
_ROW: Final = 34
_STYLE: Final = """
  .ground { fill: #ffffff; stroke: #d5dae0 } .text { fill: #1c2430 } .quiet { fill: #5b6673 }
  .runs { fill: #12808a } .again { fill: #dff1f2; stroke: #12808a } .answered { fill: url(#hatch); stroke: #8a94a0 }
  .state { fill: #efe7fb; stroke: #7a54b8 } .killed { fill: #c8321f } .onfull { fill: #ffffff } .stripe { stroke: #b9c1ca }
  text { font: 13px ui-sans-serif, system-ui, sans-serif } .code { font: 13px ui-monospace, monospace }
  .head { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #161b22; stroke: #38414c } .text { fill: #e6ebf0 } .quiet { fill: #9aa5b1 }
    .runs { fill: #1b929d } .again { fill: #123439; stroke: #2fa9b4 } .answered { stroke: #6b7682 }
    .state { fill: #2c2142; stroke: #a483dd } .killed { fill: #d9483a } .stripe { stroke: #46505c }
  }
"""
_KINDS: Final = {
    "runs": "runs",
    "again": "runs again",
    "answered": "answered from the journal",
    "state": "in the restored state",
    "killed": "kill -9",
}
_PROGRAM: Final = [
    ("basket = []", "runs", "again"),
    ('price = run.step("look", look)', "runs", "answered"),
    ("basket.append(price)", "runs", "again"),
    ("pay(basket)              # a once tool", "runs", "answered"),
    ('text = run.step("draft", draft)', "killed", "runs"),
    ("run.finish(text)", "", "runs"),
]
_LOOP: Final = [
    ("first attempt", ["runs"] * 7 + ["killed"] + [""] * 2),
    ("after the kill", ["state"] * 6 + ["answered"] + ["runs"] * 3),
]


def picture() -> str:
    """The picture, as the text of an SVG."""
    height = 60 + _ROW * len(_PROGRAM) + 78 + _ROW * len(_LOOP) + 66
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
                ' aria-label="What runs again after a kill">'
            ),
            f"<style>{_STYLE}</style>",
            (
                '<defs><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse"'
                ' patternTransform="rotate(45)"><line class="stripe" y2="7" stroke-width="3"/></pattern></defs>'
            ),
            f'<rect class="ground" x="1" y="1" width="{_WIDTH - 2}" height="{height - 2}" rx="10"/>',
            *_replay(60),
            *_restore(60 + _ROW * len(_PROGRAM) + 40),
            *_legend(height - 34),
            "</svg>\n",
        ]
    )


def _replay(top: int) -> list[str]:
    lines = [_text(24, top - 24, "Replay: the program runs from the top", "head text")]
    for x, title in ((390, "first attempt"), (620, "after the kill")):
        lines.append(_text(x, top - 24, title, "head text"))
    for number, (code, first, second) in enumerate(_PROGRAM):
        y = top + number * _ROW
        lines.append(_text(24, y + 16, code, "code text"))
        for x, kind in ((390, first), (620, second)):
            lines += _box(x, y, 216, kind, _KINDS.get(kind, ""))
    return lines


def _restore(top: int) -> list[str]:
    lines = [
        _text(
            24, top, "Restore: the loop goes on from its latest checkpoint, here that of turn 6", "head text"
        )
    ]
    for row, (title, kinds) in enumerate(_LOOP):
        y = top + 16 + row * _ROW
        lines.append(_text(24, y + 16, title, "text"))
        for turn, kind in enumerate(kinds):
            lines += _box(150 + turn * 69, y, 63, kind, "" if not kind else f"turn {turn + 1}")
    return lines


def _legend(y: int) -> list[str]:
    lines, x = [], 24
    for kind, name in _KINDS.items():
        lines += [f'<rect class="{kind}" x="{x}" y="{y}" width="16" height="14" rx="3"/>']
        lines.append(_text(x + 22, y + 12, name, "quiet"))
        x += 42 + 7 * len(name)
    return lines


def _box(x: int, y: int, width: int, kind: str, name: str) -> list[str]:
    if not kind:
        return []
    shade = "onfull" if kind in {"runs", "killed"} else "text"
    box = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="24" rx="4"/>'
    ground = f'<rect class="ground" x="{x + 8}" y="{y + 4}" width="{width - 16}" height="16" rx="3" stroke="none" style="stroke:none"/>'
    label = f'<text class="{shade}" x="{x + width // 2}" y="{y + 16}" text-anchor="middle">{name}</text>'
    return [box, *([ground] if kind == "answered" else []), label]


def _text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" xml:space="preserve">{text.replace("&", "&amp;")}</text>'


if __name__ == "__main__":
    FILE.write_text(picture(), encoding="utf-8")
