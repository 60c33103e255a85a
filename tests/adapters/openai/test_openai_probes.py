"""Which servers go on from the middle of an answer: known by their host, by what they say of themselves, or by declaration."""

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.adapters.openai.server_probes import answered, flavour_of


class Url(str):
    __slots__ = ()

    @property
    def host(self) -> str:
        return self.split("/")[2].split(":")[0]


def ask(url: str, prefill: Any, answers: dict[str, Any]) -> tuple[str, list[str]]:
    """The flavour, and whom it took to find out."""
    looked: list[str] = []

    def get(address: str) -> Any:
        looked.append(address)
        if address not in answers:
            raise ConnectionError
        return SimpleNamespace(status_code=200, json=lambda: answers[address])

    client = SimpleNamespace(base_url=Url(url))
    return answered(flavour_of(client, prefill), get), looked


@pytest.mark.parametrize(
    ("url", "flavour"), [("https://api.anthropic.com/v1/", "anthropic"), ("https://api.openai.com/v1/", "")]
)
def test_some_are_known_by_their_host(url: str, flavour: str) -> None:
    """Nobody is asked."""
    assert ask(url, "auto", {}) == (flavour, [])


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
