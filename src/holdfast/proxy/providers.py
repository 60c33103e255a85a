"""The providers whose protocols the proxy speaks: where their requests go, and how they report an error."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from orjson import dumps

from holdfast.errors import Misuse
from holdfast.model.named_tuple import NamedTuple


class Provider(NamedTuple):
    """One protocol: the variable with its address, the usual address, and the part of it that is a path."""

    name: str
    variable: str
    address: str
    base: str = ""


OPENAI: Final = Provider("OpenAI", "OPENAI_BASE_URL", "https://api.openai.com/v1", "/v1")
ANTHROPIC: Final = Provider("Anthropic", "ANTHROPIC_BASE_URL", "https://api.anthropic.com")
GEMINI: Final = Provider("Gemini", "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com")
OLLAMA: Final = Provider("Ollama", "OLLAMA_HOST", "http://127.0.0.1:11434")
PROVIDERS: Final = (OPENAI, ANTHROPIC, GEMINI, OLLAMA)


def variables_for(address: str) -> dict[str, str]:
    """The variables that lead an agent to the proxy at this address."""
    return {provider.variable: address + provider.base for provider in PROVIDERS}


def provider_of(path: str, headers: Mapping[str, str]) -> Provider:
    """Whose protocol a request speaks."""
    if path.startswith("/v1/messages") or "anthropic-version" in headers:
        return ANTHROPIC
    if path.startswith("/api/"):
        return OLLAMA
    if path.startswith(("/v1beta", "/v1alpha")) or "x-goog-api-key" in headers:
        return GEMINI
    return OPENAI


class Upstreams:
    """Where each protocol's requests go: to the given address, else where the environment says."""

    def __init__(self, to: str | None, environ: Mapping[str, str], address: str) -> None:
        """``address`` is the proxy's own: a variable that was set for the agent does not count here."""
        given = {one: _base_of(to or environ.get(one.variable) or one.address) for one in PROVIDERS}
        self._bases = {
            one: one.address if f"{base}/".startswith(f"{address}/") else base for one, base in given.items()
        }

    def url_of(self, provider: Provider, path: str, query: str) -> str:
        """The address of a request at its provider."""
        base = self._bases[provider]
        # An address with a path is one that SDKs take, and OpenAI's has the version in it.
        if base.endswith(OPENAI.base) or (provider is OPENAI and urlsplit(base).path):
            path = path.removeprefix(OPENAI.base)
        return base + path + (f"?{query}" if query else "")


def _base_of(given: str) -> str:
    return ("" if "://" in given else "http://") + given.rstrip("/")  # OLLAMA_HOST often has no scheme


def check_address(url: str) -> str:
    """The address that was given; Misuse if it is none, or has a secret: the command line is recorded."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Misuse(problem=f"--to {url} is no address", advice="give it as http://host:port or https://…")
    if parts.username or parts.password or parts.query:
        raise Misuse(
            problem="--to has a user, a password or a query, and the command line is recorded",
            advice=f"set it in the environment instead, as {OPENAI.variable}=…",
        )
    return url


def error_body(provider: Provider, kind: str, message: str) -> bytes:
    """An error as clients of this protocol read it."""
    if provider is OLLAMA:
        return dumps({"error": message})
    error: dict[str, Any] = {"type": "invalid_request_error", "code": kind, "message": message}
    return dumps({"type": "error", "error": error})
