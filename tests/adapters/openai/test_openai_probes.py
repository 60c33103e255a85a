"""Which servers go on from the middle of an answer: known by their host, by what they say of themselves, or by declaration."""

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.adapters.wire.server_probes import Server, answered, flavour_of
from holdfast.adapters.wire.shapes.openai_api import ChatCompletions


def ask(url: str, prefill: Any, answers: dict[str, Any]) -> tuple[str, list[str]]:
    """The flavour, and whom it took to find out."""
    looked: list[str] = []

    def get(address: str) -> Any:
        looked.append(address)
        if address not in answers:
            raise ConnectionError
        return SimpleNamespace(status_code=200, json=lambda: answers[address])

    return answered(flavour_of(Server(url), prefill), get), looked


@pytest.mark.parametrize(
    ("host", "prefills"), [("api.anthropic.com", True), ("api.openai.com", False), ("127.0.0.1", None)]
)
def test_some_are_known_by_their_host(host: str, prefills: bool | None) -> None:
    """Nobody is asked; of others, the server is."""
    assert ChatCompletions().prefills(host, "m") is prefills


@pytest.mark.parametrize(("prefill", "flavour"), [(True, "any"), (False, "")])
def test_what_is_declared_counts(prefill: bool, flavour: str) -> None:
    """Nobody is asked either."""
    assert ask("http://127.0.0.1:1/v1/", prefill, {}) == (flavour, [])


def test_others_are_asked_what_they_are() -> None:
    """llama.cpp by its properties, vLLM by its version; one that says nothing of the kind is none of them."""
    root = "http://127.0.0.1:1"
    props: dict[str, Any] = {f"{root}/props": {"default_generation_settings": {}}}
    assert ask(f"{root}/v1/", "auto", props)[0] == "llama.cpp"
    assert ask(f"{root}/v1/", "auto", {f"{root}/version": {"version": "0.9"}})[0] == "vllm"
    assert ask(f"{root}/v1/", "auto", {})[0] == ""
