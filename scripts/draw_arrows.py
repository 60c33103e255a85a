"""Draw the arrows of ``docs/architecture.md`` from the imports: ``python -m scripts.draw_arrows``, in the root of the project.

The drawings are three blocks of the page; the table of history rules is made here, too. A test compares them with what this makes of the sources, so the page cannot
drift from the code.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.architecture.test_arrows import MODULES, OPEN_TO_ALL, ROOT, dotted, imported

from holdfast.core.lineage.history_rules import RULES, Rules

PAGE = ROOT / "docs" / "architecture.md"
FACE = "__init__"
WIDTH = 110
RULES_HEAD = "| what | fork | rewind | compaction | export, move, copy | handoff | listed before | known by |"


def arrows(modules: Iterable[Path] = MODULES) -> dict[str, dict[str, set[str]]]:
    """Which layer imports which; and which subject of ``core`` and of ``engine`` imports which: by the drawing's name."""
    layers: dict[str, set[str]] = defaultdict(set)
    subjects: dict[str, dict[str, set[str]]] = {"core": defaultdict(set), "engine": defaultdict(set)}
    for path in modules:
        layer, _, inside = dotted(path).partition(".")
        for _, target in imported(path):
            target_layer, _, target_inside = target.partition(".")
            if target_layer != layer and target_layer not in OPEN_TO_ALL:
                layers[layer or FACE].add(target_layer or FACE)
            subject, other = inside.partition(".")[0], target_inside.partition(".")[0]
            if layer == target_layer and layer in subjects and other and subject != other:
                subjects[layer][subject].add(other)
    return {
        "arrows between layers": layers,
        **{f"arrows between the subjects of {name}": found for name, found in subjects.items()},
    }


def drawn(found: dict[str, set[str]]) -> str:
    """A line for each that imports something, those that import most first; long lines are wrapped."""
    left = max(map(len, found))
    lines = []
    for name in sorted(found, key=lambda name: (-len(found[name]), name)):
        line = f"{name:{left}} →"
        for at, target in enumerate(sorted(found[name])):
            word = f" {target}" + ("," if at < len(found[name]) - 1 else "")
            if len(line) + len(word) > WIDTH:
                lines.append(line)
                line = " " * (left + 2)
            line += word
        lines.append(line)
    return "\n".join(lines) + "\n"


def redrawn(page: str) -> str:
    """The page with its drawings as the sources are."""
    for title, found in arrows().items():
        head = f"```text {title}\n"
        before, _, behind = page.partition(head)
        _, _, behind = behind.partition("```\n")
        page = f"{before}{head}{drawn(found)}```\n{behind}"
    return with_rules(page)


def with_rules(page: str) -> str:
    """The page with the table of what belongs to a place in history."""
    before, _, behind = page.partition(RULES_HEAD)
    _, _, behind = behind.partition("\n\n")
    lines = [f"| **{name}** | {' | '.join(rules)} |" for name, rules in RULES.items()]
    return (
        f"{before}{RULES_HEAD}\n|{'---|' * (len(Rules._fields) + 1)}\n" + "\n".join(lines) + f"\n\n{behind}"
    )


if __name__ == "__main__":
    PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
