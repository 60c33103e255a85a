"""Events and letters as lines of JSON, for people and other tools, and back byte for byte.

A body comes last in its line, exactly as it is recorded: it is not parsed and rewritten, so that no number or
blank changes. An event's body is two members, ``fields`` and, if there is any, ``data``. A body of format 1,
or of a letter, is one member, ``body``. A body that is neither is base64.
"""

from base64 import b64decode, b64encode
from typing import Any, Final

from orjson import JSONDecodeError, dumps, loads

from holdfast.model.event_fields import joined, lines_of
from holdfast.model.events import Event

_FIELDS: Final = {"seq": int, "at": float, "kind": str, "name": str, "key": str, "fence": int, "crc": int}
_OWN: Final = b',"fields":'
_DATA: Final = b',"data":'
_PLAIN: Final = b',"body":'
_BASE64: Final = b',"body_base64":"'


def event_line(event: Event) -> bytes:
    """The event as one line, without the line end."""
    seq, at, kind, name, key, fence, body, crc, chain = event
    fields = {"seq": seq, "at": at, "kind": kind, "name": name, "key": key, "fence": fence, "crc": crc}
    if chain:  # events of format 1 have no chain, and their lines must not change
        fields["chain"] = chain
    lines = lines_of(body)
    if lines is None or not _are_plain(*lines):
        return _line(fields, body)
    own, data = lines
    return dumps(fields)[:-1] + _OWN + own + (_DATA + data if data else b"") + b"}"


def read_event(line: bytes) -> Event:
    """The event of a line. Raises ValueError if it is none. The checksum is not checked here."""
    fields, body = _event_parts(line)
    for name, kind in _FIELDS.items():
        if type(fields.get(name)) is not kind:
            raise ValueError(f"{name} is {fields.get(name)!r}")
    if type(fields.get("chain", 1)) is not int or not fields.get("chain", 1):
        raise ValueError(f"chain is {fields['chain']!r}")
    if fields.keys() - {"chain"} != _FIELDS.keys():
        raise ValueError(f"it has the fields {', '.join(fields)}")
    event = Event(**fields, body=body)
    if event_line(event) != line:
        raise ValueError("it is not as it was written")
    return event


def letter_line(key: str, body: bytes) -> bytes:
    """A letter as one line, without the line end."""
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


def _are_plain(own: bytes, data: bytes) -> bool:
    """Whether both are in the form that we write.

    Only then can a reader find the end of the first in a line.
    """
    try:
        fields = loads(own)
    except JSONDecodeError:
        return False
    return type(fields) is dict and dumps(fields) == own and (not data or _is_one_line_of_json(data))


def _event_parts(line: bytes) -> tuple[dict[str, Any], bytes]:
    """The same for an event, whose body may be two members. The caller checks the end of the line."""
    fields = loads(line)
    if type(fields) is not dict or "fields" not in fields:
        return _parts(line)
    own = dumps(fields.pop("fields"))
    has_data = "data" in fields
    fields.pop("data", None)
    before = dumps(fields)[:-1] + _OWN + own + (_DATA if has_data else b"")
    return fields, joined(own, line[len(before) : -1])


def _parts(line: bytes) -> tuple[dict[str, Any], bytes]:
    """The fields, and the body cut from its fixed place. A line in another form is refused."""
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
