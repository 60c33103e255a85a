"""The source files as syntax trees, each parsed once in a test process: a dozen architecture tests walk all of them."""

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    # A million nodes that all stay: to look through them for garbage took three times as long as to make them.
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.freeze()
        gc.enable()


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of the tree, in the order of ``ast.walk``."""
    return tuple(ast.walk(tree_of(path)))
