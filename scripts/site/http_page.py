"""The reference of the HTTP API, made from the description that the inspector serves itself."""

from typing import Any

from holdfast.ui.openapi import openapi

_BEFORE = """# The HTTP API

What the [inspector](../inspector.md#the-http-api) shows, as JSON. `holdfast ui` serves it, and describes every answer in
full at `/api/openapi.json` (OpenAPI 3.1). Send the token of the first address as `Authorization: Bearer TOKEN`.

Acts are `POST`s with a JSON object. Each does what the command of its name does, and is recorded in your name. With
`--read-only` they are refused.

An error is `{"error": …, "problem": …, "hint": …}`, with the status 400 (not understood), 401 (no token), 403 (another
site, or read-only), 404 (no such run, point or event), 409 (the run's state refuses it) or 500 (the store is damaged).
"""


def http_page() -> str:
    """The page."""
    described = openapi()
    reads = [(path, one["get"]) for path, one in described["paths"].items() if "get" in one]
    acts = [(path, one["post"]) for path, one in described["paths"].items() if "post" in one]
    lines = [_BEFORE, "## Read", "", "| address | answers | parameters |", "|---|---|---|"]
    lines += [f"| `{path}` | {one['summary']} | {_parameters(one)} |" for path, one in reads]
    lines += ["", "## Act", "", "| address | does | fields |", "|---|---|---|"]
    lines += [f"| `{path}` | {one['summary']} | {_fields(one)} |" for path, one in acts]
    lines += ["", "## Objects", ""]
    for name, schema in sorted(described["components"]["schemas"].items()):
        fields = schema.get("properties", {})
        lines += [
            f"**{name}**",
            "",
            ", ".join(f"`{field}`" for field in fields) or schema.get("type", ""),
            "",
        ]
    return "\n".join(lines)


def _parameters(one: dict[str, Any]) -> str:
    shown = [
        f"`{given['name']}`{'' if given['required'] else ' (may be absent)'}"
        for given in one.get("parameters", ())
    ]
    return ", ".join(shown)


def _fields(one: dict[str, Any]) -> str:
    fields = one["requestBody"]["content"]["application/json"]["schema"]["properties"]
    return ", ".join(f"`{field}`" for field in fields)
