"""Anthropic's protocol on Vertex AI: the path has the model, and says whether the answer is streamed."""

from typing import Any, Final

from holdfast.adapters.wire.shapes.anthropic import Messages

_MODELS: Final = "/publishers/anthropic/models/"
_NO_MODEL: Final = f"{_MODELS}count-tokens:"


class RawPredict(Messages):
    """Messages. Recorded with the model of its path, like those of Anthropic's own endpoint."""

    suffix = ":rawPredict"

    def takes(self, path: str) -> bool:
        """Whether the model is one of Anthropic's."""
        return super().takes(path) and _MODELS in path and _NO_MODEL not in path

    def recorded(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The request, with the model of its path."""
        return {"model": path.rpartition("/")[2].removesuffix(self.suffix), **body}

    def sent(self, path: str, recorded: dict[str, Any], model: str) -> tuple[str, dict[str, Any]]:
        """The path with the model, and the body without it."""
        body = {name: value for name, value in recorded.items() if name != "model"}
        return f"{path.rpartition('/')[0]}/{model or recorded['model']}{self.suffix}", body

    def server(self, url: str) -> str:
        """The address before the models."""
        return url.rpartition(_MODELS)[0]


class StreamRawPredict(RawPredict):
    """A streamed message."""

    suffix = ":streamRawPredict"
