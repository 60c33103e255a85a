"""The layers, the subjects inside them, and the arrows between both: an import that points back fails here."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import nodes_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "holdfast"
MODULES = sorted(PACKAGE.rglob("*.py"))

OPEN_TO_ALL = {"errors", "limits", "model", "_version"}
LAYERS: dict[str, set[str]] = {
    "_version": set(),
    "errors": set(),
    "limits": set(),
    "model": set(),
    "clock": set(),
    "core": set(),
    "embedding": {"core"},
    "exports": {"core"},
    "codec": set(),
    "stores": {"clock"},
    "engine": {"core", "codec", "clock", "embedding", "stores.port", "stores.own_files"},
    "api": {"engine", "core", "codec", "clock", "embedding", "exports", "stores.url", "stores.port"},
    "adapters": {"api", "engine", "core", "codec"},
    "views": {"core"},
    "mcp": {"api", "views", "core", ""},
    "cli": {"api", "mcp", "views", "core", "clock", "stores.url", ""},
    "testing": {"api", "stores", "core", "clock", ""},
    "": {"adapters", "api", "codec"},
}
"""From each layer, the layers it may know besides those open to all. Its own is always allowed; '' is the public face."""


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every holdfast module that a file imports: at the top, inside functions, and for type checkers."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "holdfast":
                    yield node.lineno, alias.name.removeprefix("holdfast").removeprefix(".")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "holdfast":
            base = (node.module or "").removeprefix("holdfast").removeprefix(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".strip(".")
                is_module = (PACKAGE / (inner.replace(".", "/") + ".py")).exists() or (
                    PACKAGE / inner.replace(".", "/")
                ).is_dir()
                yield node.lineno, inner if is_module else base


def dotted(path: Path) -> str:
    inside = path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
    return inside.removesuffix("__init__").removesuffix(".")


def test_no_arrow_between_layers_points_back() -> None:
    """A layer imports only the layers that the design lets it know."""
    wrong = []
    for path in MODULES:
        layer = dotted(path).partition(".")[0]
        allowed = LAYERS[layer] | OPEN_TO_ALL | {layer}
        for line, target in imported(path):
            if target.partition(".")[0] not in allowed and target not in allowed:
                wrong.append(
                    f"{path.relative_to(PACKAGE)}:{line}: {layer} must not know {target or 'holdfast'}"
                )
    assert wrong == []


HEAVY = {
    "click": {"cli"},
    "rich": {"cli"},
    "apsw": {"stores"},
    "psycopg": {"stores"},
    "boto3": {"stores"},
    "botocore": {"stores"},
    "pydantic": {"mcp"},
    "openai": {"adapters"},
    "agents": {"adapters"},
    "crewai": {"adapters"},
    "langchain_core": {"adapters"},
    "langgraph": {"adapters"},
    "mcp": {"mcp"},
    "numpy": {"embedding", "stores"},
    "opentelemetry": {"adapters"},
    "pydantic_ai": {"adapters"},
    "pytest": {"testing"},
}


def test_heavy_parts_stay_in_their_rooms() -> None:
    """Drivers, frameworks and terminal libraries are imported only where they belong."""
    for path in MODULES:
        room = path.relative_to(PACKAGE).parts[0]
        for node in nodes_of(path):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            for name in names:
                rooms = HEAVY.get(name.split(".")[0])
                assert rooms is None or room in rooms, f"{path}: {name} belongs in {rooms}"


def test_the_model_does_no_io() -> None:
    """Nouns know neither files nor clocks nor chance."""
    forbidden = {"os", "io", "time", "random", "threading", "pathlib", "asyncio", "socket"}
    for path in (PACKAGE / "model").glob("*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                assert not forbidden & {alias.name for alias in node.names}, path
            if isinstance(node, ast.ImportFrom):
                assert node.module not in forbidden, path


def test_decisions_are_pure() -> None:
    """core reads no clock, opens no file, draws no number, starts nothing."""
    forbidden = {"os", "io", "random", "threading", "asyncio", "socket", "subprocess", "logging", "uuid"}
    for path in (PACKAGE / "core").rglob("*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                assert not forbidden & {alias.name for alias in node.names}, path
            if isinstance(node, ast.ImportFrom):
                assert node.module not in forbidden, path
                assert node.module != "time" or {a.name for a in node.names} <= {"gmtime", "strftime"}, path
