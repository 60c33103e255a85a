"""Puts the sources of the site together: ``python -m scripts.site.stage DIRECTORY``, in the root of the project.

The pages in docs/ are written for whoever reads them in the repository: plain Markdown, with links to files. Here they are
copied, and the pages that are made from the code are added. Links that lead out of the site become text. ``make docs`` then
lets Sphinx read the directory.
"""

import ast
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final

from scripts.site.api_pages import PAGES as API
from scripts.site.api_pages import api_pages
from scripts.site.command_pages import command_pages
from scripts.site.error_pages import PAGES as ERRORS
from scripts.site.error_pages import error_pages, index_page
from scripts.site.http_page import http_page
from scripts.site.navigation import PARTS, UNDER

ROOT: Final = Path(__file__).parents[2]
ELSEWHERE: Final = {
    "README.md": "index.md",
    "SECURITY.md": "threat-model.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples": "examples/index.md",
    "examples/README.md": "examples/index.md",
    "docs/adr": "adr/index.md",
}
"""Pages of the site that are not in docs/, and what links to folders lead to."""
_LINK: Final = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
_PICTURE: Final = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)-light\.png\)")
_MADE_PAGE: Final = re.compile(r"`reference/((?:api/)?\w+)`")
_FENCE: Final = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


class Site:
    """The pages of the site by their place, each with the place of its source in the repository."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, str]] = {}
        self.files: dict[str, Path] = {}
        self._moved: dict[str, str] = {}

    def collect(self) -> None:
        """Read every page, and make those that come from the code."""
        for path in sorted((ROOT / "docs").rglob("*")):
            place = path.relative_to(ROOT / "docs").as_posix()
            if path.suffix == ".md":
                self._add(place, f"docs/{place}", path.read_text(encoding="utf-8"))
            elif path.is_file() and "__pycache__" not in place:
                self.files[place] = path
        for source, place in ELSEWHERE.items():
            if (ROOT / source).suffix == ".md" and source != "README.md":
                text = (ROOT / source).read_text(encoding="utf-8")
                self._add(
                    place,
                    source,
                    text.replace("# Security\n", "# Threat model\n", 1) if source == "SECURITY.md" else text,
                )
        self._add_examples()
        self._add_commands()
        self._add_reference()
        self._add(
            "adr/index.md", "docs/adr/index.md", "# Decisions\n\nWhat was decided, why, and what it costs.\n"
        )

    def _add(self, place: str, source: str, text: str) -> None:
        self.pages[place] = (source, text)

    def _add_examples(self) -> None:
        for path in sorted((ROOT / "examples").rglob("*.py")):
            source = path.relative_to(ROOT).as_posix()
            code = path.read_text(encoding="utf-8")
            about = (ast.get_docstring(ast.parse(code)) or "").partition("\n")[0]
            page = f"# {path.name}\n\n{about.replace('``', '`')}\n\n```python\n{code}```\n"
            self._add(f"{source.removesuffix('.py')}.md", source, page)
        for path in sorted((ROOT / "examples").glob("*.ipynb")):
            source = path.relative_to(ROOT).as_posix()
            self._add(f"{source.removesuffix('.ipynb')}.md", source, _notebook(path))

    def _add_commands(self) -> None:
        source, text = self.pages["commands.md"]
        overview, commands = command_pages(text)
        self.pages["commands.md"] = (source, overview)
        for name, page in commands.items():
            self._add(f"commands/{name}.md", source, page)
            headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page), flags=re.MULTILINE)
            self._moved |= {f"commands.md#{slug(one)}": f"commands/{name}.md#{slug(one)}" for one in headings}
            self._moved[f"commands.md#holdfast-{name}"] = f"commands/{name}.md"

    def _add_reference(self) -> None:
        for name, page in api_pages().items():
            self._add(f"reference/api/{name}.md", f"docs/reference/api/{name}.md", page)
        for name, page in error_pages().items():
            self._add(f"reference/errors/{name}.md", f"docs/reference/errors/{name}.md", page)
        self._add("reference/errors.md", "docs/reference/errors.md", index_page())
        self._add("reference/http-api.md", "docs/reference/http-api.md", http_page())

    def pictured(self, place: str, text: str) -> str:
        """A picture that there is in light and dark is shown as the reader has the site."""

        def both(found: re.Match[str]) -> str:
            alt, name = " ".join(found[1].split()), found[2]
            dark = os.path.normpath(PurePosixPath(place).parent / f"{name}-dark.png")
            if dark not in self.files:
                return found[0]
            shades = [
                f":::{{image}} {name}-{one}.png\n:class: only-{one}\n:alt: {alt}\n:::"
                for one in ("light", "dark")
            ]
            return "\n".join(shades)

        return _PICTURE.sub(both, text)

    def write(self, target: Path) -> None:
        """Write all of it; what was there goes."""
        shutil.rmtree(target, ignore_errors=True)
        for place, path in self.files.items():
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / place)
        for place, (source, text) in self.pages.items():
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            made = self.pictured(place, self.linked(place, source, text))
            (target / place).write_text(made + self._contents(place), encoding="utf-8")

    def linked(self, place: str, source: str, text: str) -> str:
        """The text with its links as the site has them. Code stays as it is."""
        if place == "reference/index.md":  # its pages are made from the code: only the site has them
            text = _MADE_PAGE.sub(r"[`reference/\1`](\1.md)", text)
        to_place: Callable[[re.Match[str]], str] = lambda found: self._link(place, source, found[1])  # noqa: E731
        pieces = _FENCE.split(text)
        return "".join(piece if _FENCE.fullmatch(piece) else _links_in(piece, to_place) for piece in pieces)

    def _link(self, place: str, source: str, link: str) -> str:
        """Where a link of this page leads in the site; empty if it leads out of it."""
        file, _, anchor = link.partition("#")
        if not file:
            moved = self._moved.get(f"commands.md#{anchor}") if source == "docs/commands.md" else None
            return _relative(moved, place) if moved else link
        wanted = os.path.normpath(PurePosixPath(source).parent / file)
        found = ELSEWHERE.get(wanted) or wanted.removeprefix("docs/")
        if wanted == "README.md":
            return _relative("index.md", place)
        if wanted.startswith("examples/") and wanted.endswith((".py", ".ipynb")):
            return _relative(f"{PurePosixPath(wanted).with_suffix('.md')}", place)
        if found not in self.pages and (not wanted.startswith("docs/") or found not in self.files):
            return ""
        return _relative(
            self._moved.get(f"{found}#{anchor}") or found + (f"#{anchor}" if anchor else ""), place
        )

    def _contents(self, place: str) -> str:
        """What is under a page, for the navigation."""
        name = place.removesuffix(".md")
        if name == "index":
            return "".join(_toctree(pages, caption=part) for part, pages in PARTS.items())
        if name in UNDER:
            pages = sorted(one for one in self.pages if one.startswith(f"{UNDER[name]}/") and one != place)
            return _toctree([f"/{one.removesuffix('.md')}" for one in pages], visible=name == "adr/index")
        under = {
            "reference/index": [f"/reference/api/{one}" for one in API],
            "reference/errors": [f"/reference/errors/{one}" for one in ERRORS],
            "commands": [f"/{one.removesuffix('.md')}" for one in self.pages if one.startswith("commands/")],
        }
        return _toctree(under[name]) if name in under else ""


def _notebook(path: Path) -> str:
    """The cells of a notebook, as a page: its texts, and its programs."""
    cells = [
        (one["cell_type"], "".join(one["source"])) for one in json.loads(path.read_text("utf-8"))["cells"]
    ]
    return (
        "\n\n".join(text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in cells) + "\n"
    )


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _links_in(text: str, to_place: Callable[[re.Match[str]], str]) -> str:
    def rewritten(found: re.Match[str]) -> str:
        place = to_place(found)
        return f"]({place})" if place else "]()"

    made = _LINK.sub(rewritten, text)
    return re.sub(r"(?<!!)\[([^\[\]]*(?:\[[^\]]*\][^\[\]]*)*)\]\(\)", r"\1", made)


def _relative(wanted: str, place: str) -> str:
    file, _, anchor = wanted.partition("#")
    path = os.path.relpath(file, PurePosixPath(place).parent)
    return path + (f"#{anchor}" if anchor else "")


def _toctree(pages: list[str] | tuple[str, ...], *, caption: str = "", visible: bool = False) -> str:
    options = [f":caption: {caption}"] if caption else []
    options.append(":titlesonly:" if visible else ":hidden:")
    listed = "\n".join(one if one.startswith("/") else f"/{one}" for one in pages)
    return "\n\n```{toctree}\n" + "\n".join(options) + "\n\n" + listed + "\n```\n"


if __name__ == "__main__":
    site = Site()
    site.collect()
    site.write(Path(sys.argv[1]))
    print(f"{len(site.pages)} pages in {sys.argv[1]}")
