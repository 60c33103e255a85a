"""Checks that a document is a complete, unchanged handoff: by its schema and its digest.

It implements the few keywords of JSON Schema that the handoff schema uses, so no package is needed. Code that
reads a checked document relies on its fields.
"""

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from orjson import OPT_SORT_KEYS, JSONDecodeError, dumps, loads

from holdfast.core.transfer.handoff.schema import FORMAT, SCHEMA
from holdfast.errors import BadHandoff

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def digest_of(document: Mapping[str, Any]) -> str:
    """The SHA-256 of the document without its own digest."""
    content = {name: value for name, value in document.items() if name != "digest"}
    return sha256(dumps(content, option=OPT_SORT_KEYS)).hexdigest()


def read_document(data: bytes, source: str) -> dict[str, Any]:
    """The document in these bytes. Raises BadHandoff, which says what is wrong."""
    try:
        return check_document(loads(data))
    except JSONDecodeError as wrong:
        cut = " (it seems to be cut off)" if wrong.pos >= len(data.decode(errors="replace")) - 1 else ""
        raise BadHandoff(
            problem=f"{source} is not JSON: {wrong.msg} at character {wrong.pos + 1}{cut}"
        ) from None


def check_document(document: object) -> dict[str, Any]:
    """The document, if it is a complete, unchanged handoff. Raises BadHandoff, which says what is wrong."""
    if not isinstance(document, dict) or "holdfast_handoff" not in document:
        raise BadHandoff(problem="it is no handoff: the field holdfast_handoff is missing")
    _check_is_json(document)
    written = document["holdfast_handoff"]
    if type(written) is int and written > FORMAT:
        raise BadHandoff(
            problem=f"its format is {written}; this Holdfast knows formats up to {FORMAT}: upgrade holdfast"
        )
    if written != FORMAT or type(written) is not int:
        raise BadHandoff(problem=f"its format is {written!r}, and this version reads {FORMAT}")
    for problem in problems_of(document):
        raise BadHandoff(problem=problem)
    if digest_of(document) != document["digest"]:
        raise BadHandoff(
            problem="it was changed, or cut off, since it was written: its digest is another one"
        )
    return document


def _check_is_json(document: dict[Any, Any]) -> None:
    """Refuses what no JSON file can hold: a program may pass NaN, objects, or endless nesting."""
    try:
        is_json = loads(dumps(document)) == document
    except (TypeError, ValueError, RecursionError) as error:
        raise BadHandoff(problem=f"it holds what JSON cannot: {error}") from None
    if not is_json:
        raise BadHandoff(problem="it holds what JSON cannot: a number that is none, or a type of its own")


def problems_of(document: object) -> Iterator[str]:
    """Where a document violates the schema, in order."""
    yield from _problems(SCHEMA, document, "")


def _problems(schema: Mapping[str, Any], value: object, path: str) -> Iterator[str]:
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        found = [list(_problems(one, value, path)) for one in schema["anyOf"]]
        if all(found):
            yield found[0][0]
        return
    wrong = _is_wrong(schema, value)
    if wrong:
        yield f"{f'its field {path}' if path else 'it'} is {_shown(value)}{wrong}"
    elif isinstance(value, dict):
        yield from _members(schema, value, path)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _problems(schema["items"], item, f"{path}[{index}]")


def _is_wrong(schema: Mapping[str, Any], value: object) -> str:
    """What is wrong with this value by itself, without its members; empty if nothing."""
    if "enum" in schema and not any(
        value is one or (isinstance(value, str) and value == one) for one in schema["enum"]
    ):
        return f", and none of {', '.join(map(str, schema['enum']))}"
    if "const" in schema and value != schema["const"]:
        return f", and not {schema['const']}"
    if "type" in schema and not _is_a(schema["type"], value):
        return f", and no {schema['type']}"
    if not _is_within(schema, value):
        return ", which is beyond what can be"
    if "pattern" in schema and not re.search(schema["pattern"], str(value)):
        return ", which cannot be"
    return ""


def _is_within(schema: Mapping[str, Any], value: object) -> bool:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return not isinstance(value, list) or len(value) <= schema.get("maxItems", len(value))


def _members(schema: Mapping[str, Any], value: Mapping[str, Any], path: str) -> Iterator[str]:
    before = f"{path}." if path else ""
    for name in schema.get("required", ()):
        if name not in value:
            yield f"its field {before}{name} is missing"
    for name, inner in schema.get("properties", {}).items():
        if name in value:
            yield from _problems(inner, value[name], f"{before}{name}")


def _is_a(kinds: str | list[str], value: object) -> bool:
    wanted = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(value, bool):  # in Python a bool is an int; in JSON it is no number
        return "boolean" in wanted
    return any(isinstance(value, _TYPES[kind]) for kind in wanted)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
