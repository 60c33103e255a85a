"""The description of the HTTP API, made from its tables of endpoints and acts."""

from typing import Any, Final, get_type_hints

from holdfast._version import __version__
from holdfast.ui.acts import ACTS, Act
from holdfast.ui.json_api import ENDPOINTS, Endpoint, Parameter
from holdfast.ui.json_schema import Schemas
from holdfast.views.timeline import Line

_PROBLEM: Final = {"$ref": "#/components/schemas/Problem"}
_REFUSALS: Final = {
    400: "The request is not understood.",
    404: "There is no such run, point or event.",
    405: "The address takes another method.",
    409: "The state of the run refuses it.",
    500: "The store is damaged, or cannot be read.",
}
_DENIALS: Final = {
    401: "The token is missing or wrong.",
    403: "The request came from another site, or the page is read-only.",
    421: "The Host is not this server.",
}


def openapi() -> dict[str, Any]:
    """The description of the API, as OpenAPI 3.1."""
    schemas = Schemas()
    paths = {f"/api/{name}": {"get": _read(name, endpoint, schemas)} for name, endpoint in ENDPOINTS.items()}
    paths["/live"] = {"get": _live(schemas)}
    paths |= {f"/api/acts/{name}": {"post": _act(name, act)} for name, act in ACTS.items()}
    problem = {
        "type": "object",
        "required": ["error", "problem", "hint"],
        "properties": {name: {"type": "string"} for name in ("error", "problem", "hint")},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast inspector", "version": __version__},
        "components": {
            "schemas": {"Problem": problem, **schemas.named},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
        "paths": paths,
    }


def _read(name: str, endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    shape = schemas.of(get_type_hints(endpoint.answer)["return"])
    return {
        "operationId": name,
        "summary": endpoint.about,
        "parameters": [_parameter(one) for one in endpoint.parameters],
        "responses": {"200": _json_answer(endpoint.about, shape), **_errors()},
    }


def _live(schemas: Schemas) -> dict[str, Any]:
    """The stream. Its messages are named: OpenAPI has no words for them, so that the description says it."""
    event = schemas.of(Line)
    run = Parameter("run", about="Only this run, event by event. Without it: that something has changed.")
    after = Parameter("after", "integer", about="The seq of the last event that you have.")
    last = {
        "name": "Last-Event-ID",
        "in": "header",
        "required": False,
        "schema": {"type": "string", "pattern": "^[0-9]+-[0-9]+$"},
        "description": "The id of the last message that you have got. It counts more than `after`.",
    }
    return {
        "operationId": "live",
        "summary": "What happens, as it happens, as server-sent events. It goes on until you leave.",
        "description": (
            "Of a run: `event` has an event as data, and an id; `status` has the run's status. Of the store: "
            "`changed` says that runs have changed. `gone` says why there is no more. A client that comes "
            "back with `Last-Event-ID` gets everything that it has missed, each event once."
        ),
        "parameters": [_parameter(run), _parameter(after), last],
        "responses": {
            "200": {
                "description": "The messages.",
                "content": {"text/event-stream": {"schema": {"type": "string"}, "x-event-data": event}},
            },
            **_errors(),
        },
    }


def _parameter(one: Parameter) -> dict[str, Any]:
    bound = {"minimum": 0} if one.kind == "integer" else {"minLength": 1}
    about = {"description": one.about} if one.about else {}
    schema = {"type": one.kind, **bound}
    return {"name": one.name, "in": "query", "required": one.is_needed, "schema": schema, **about}


def _act(name: str, act: Act) -> dict[str, Any]:
    given = {
        "type": "object",
        "properties": {field: {"type": ["string", "boolean"]} for field in ("run", *act.fields)},
        "required": ["run"] if act.needs_run else [],
        "additionalProperties": False,
    }
    done = {
        "type": "object",
        "required": ["told", "go"],
        "properties": {"told": {"type": "string"}, "go": {"type": "string"}},
    }
    return {
        "operationId": f"act_{name}",
        "summary": f"What `holdfast {name}` does.",
        "requestBody": {"required": True, "content": {"application/json": {"schema": given}}},
        "responses": {"200": _json_answer("It is recorded.", done), **_errors()},
    }


def _json_answer(about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": about, "content": {"application/json": {"schema": schema}}}


def _errors() -> dict[str, Any]:
    text = {"text/plain": {"schema": {"type": "string"}}, "application/json": {"schema": _PROBLEM}}
    denied = {str(code): {"description": about, "content": text} for code, about in _DENIALS.items()}
    return {str(code): _json_answer(about, _PROBLEM) for code, about in _REFUSALS.items()} | denied
