"""The LlamaIndex adapter where LlamaIndex is not installed, as it is not here."""

import sys
from importlib import import_module

import pytest

import holdfast


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package and the command; nothing of LlamaIndex is needed to read it."""
    for name in [name for name in sys.modules if name.startswith("holdfast.adapters.llama_index")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "llama_index", None)
    with pytest.raises(holdfast.AdapterNotInstalled, match="llama_index") as refused:
        import_module("holdfast.adapters.llama_index")
    assert refused.value.hint == "pip install 'holdfast[llama-index]'"
