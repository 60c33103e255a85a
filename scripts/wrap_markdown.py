"""Wrap the prose of the Markdown pages at 110 characters: ``python -m scripts.wrap_markdown``, in the root of the project.

Only paragraphs and list items with a longer line are wrapped again. Blocks, tables and headings stay as they are, and so do
pieces of code and links inside a line.
"""

import re
import sys
import textwrap
from pathlib import Path

WIDTH = 110
ROOT = Path(__file__).parents[1]
WRITTEN = sorted(
    str(page.relative_to(ROOT))
    for page in (*ROOT.glob("[CRS]*.md"), ROOT / "examples" / "README.md", *(ROOT / "docs").rglob("*.md"))
)
"""README, CONTRIBUTING, SECURITY, the changelog, the list of examples, and every page."""
EXEMPT = {"docs/history.md", "docs/testing.md"}
"""Pages that do not keep to width and words yet."""
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")
_WHOLE = re.compile(r"`[^`]*`|\]\([^)]*\)")
_GLUE = "\0"


def wrapped(page: str) -> str:
    """The page with no line of prose longer than the width, as far as its words allow."""
    lines: list[str] = []
    paragraph: list[str] = []
    is_block = False
    for line in page.splitlines():
        is_fence = line.strip().startswith("```")
        is_block ^= is_fence
        is_prose = not (is_fence or is_block or not line.strip() or line.startswith(("|", "#")))
        if not is_prose or _ITEM.match(line):
            lines += _refilled(paragraph)
            paragraph = []
        if is_prose:
            paragraph.append(line)
        else:
            lines.append(line)
    return "\n".join([*lines, *_refilled(paragraph)]) + "\n"


def _refilled(paragraph: list[str]) -> list[str]:
    if all(len(line) <= WIDTH for line in paragraph):
        return paragraph
    item = _ITEM.match(paragraph[0])
    indent = " " * (len(item[0]) if item else len(paragraph[0]) - len(paragraph[0].lstrip()))
    text = " ".join(line.strip() for line in paragraph)
    first = paragraph[0][: len(indent)]
    glued = _WHOLE.sub(lambda found: found[0].replace(" ", _GLUE), text.removeprefix(first.strip()).strip())
    filled = textwrap.wrap(
        glued,
        WIDTH,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_GLUE, " ") for line in filled]


if __name__ == "__main__":
    for name in sys.argv[1:] or [page for page in WRITTEN if page not in EXEMPT]:
        path = Path(name)
        path.write_text(wrapped(path.read_text(encoding="utf-8")), encoding="utf-8")
