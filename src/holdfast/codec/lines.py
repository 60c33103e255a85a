"""Events and letters as lines of JSON, for people and for other tools, and back byte for byte.

A body stands last in its line, exactly as it is recorded: it is not parsed and written again, so that no number or
blank in it changes. One that is no JSON of one line stands in base64.
"""

from base64 import b64decode, b64encode
from typing import Any, Final

from orjson import JSONDecodeError, dumps, loads

from holdfast.model.events import Event

_FIELDS: Final = {"seq": int, "at": float, "kind": str, "name": str, "key": str, "fence": int, "crc": int}
_PLAIN: Final = b',"body":'
_BASE64: Final = b',"body_base64":"'


def event_line(event: Event) -> bytes:
    """The event as one line, without its end."""
    seq, at, kind, name, key, fence, body, crc = event
    fields = {"seq": seq, "at": at, "kind": kind, "name": name, "key": key, "fence": fence, "crc": crc}
    return _line(fields, body)


def read_event(line: bytes) -> Event:
    """The event of a line. Raises ValueError where it is none; whether it is intact is another question."""
    fields, body = _parts(line)
    for name, kind in _FIELDS.items():
        if type(fields.get(name)) is not kind:
            raise ValueError(f"{name} is {fields.get(name)!r}")
    if fields.keys() != _FIELDS.keys():
        raise ValueError(f"it has the fields {', '.join(fields)}")
    return Event(**fields, body=body)


def letter_line(key: str, body: bytes) -> bytes:
    """A letter as one line, without its end."""
    return _line({"key": key}, body)


def read_letter(line: bytes) -> tuple[str, bytes]:
    """The id and the body of a letter. Raises ValueError."""
    fields, body = _parts(line)
    if type(fields.get("key")) is not str:
        raise ValueError("it has no key")
    return fields["key"], body


def _line(fields: dict[str, Any], body: bytes) -> bytes:
    if _is_one_line_of_json(body):
        return dumps(fields)[:-1] + _PLAIN + body + b"}"
    return dumps(fields)[:-1] + _BASE64 + b64encode(body) + b'"}'


def _is_one_line_of_json(body: bytes) -> bool:
    if b"\n" in body or b"\r" in body:
        return False
    try:
        loads(body)
    except JSONDecodeError:
        return False
    return True


def _parts(line: bytes) -> tuple[dict[str, Any], bytes]:
    """The fields and the body, cut out where it must stand; a line that is written in another way is refused."""
    fields = loads(line)
    if type(fields) is not dict:
        raise ValueError("it is no object")
    is_plain = "body" in fields
    fields.pop("body" if is_plain else "body_base64", None)
    before = dumps(fields)[:-1] + (_PLAIN if is_plain else _BASE64)
    after = b"}" if is_plain else b'"}'
    if not line.startswith(before) or not line.endswith(after):
        raise ValueError("it is not as it was written")
    text = line[len(before) : -len(after)]
    body = text if is_plain else b64decode(text, validate=True)
    if _line(fields, body) != line:
        raise ValueError("it is not as it was written")
    return fields, body
