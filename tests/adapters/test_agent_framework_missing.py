"""The Agent Framework adapter where Agent Framework is not installed, as it is not here."""

import sys
from importlib import import_module

import pytest

import holdfast


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package and the command; nothing of Agent Framework is needed to read it."""
    for name in [name for name in sys.modules if name.startswith("holdfast.adapters.agent_framework")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "agent_framework", None)
    with pytest.raises(holdfast.AdapterNotInstalled, match="agent_framework") as refused:
        import_module("holdfast.adapters.agent_framework")
    assert refused.value.hint == "pip install 'holdfast[agent-framework]'"
