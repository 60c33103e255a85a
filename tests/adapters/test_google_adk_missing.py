"""The Google ADK adapter where Google ADK is not installed, as it is not here."""

import sys
from importlib import import_module

import pytest

import holdfast


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package and the command; nothing of Google ADK is needed to read it."""
    for name in [name for name in sys.modules if name.startswith("holdfast.adapters.google_adk")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "google.adk", None)
    with pytest.raises(holdfast.AdapterNotInstalled, match="google") as refused:
        import_module("holdfast.adapters.google_adk")
    assert refused.value.hint == "pip install 'holdfast[google-adk]'"
