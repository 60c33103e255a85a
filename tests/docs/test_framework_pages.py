"""Each page about a framework says the version and the kills that it was tried with, as they are pinned and measured."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NUMBERS = (ROOT / "docs/numbers.md").read_text()
KILLS = (ROOT / "docs/kills.md").read_text()
PAGES = {
    "agent-framework": (
        "Microsoft Agent Framework",
        "agent-framework-core",
        "constraints-agentframework.txt",
    ),
    "claude-agent-sdk": ("Claude Agent SDK", "claude-agent-sdk", "constraints-claudeagent.txt"),
    "crewai": ("CrewAI", "crewai", "constraints-crewai.txt"),
    "google-adk": ("Google ADK", "google-adk", "constraints-googleadk.txt"),
    "langgraph": ("LangGraph", "langgraph", "constraints-peers.txt"),
    "llama-index": ("LlamaIndex", "llama-index-core", "constraints-llamaindex.txt"),
    "openai-agents": ("OpenAI Agents SDK", "openai-agents", "constraints-peers.txt"),
    "pydantic-ai": ("Pydantic AI", "pydantic-ai-slim", "constraints-peers.txt"),
    "smolagents": ("smolagents", "smolagents", "constraints-smolagents.txt"),
    "strands": ("Strands", "strands-agents", "constraints-strands.txt"),
}
NO_FRAMEWORKS = {"any", "mcp", "opentelemetry", "proxy"}


def test_every_page_is_listed() -> None:
    """A page of a new framework needs its version and its kills, too."""
    assert {page.stem for page in (ROOT / "docs/frameworks").glob("*.md")} == {*PAGES, *NO_FRAMEWORKS}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_which_version_and_how_many_kills(page: str) -> None:
    """Before, a page had the version that it needs, and no kills. A pin or a row that moves must move the page."""
    name, package, constraints = PAGES[page]
    text = " ".join((ROOT / f"docs/frameworks/{page}.md").read_text().split())
    found = re.search(rf"Tried with {package} (\S+) and (\d+) seeded kills", text)
    assert found is not None
    version, kills = found.groups()
    assert f"\n{package}=={version}\n" in f"\n{(ROOT / constraints).read_text()}"
    row = re.search(rf"^\| {name}\b[^|]*?(\d+) seeded kills", NUMBERS, re.MULTILINE)
    benchmark = re.search(r"kills each of them (\d+) times", KILLS)
    assert benchmark is not None
    if row is None:
        assert f"**{name}: Holdfast**" in KILLS
    assert kills == (row or benchmark).group(1)
