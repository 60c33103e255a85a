"""The CrewAI adapter where CrewAI is not installed, as it is not here."""

import sys
from importlib import import_module

import pytest

import holdfast


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package and the command; nothing of CrewAI is needed to read it."""
    for name in [name for name in sys.modules if name.startswith("holdfast.adapters.crewai")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "crewai", None)
    with pytest.raises(holdfast.AdapterNotInstalled, match="crewai") as refused:
        import_module("holdfast.adapters.crewai")
    assert refused.value.hint == "pip install 'holdfast[crewai]'"
