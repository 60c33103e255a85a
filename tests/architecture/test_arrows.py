"""The rooms and the arrows between them: a line that points back fails here."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "holdfast"

OPEN_TO_ALL = {"errors", "limits", "model", "_version"}
ARROWS: dict[str, set[str]] = {
    "_version": set(),
    "errors": set(),
    "limits": set(),
    "model": {"limits"},
    "clock": set(),
    "core": set(),
    "memory": {"core"},
    "codec": set(),
    "stores": {"clock"},
    "engine": {"core", "codec", "clock", "memory", "stores.port", "stores.own_files"},
    "handles": {"engine", "core", "codec"},
    "parcels": {"core"},
    "storehandle": {"engine", "core", "codec", "memory", "parcels", "stores.url", "stores.port"},
    "entrance": {"engine", "core", "handles", "storehandle"},
    "tooling": {"engine", "core"},
    "agents": {"engine", "core", "entrance", "handles", "storehandle"},
    "workers": {"agents", "engine", "storehandle", "clock"},
    "adapters": {"engine", "core", "codec", "handles", "storehandle", "entrance", "tooling"},
    "mcp": {"handles", "storehandle", "entrance", "views", "core", ""},
    "views": {"core"},
    "cli": {
        "agents",
        "workers",
        "handles",
        "storehandle",
        "entrance",
        "tooling",
        "mcp",
        "views",
        "core",
        "",
        "stores.url",
        "clock",
    },
    "testing": {"stores", "handles", "storehandle", "entrance", "clock", ""},
    "": {"adapters", "agents", "codec", "entrance", "handles", "storehandle", "tooling", "workers"},
}
"""From each room, the rooms it may know besides those open to all. Its own is always allowed; '' is the public face."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(dotted: str) -> str:
    """``engine.steps.step`` is in ``engine``; ``stores.port`` is a room of its own for whoever may know only that."""
    return dotted.split(".", maxsplit=1)[0]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every holdfast module that a file imports, also inside functions: late imports are arrows too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
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


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_arrow_points_back(path: Path) -> None:
    """A room imports only the rooms that the design lets it know."""
    inside = path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
    room = "" if inside == "__init__" else room_of(inside)
    allowed = ARROWS[room] | OPEN_TO_ALL | {room}
    for line, target in imported(path):
        goal = room_of(target) if target else ""
        assert goal in allowed or target in allowed, (
            f"{path.name}:{line}: {room or 'holdfast'} must not know {target or 'holdfast'}"
        )


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
    "numpy": {"memory", "stores"},
    "opentelemetry": {"adapters"},
    "pydantic_ai": {"adapters"},
    "pytest": {"testing"},
}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_heavy_parts_stay_in_their_rooms(path: Path) -> None:
    """Drivers, frameworks and terminal libraries are imported only where they belong."""
    room = path.relative_to(PACKAGE).parts[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not forbidden & {alias.name for alias in node.names}, path
            if isinstance(node, ast.ImportFrom):
                assert node.module not in forbidden, path


def test_decisions_are_pure() -> None:
    """core reads no clock, opens no file, draws no number, starts nothing."""
    forbidden = {"os", "io", "random", "threading", "asyncio", "socket", "subprocess", "logging", "uuid"}
    for path in (PACKAGE / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not forbidden & {alias.name for alias in node.names}, path
            if isinstance(node, ast.ImportFrom):
                assert node.module not in forbidden, path
                assert node.module != "time" or {a.name for a in node.names} <= {"gmtime", "strftime"}, path
