"""Writes src/holdfast/api/run.py out of src/holdfast/api/async_run.py: the same facade, blocking. ``make facade``.

Both are ordinary typed modules, so an editor or a type checker sees no difference to two modules written by hand; but a
method is written, and changed, in one place. tests/architecture/test_parity.py fails where the two differ.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

API: Final = Path(__file__).parents[1] / "src" / "holdfast" / "api"
NOTE: Final = "\n\nWritten by scripts/sync_facade.py: change async_run.py, then ``make facade``.\n"
WORDS: Final = (
    ("AsyncIterable, Awaitable, ", ""),
    (" | AsyncIterable[C]", ""),
    ("import AWAITING", "import BLOCKING, drive"),
    ("AWAITING", "BLOCKING"),
    ("async def ", "def "),
    ("an ``async with``", "a ``with``"),
    ("async with", "with"),
    ("The function may be async. A plain function runs in a thread. ", ""),
    (" A plain function runs in a thread.", ""),
    (
        "from holdfast.engine.steps.plain_step import step_in_task\n",
        "from holdfast.engine.steps.plain_step import step_here\n",
    ),
)
STEP: Final = re.compile(r"drive\(step_in_task\(self\._held, ([^()]*)\)\)")
"""A step is the only call that has a way of its own in a thread that waits: the one without coroutines."""


def sync_of(source: str) -> str:
    """The blocking module, or class, that is the same as this awaiting one; not formatted."""
    text = _with_await_driven(_without_awaitables(source))
    for word, instead in WORDS:
        text = text.replace(word, instead)
    text = STEP.sub(r"step_here(self._held, \1)", text)
    return re.sub(r"\bAsync(?=[A-Z])", "", text)


def _without_awaitables(source: str) -> str:
    """Methods that are overloaded because a function may be awaitable, without that; the rest of an overload stays."""
    lines = source.splitlines(keepends=True)
    for cls in (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)):
        for awaitable, plain, whole in zip(cls.body, cls.body[1:], cls.body[2:], strict=False):
            if not isinstance(awaitable, ast.AsyncFunctionDef) or "Awaitable[" not in ast.unparse(
                awaitable.args
            ):
                continue
            assert isinstance(plain, ast.AsyncFunctionDef)
            assert isinstance(whole, ast.AsyncFunctionDef)
            _clear(lines, awaitable.decorator_list[0].lineno, plain.lineno - 1)
            end = _last(plain)
            lines[end - 1] = lines[end - 1].replace(" ...", "")
            _clear(lines, whole.lineno, whole.body[0].lineno - 1)
            end = _last(whole)
            lines[end - 1] = f"{lines[end - 1].rstrip()}  # type: ignore[no-any-return]\n"
    return "".join(lines)


def _last(node: ast.stmt | ast.expr) -> int:
    assert node.end_lineno is not None
    return node.end_lineno


def _clear(lines: list[str], first: int, last: int) -> None:
    lines[first - 1 : last] = [""] * (last - first + 1)


def _with_await_driven(source: str) -> str:
    """``await it(…)`` as ``drive(it(…))``."""
    lines = source.encode().splitlines(keepends=True)  # the columns of a syntax tree count bytes
    awaits = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Await)]
    for node in sorted(awaits, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        end, at = _last(node) - 1, node.end_col_offset
        lines[end] = lines[end][:at] + b")" + lines[end][at:]
        begin, at = node.lineno - 1, node.col_offset
        lines[begin] = lines[begin][:at] + b"drive(" + lines[begin][at:].removeprefix(b"await ")
    return b"".join(lines).decode()


def main() -> None:
    """Write it, formatted."""
    text = sync_of((API / "async_run.py").read_text(encoding="utf-8")).replace('"""\n', f'{NOTE}"""\n', 1)
    (API / "run.py").write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", str(API / "run.py")], check=True)  # noqa: S603 - our own tool


if __name__ == "__main__":
    main()
