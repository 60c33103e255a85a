"""Compares the source of a function and of what it uses with what was recorded, and shows the difference."""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.model.premises import Facts, Verdict

_NAMES_MAX: Final = 5
_DIFF_LINES_MAX: Final = 60


def judge_source(noted: Facts, found: Facts) -> tuple[Verdict, str]:
    """The verdict on a function, and what it names that changed."""
    if noted.get("version") != found.get("version"):
        return "unknown", "was recorded by another version of Holdfast, and cannot be compared"
    changed, new, gone = _uses(noted, found)
    parts = []
    if noted["hash"] != found["hash"]:
        parts.append(f"is other code now: {found['function']} in {found['file']}")
    if changed:
        parts.append(f"uses what has changed: {_list(changed)}")
    if new or gone:
        told = (("uses now", new), ("no longer uses", gone))
        parts.append(" and ".join(f"{what} {_list(names)}" for what, names in told if names))
    return ("changed", "; ".join(parts)) if parts else ("holds", "")


def diffs_of(noted: Facts, found: Facts) -> dict[str, tuple[str, ...]]:
    """The lines of a diff of each definition whose source was kept, by name: of the function itself first."""
    before, after = noted.get("texts", {}), found.get("texts", {})
    changed, new, gone = _uses(noted, found)
    own = [_own_name(found)] if after and noted["hash"] != found["hash"] else []
    # A text that is missing on one side was too long to be kept, unless the name itself is new or gone.
    known = [
        *(name for name in (*own, *changed) if name in before and name in after),
        *(name for name in gone if name in before),
        *(name for name in new if name in after),
    ]
    diffs = {name: _diff(before.get(name, ""), after.get(name, "")) for name in known}
    return {name: lines for name, lines in diffs.items() if lines}


def without_texts(facts: Facts | None) -> Facts | None:
    """Facts as they are compared, without the source that is kept to be shown."""
    return None if facts is None else {name: value for name, value in facts.items() if name != "texts"}


def _uses(noted: Facts, found: Facts) -> tuple[list[str], list[str], list[str]]:
    """What a function uses that has changed, is new, and is gone, by module and name."""
    before: Mapping[str, Any] = noted.get("uses", {})
    after: Mapping[str, Any] = found.get("uses", {})
    changed = [name for name in before if name in after and before[name] != after[name]]
    if noted.get("partial") or found.get("partial"):  # it was not followed to its end
        return sorted(changed), [], []
    new = [name for name in after if name not in before]
    gone = [name for name in before if name not in after]
    # The same definition in another module: it was moved.
    was = {(_short(name), before[name]) for name in gone}
    now = {(_short(name), after[name]) for name in new}
    return (
        sorted(changed),
        sorted(name for name in new if (_short(name), after[name]) not in was),
        sorted(name for name in gone if (_short(name), before[name]) not in now),
    )


def _short(name: str) -> str:
    return name.partition(".")[2]


def _own_name(facts: Facts) -> str:
    own = facts["function"].replace("<locals>.", "")
    return next((name for name in facts["texts"] if _short(name) == own), "")


def _list(names: list[str]) -> str:
    from holdfast.core.text.value_text import count

    more = len(names) - _NAMES_MAX
    return ", ".join(names[:_NAMES_MAX]) + (f" and {count(more, 'other')}" if more > 0 else "")


def _diff(before: str, after: str) -> tuple[str, ...]:
    from difflib import unified_diff

    from holdfast.core.text.value_text import count

    lines = list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1))[2:]
    lines = [line for line in lines if not line.startswith("@@")]
    more = len(lines) - _DIFF_LINES_MAX
    return (*lines[:_DIFF_LINES_MAX], *([f"({count(more, 'line')} more)"] if more > 0 else []))
