"""The smolagents adapter where smolagents is not installed, as it is not here."""

import sys
from importlib import import_module

import pytest

import holdfast


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package and the command; nothing of smolagents is needed to read it."""
    for name in [name for name in sys.modules if name.startswith("holdfast.adapters.smolagents")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "smolagents", None)
    with pytest.raises(holdfast.AdapterNotInstalled, match="smolagents") as refused:
        import_module("holdfast.adapters.smolagents")
    assert refused.value.hint == "pip install 'holdfast[smolagents]'"
