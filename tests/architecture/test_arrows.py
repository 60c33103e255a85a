"""The layers, the subjects inside them, and the arrows between both: an import that points back fails here."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from tests.support.sources import nodes_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "holdfast"
MODULES = sorted(PACKAGE.rglob("*.py"))


def dotted(path: Path) -> str:
    inside = path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
    return inside.removesuffix("__init__").removesuffix(".")


NAMES = {dotted(path) for path in MODULES}

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
    "api": {
        "engine",
        "core",
        "codec",
        "clock",
        "embedding",
        "exports",
        "stores.encryption_mark",
        "stores.url",
        "stores.port",
    },
    "adapters": {"api", "engine", "core", "codec", "proxy.listener", "proxy.providers", "proxy.relay"},
    "views": {"core"},
    "mcp": {"api", "views", "core", "codec.secrets", ""},
    "ui": {"api", "views", "core", "codec.secrets"},
    "proxy": {"adapters", "api", "engine"},
    "cli": {
        "adapters.langgraph.thread_import",
        "api",
        "mcp",
        "proxy",
        "ui",
        "views",
        "core",
        "clock",
        "codec.filled_secrets",  # recorded commands, started again
        "codec.secrets",  # everything that is shown is masked
        "stores.encryption_mark",
        "stores.url",
        "testing",
        "",
    },
    "testing": {"api", "stores", "clock", "engine.premises.sources", ""},
    "": {"adapters", "api", "codec"},
}
"""From each layer, the layers it may know besides those open to all. Its own is always allowed; '' is the public face."""


@cache
def imported(path: Path) -> tuple[tuple[int, str], ...]:
    """Every holdfast module that a file imports: at the top, inside functions, and for type checkers."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[tuple[int, str]]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "holdfast":
                    yield node.lineno, alias.name.removeprefix("holdfast").removeprefix(".")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "holdfast":
            base = (node.module or "").removeprefix("holdfast").removeprefix(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".strip(".")
                yield node.lineno, inner if inner in NAMES else base


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
    "cryptography": {"stores"},
    "botocore": {"adapters", "stores"},
    "pydantic": {"mcp"},
    "openai": {"adapters"},
    "agent_framework": {"adapters"},
    "agents": {"adapters"},
    "claude_agent_sdk": {"adapters"},
    "crewai": {"adapters"},
    "google": {"adapters"},
    "langchain_core": {"adapters"},
    "langgraph": {"adapters"},
    "llama_index": {"adapters"},
    "mcp": {"mcp"},
    "numpy": {"embedding", "stores"},
    "opentelemetry": {"adapters"},
    "pydantic_ai": {"adapters"},
    "PIL": {"adapters"},
    "smolagents": {"adapters"},
    "pytest": {"testing"},
    "httpx": {"adapters", "proxy"},
    "uvicorn": {"mcp", "proxy", "ui"},
    "starlette": {"mcp", "ui"},
    "jinja2": {"ui"},
    "strands": {"adapters"},
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


def test_named_tuples_are_made_in_one_way() -> None:
    """``typing.NamedTuple`` compiles a constructor for each class, in every process that loads it."""
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and node.module in ("typing", "collections")
        if {"NamedTuple", "namedtuple"} & {alias.name for alias in node.names}
    }
    assert found == {"model/named_tuple.py"}


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


KERNEL = {
    "core": {"journal", "steps"},
    "engine": {"journal", "steps", "run", "log", "replay_mode", "store_threads", "sync_async"},
}
"""What every subject may know, and what knows no other: the kernel has no features."""
FEATURES = {
    "core": (
        "text", "drift", "artifacts", "lineage", "loops", "queue", "state", "threads", "llm", "people", "premises", "memory",
        "budget", "diff", "reports", "context", "prune", "resume", "transfer", "hooks", "mirror",
    ),
    "engine": (
        "drift", "budget", "loops", "people", "premises", "state", "damage", "queue", "lineage", "memory", "context", "llm",
        "prune", "threads", "transfer", "artifacts", "secrets", "resume", "hooks", "mirror", "edits",
    ),
}  # fmt: skip
"""A feature knows the kernel and the features before it: so there are no cycles."""


def test_no_arrow_between_subjects_points_back() -> None:
    """Inside core and engine, late imports and those for type checkers included."""
    wrong = []
    for layer, kernel in KERNEL.items():
        order = FEATURES[layer]
        folders = {
            path.name for path in (PACKAGE / layer).iterdir() if path.is_dir() and path.name != "__pycache__"
        }
        assert folders <= kernel | {*order}, folders - kernel - {*order}
        for path in sorted((PACKAGE / layer).rglob("*.py")):
            _, subject, *rest = [*path.relative_to(PACKAGE).parts, ""]
            if not any(rest):
                continue
            known = kernel | ({*order[: order.index(subject) + 1]} if subject in order else set())
            for line, target in imported(path):
                layer_of, _, inside = target.partition(".")
                if layer_of == layer and inside.partition(".")[0] not in known:
                    wrong.append(f"{path.relative_to(PACKAGE)}:{line}: {subject} must not know {target}")
    assert wrong == []


def test_only_two_tables_import_by_name() -> None:
    """Features join the kernel through their tables; a name that is put together elsewhere would hide an arrow."""
    found = {
        str(path.relative_to(PACKAGE))
        for layer in KERNEL
        for path in (PACKAGE / layer).rglob("*.py")
        if "import_module" in path.read_text(encoding="utf-8")
    }
    assert found == {"core/journal/folds.py", "engine/run/features.py"}


ENTERED = """
import sys, holdfast
with holdfast.run("a", store=sys.argv[1]) as run:
    print(*(name for name in sys.modules if name.startswith(("holdfast.core.", "holdfast.engine."))))
"""


def test_entering_a_run_loads_no_feature(tmp_path: Path) -> None:
    """A new run loads only the kernel, and how values read. A resumed one also looks at its premises."""
    done = subprocess.run(
        [sys.executable, "-c", ENTERED, "memory://x"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    loaded = {tuple(name.split(".")[1:3]) for name in done.stdout.split()}
    features = {(layer, subject) for layer, subject in loaded if subject not in KERNEL[layer] | {"text"}}
    assert features == set()


def test_every_row_of_the_tables_leads_somewhere() -> None:
    """Names of classes in strings are no imports: a typing error would be found by the first user."""
    from holdfast.core.journal.feature_fold import FeatureFold
    from holdfast.core.journal.folds import ROWS as FOLDS
    from holdfast.core.journal.folds import make_fold
    from holdfast.engine.run.features import ROWS, Feature

    for fold in FOLDS:
        assert not fold.place or isinstance(make_fold(fold.name), FeatureFold)
    for row in ROWS:
        module, _, cls = row.place.partition(":")
        assert issubclass(getattr(import_module(f"holdfast.engine.{module}"), cls), Feature), row.name
