"""The adapter for the Claude Agent SDK where the SDK is not installed, as it is not here."""

import sys
from importlib import import_module

import pytest

import holdfast


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package and the command; nothing of the SDK is needed to read it."""
    for name in [name for name in sys.modules if name.startswith("holdfast.adapters.claude_agent_sdk")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    with pytest.raises(holdfast.AdapterNotInstalled, match="claude_agent_sdk") as refused:
        import_module("holdfast.adapters.claude_agent_sdk")
    assert refused.value.hint == "pip install 'holdfast[claude-agent-sdk]'"
