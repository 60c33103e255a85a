"""What a provider tells about itself: models, health, versions. Each flavour has its own doors, and 404 for the others'."""

from typing import Any, Final

from tests.support.model_server.script import Script

_NOT_FOUND: Final = {"error": {"message": "Not Found", "type": "not_found_error", "code": 404}}
_DEFAULT_MODELS: Final = ("scripted",)


def lobby(path: str, script: Script) -> tuple[int, Any]:
    """The status and the body of a GET."""
    models = script.models or _DEFAULT_MODELS
    doors: dict[str, dict[str, Any]] = {
        "openai": {},
        "llamacpp": {
            "/health": {"status": "ok"},
            "/props": {
                "default_generation_settings": {"n_ctx": 4096},
                "total_slots": 1,
                "model_path": models[0],
            },
        },
        "vllm": {"/health": "", "/version": {"version": "0.11.0"}},
        "ollama": {
            "/": "Ollama is running",
            "/api/version": {"version": "0.12.3"},
            "/api/tags": {"models": [_tag(model) for model in models]},
        },
    }
    own = doors.get(script.flavour.name, {})
    if path in own:
        return 200, own[path]
    if path == "/v1/models":
        return 200, {"object": "list", "data": [_model(model) for model in models]}
    if path.startswith("/v1/models/") and path.removeprefix("/v1/models/") in models:
        return 200, _model(path.removeprefix("/v1/models/"))
    return 404, _NOT_FOUND


def _model(model: str) -> dict[str, Any]:
    return {"id": model, "object": "model", "created": 1_750_000_000, "owned_by": "scripted"}


def _tag(model: str) -> dict[str, Any]:
    name = model if ":" in model else f"{model}:latest"
    details = {"format": "gguf", "family": "llama", "parameter_size": "135M", "quantization_level": "Q4_1"}
    return {"name": name, "model": name, "modified_at": "2026-01-01T00:00:00Z", "size": 1, "details": details}
