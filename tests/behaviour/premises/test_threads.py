"""Sources are parsed by several threads at once: Python 3.11's parser itself is not safe there.

Two tools of one answer, run side by side in threads, parsed their modules at the same time. Once in a few runs ``ast.parse`` raised
``SystemError: AST constructor recursion depth mismatch``, and a framework reported it to its model as a failed tool. A collection of
garbage in the middle of a parse lets another thread in: here each one does.
"""

import ast
import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.engine.premises.sources import _parse

ROOT = Path(__file__).parents[3] / "src" / "holdfast"


def let_others_in(*_: Any) -> None:
    time.sleep(0)


def test_sources_are_parsed_side_by_side() -> None:
    """Four threads that meet in the parser get their modules."""
    files = [str(path) for path in sorted((ROOT / "engine" / "premises").glob("*.py"))] * 4
    thresholds = gc.get_threshold()
    gc.callbacks.append(let_others_in)
    gc.set_threshold(100)
    try:
        with ThreadPoolExecutor(4) as pool:
            modules = list(pool.map(lambda file: _parse(file, file.removesuffix(".py")), files))
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(let_others_in)
    assert [module.file for module in modules] == files


def test_other_peoples_code_may_parse_at_the_same_time() -> None:
    """A template engine in another thread: it disturbs us, and we cannot make it take turns."""
    files = [str(path) for path in sorted((ROOT / "engine" / "premises").glob("*.py"))] * 4
    text = Path(files[0]).read_text(encoding="utf-8")
    thresholds, is_over = gc.get_threshold(), threading.Event()

    def disturb() -> None:
        while not is_over.is_set():
            with suppress(SystemError):
                ast.parse(text)

    gc.callbacks.append(let_others_in)
    gc.set_threshold(100)
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(disturb)
            try:
                modules = [_parse(file, file.removesuffix(".py")) for file in files]
            finally:
                is_over.set()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(let_others_in)
    assert [module.file for module in modules] == files
