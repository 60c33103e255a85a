"""Naming an adapter loads neither the engine nor, by itself, the framework: counted in fresh processes.

Planted: the packages imported all of their parts, and with them 180 to 270 modules of Holdfast.
"""

import subprocess
import sys

import pytest

OURS_MAX = 12
"""Modules of ours for an entry point that is a function."""
SAVER_MAX = 30
"""The same for a class of the framework's own kind: its methods load the engine."""

FRAMEWORKS = {
    "agent_framework": "agent_framework",
    "claude_agent_sdk": "claude_agent_sdk",
    "crewai": "crewai",
    "google_adk": "google.adk",
    "langgraph": "langgraph",
    "llama_index": "llama_index.core",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "smolagents": "smolagents",
    "strands": "strands",
}
NAMED = """
import sys
from types import ModuleType
for name in sys.argv[2:]:
    sys.modules[name] = ModuleType(name)
before = set(sys.modules)
exec(sys.argv[1])
print(*sorted(name for name in set(sys.modules) - before))
"""


def _loaded(code: str, *stubs: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", NAMED, code, *stubs], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize("adapter", FRAMEWORKS)
def test_naming_an_adapter_loads_no_engine(adapter: str) -> None:
    """Whether or not its framework is installed here: a stub in its place is enough to name ``durable``."""
    entry = "durable_tools" if adapter == "langgraph" else "durable"
    package = FRAMEWORKS[adapter]
    stubs = [package.partition(".")[0], package]
    loaded = _loaded(f"from holdfast.adapters.{adapter} import {entry}", *dict.fromkeys(stubs))
    ours = [name for name in loaded if name.partition(".")[0] == "holdfast"]
    assert len(ours) <= OURS_MAX, ours
    assert not [name for name in ours if name.startswith(("holdfast.engine", "holdfast.stores"))]


def test_naming_the_saver_loads_no_engine() -> None:
    """It is a class of LangGraph's: its methods load the engine, the class does not."""
    loaded = _loaded(
        "import langgraph.checkpoint.base\nfrom holdfast.adapters.langgraph import HoldfastSaver"
    )
    ours = [name for name in loaded if name.partition(".")[0] == "holdfast"]
    assert len(ours) <= SAVER_MAX, ours
    assert "holdfast.engine.run" not in ours


def test_every_name_of_an_adapter_is_there() -> None:
    """What ``__all__`` lists can be read, and what it does not list is refused as by any module."""
    import holdfast.adapters.langgraph as langgraph
    import holdfast.adapters.openai_agents as openai_agents
    import holdfast.adapters.pydantic_ai as pydantic_ai

    for module in (langgraph, openai_agents, pydantic_ai):
        assert all(getattr(module, name) for name in module.__all__)
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            module.nothing  # noqa: B018 - the access is the test


def test_a_framework_that_is_too_old_says_what_to_install() -> None:
    """It is there, and lacks a name that the adapter needs: known with the first call, and the error is the same."""
    code = (
        "from holdfast.adapters.crewai import durable\n"
        "import holdfast\n"
        "try: durable(None)\n"
        "except holdfast.AdapterNotInstalled as refused: print(refused.hint)"
    )
    assert "pip install 'holdfast[crewai]'" in " ".join(_loaded(code, "crewai"))
