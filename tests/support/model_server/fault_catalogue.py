"""The catalogue: every way in which servers of models, and what stands before them, are known to answer wrongly.

A kind is a change of a good answer on its way to the socket, the same for every protocol: chat completions, responses,
messages, Gemini and Ollama. ``Outgoing`` is that answer: its status, its headers, its pieces (the events of a stream, or one
body), and how the connection ends. It is sent as it is, without a look at whether it is HTTP.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any, Final, NamedTuple, TypeVar

SLOW_S: Final = 0.02
SILENT_S: Final = 0.4


class Outgoing(NamedTuple):
    """A good answer, before it is sent."""

    pieces: tuple[bytes, ...]
    streamed: bool
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    framing: str = ""
    """``chunked``, ``length``, ``close``, or a content-length that is wrong, as a number."""
    pauses: tuple[tuple[int, float], ...] = ()
    """Before which piece, for how long; the number of all pieces means the end, -1 the status line."""
    ending: str = ""
    """``cut`` or ``rst``: no end of the body. ``before`` cuts before the status line, ``headers`` inside of the headers."""
    path: str = "/"
    key: str = ""
    """The key that the request came with."""
    preamble: bytes = b""

    def with_header(self, name: str, text: str) -> "Outgoing":
        """Another header, in place of one of its name."""
        kept = tuple(pair for pair in self.headers if pair[0] != name)
        return self._replace(headers=(*kept, (name, text)))


Change = Callable[[Outgoing], Outgoing]


class Kind(NamedTuple):
    """One way to answer wrongly. ``calls``: it is about answers that call tools."""

    change: Change
    calls: bool = False


KINDS: Final[dict[str, Kind]] = {}
C = TypeVar("C", bound=Change)


def _kind(name: str, *, calls: bool = False) -> Callable[[C], C]:
    def entered(change: C) -> C:
        assert name not in KINDS
        KINDS[name] = Kind(change, calls)
        return change

    return entered


def altered(name: str, good: Outgoing) -> Outgoing:
    """A good answer as this kind of server would send it."""
    return KINDS[name].change(good)


def rendered(out: Outgoing) -> Iterator[bytes | float | str]:
    """What goes to the socket: bytes, pauses in seconds, and "" or "rst" where the connection is cut."""
    pauses = dict(out.pauses)
    if -1 in pauses:
        yield pauses[-1]
    if out.ending.startswith("before"):
        yield out.ending.removeprefix("before").strip()
        return
    yield out.preamble
    if out.ending == "preamble":
        return
    framing = out.framing or ("chunked" if out.streamed else "length")
    size = str(len(b"".join(out.pieces))) if framing == "length" else framing
    framed = {
        "chunked": "transfer-encoding: chunked\r\n",
        "close": "connection: close\r\n",
        "none": "",
    }.get(framing, f"content-length: {size}\r\n")
    head = f"HTTP/1.1 {out.status} Said\r\n" + "".join(f"{name}: {text}\r\n" for name, text in out.headers)
    if out.ending == "headers":
        yield head.encode()[:-4]
        yield ""
    yield f"{head}{framed}\r\n".encode()
    for place, piece in enumerate(out.pieces):
        if place in pauses:
            yield pauses[place]
        if piece:
            yield b"%x\r\n%s\r\n" % (len(piece), piece) if framing == "chunked" else piece
    if len(out.pieces) in pauses:
        yield pauses[len(out.pieces)]
    if out.ending in {"cut", "rst"}:
        yield out.ending.removeprefix("cut")
    elif framing == "chunked":
        yield b"0\r\n\r\n"


# -- JSON in pieces -------------------------------------------------------------------------------------------------

_DATA: Final = re.compile(rb"^(?:event: .*\n)?data: (\{.*\})\n\n$", re.DOTALL)


def _json_of(piece: bytes) -> Any:
    found = _DATA.match(piece)
    try:
        return json.loads(found[1] if found else piece)
    except ValueError:
        return None


def _with_json(piece: bytes, text: bytes) -> bytes:
    found = _DATA.match(piece)
    if found:
        return piece[: found.start(1)] + text + piece[found.end(1) :]
    return text + (b"\n" if piece.endswith(b"\n") else b"")


def _each(good: Outgoing, change: Callable[[Any], Any]) -> Outgoing:
    """Every JSON text of the answer, changed."""
    pieces = []
    for piece in good.pieces:
        value = _json_of(piece)
        changed = value if value is None else change(value)
        pieces.append(piece if value is None else _with_json(piece, json.dumps(changed).encode()))
    return good._replace(pieces=tuple(pieces))


def _walked(value: Any, names: frozenset[str], change: Callable[[Any], Any]) -> Any:
    """The value with every member of these names changed, wherever it stands; ``KeyError`` takes it away."""
    if isinstance(value, list):
        return [_walked(one, names, change) for one in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, one in value.items():
        try:
            made[name] = change(one) if name in names else _walked(one, names, change)
        except KeyError:
            continue
    return made


def _at(good: Outgoing, names: frozenset[str], change: Callable[[Any], Any]) -> Outgoing:
    return _each(good, lambda value: _walked(value, names, change))


def _gone(_: Any) -> Any:
    raise KeyError


_ANSWERS: Final = frozenset({"choices", "candidates", "output"})
_TEXTS: Final = frozenset({"content", "text", "delta", "response"})
_ENDS: Final = frozenset({"finish_reason", "stop_reason", "finishReason", "done_reason"})
_USAGE: Final = frozenset({"usage", "usageMetadata"})
_COUNTS: Final = frozenset(
    {
        "prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens", "promptTokenCount",
        "candidatesTokenCount", "totalTokenCount", "prompt_eval_count", "eval_count",
    }
)  # fmt: skip
_MODELS: Final = frozenset({"model", "modelVersion"})
_ROLES: Final = frozenset({"role"})
_CALLS: Final = frozenset({"tool_calls"})
_IDS: Final = frozenset({"id", "call_id", "responseId"})
_ARGUMENTS: Final = frozenset({"arguments", "partial_json"})


def _texts(good: Outgoing, change: Callable[[str], Any]) -> Outgoing:
    return _at(good, _TEXTS, lambda one: change(one) if isinstance(one, str) else _walked(one, _TEXTS, lambda t: change(t) if isinstance(t, str) else t))  # fmt: skip


# -- what the answer says -------------------------------------------------------------------------------------------


@_kind("no answers in the answer")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _ANSWERS, lambda _: [])


@_kind("the list of answers is null")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _ANSWERS, lambda _: None)


@_kind("the list of answers is missing")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _ANSWERS, _gone)


@_kind("the content is null")
def _(good: Outgoing) -> Outgoing:
    return _texts(good, lambda _: None)


@_kind("the content is empty")
def _(good: Outgoing) -> Outgoing:
    return _texts(good, lambda _: "")


@_kind("the content is a number")
def _(good: Outgoing) -> Outgoing:
    return _texts(good, lambda _: 7)


@_kind("the answer is a list")
def _(good: Outgoing) -> Outgoing:
    return _each(good, lambda value: [value])


@_kind("the answer is null")
def _(good: Outgoing) -> Outgoing:
    return _each(good, lambda _: None)


@_kind("an empty object")
def _(good: Outgoing) -> Outgoing:
    return _each(good, lambda _: {})


@_kind("an inner object is a text")
def _(good: Outgoing) -> Outgoing:
    return _at(
        good,
        frozenset({"message", "delta", "parts"}),
        lambda one: " " if isinstance(one, dict | list) else one,
    )


@_kind("another model than was asked")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _MODELS, lambda _: "something-else-v1")


@_kind("no model")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _MODELS, _gone)


@_kind("the reason for the end is missing")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _ENDS, _gone)


@_kind("the reason for the end is unknown")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _ENDS, lambda one: one and "because")


@_kind("the content filter struck")
def _(good: Outgoing) -> Outgoing:
    return _at(
        good, _ENDS, lambda one: one and {"STOP": "SAFETY", "end_turn": "refusal"}.get(one, "content_filter")
    )


@_kind("the usage is missing")
def _(good: Outgoing) -> Outgoing:
    return _at(_at(good, _USAGE, _gone), _COUNTS, _gone)


@_kind("the usage is null")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _USAGE, lambda _: None)


@_kind("the usage is negative")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _COUNTS, lambda _: -5)


@_kind("the usage is huge")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _COUNTS, lambda _: 10**18)


@_kind("the usage is larger than any integer of 64 bits")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _COUNTS, lambda _: 2**70)


@_kind("the usage is a text")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _COUNTS, str)


@_kind("the role changes")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _ROLES, lambda _: "tool")


@_kind("no role")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _ROLES, _gone)


@_kind("no ids")
def _(good: Outgoing) -> Outgoing:
    return _at(good, _IDS, _gone)


@_kind("fields that nobody knows")
def _(good: Outgoing) -> Outgoing:
    return _each(good, lambda value: {**value, "x_new": {"deep": [1, {"more": None}]}, "$": "tag"} if isinstance(value, dict) else value)  # fmt: skip


@_kind("NaN among the numbers")
def _(good: Outgoing) -> Outgoing:
    return _each(good, lambda value: {**value, "score": float("nan")} if isinstance(value, dict) else value)


@_kind("half of a surrogate pair")
def _(good: Outgoing) -> Outgoing:
    return _texts(good, lambda text: text and f"{text}\ud83d")


@_kind("a NUL in the text")
def _(good: Outgoing) -> Outgoing:
    return _texts(good, lambda text: text and f"{text}\0")


@_kind("deeply nested")
def _(good: Outgoing) -> Outgoing:
    return _splice(good, b'"deep":' + b"[" * 300 + b"]" * 300)


@_kind("nested deeper than a parser goes")
def _(good: Outgoing) -> Outgoing:
    return _splice(good, b'"deep":' + b"[" * 5000 + b"]" * 5000)


@_kind("the same key twice")
def _(good: Outgoing) -> Outgoing:
    return _splice(good, b'"model":"first"')


def _splice(good: Outgoing, member: bytes) -> Outgoing:
    """A member at the start of the last object that is JSON, as text."""
    places = [place for place, piece in enumerate(good.pieces) if isinstance(_json_of(piece), dict)]
    pieces = list(good.pieces)
    for place in places[-1:]:
        pieces[place] = pieces[place].replace(b"{", b"{" + member + b",", 1)
    return good._replace(pieces=tuple(pieces))


# -- calls of tools -------------------------------------------------------------------------------------------------


@_kind("calls with one id", calls=True)
def _(good: Outgoing) -> Outgoing:
    return _at(
        good,
        _IDS,
        lambda one: "call_1" if isinstance(one, str) and one.startswith(("call", "toolu")) else one,
    )


@_kind("calls without an id", calls=True)
def _(good: Outgoing) -> Outgoing:
    def gone(one: Any) -> Any:
        if isinstance(one, str) and one.startswith(("call", "toolu")):
            raise KeyError
        return one

    return _at(good, _IDS, gone)


@_kind("arguments that are no JSON", calls=True)
def _(good: Outgoing) -> Outgoing:
    return _at(good, _ARGUMENTS, lambda one: one and f"{one[:-1]}, oops" if isinstance(one, str) else one)


@_kind("arguments that are an object", calls=True)
def _(good: Outgoing) -> Outgoing:
    return _at(good, _ARGUMENTS, lambda _: {"amount": 3})


@_kind("no arguments", calls=True)
def _(good: Outgoing) -> Outgoing:
    return _at(good, _ARGUMENTS, _gone)


@_kind("calls that are null", calls=True)
def _(good: Outgoing) -> Outgoing:
    return _at(good, _CALLS, lambda _: None)


@_kind("a call without a name", calls=True)
def _(good: Outgoing) -> Outgoing:
    return _at(good, frozenset({"name"}), lambda _: None)


# -- how it is written ----------------------------------------------------------------------------------------------


@_kind("a byte order mark")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=(b"\xef\xbb\xbf" + good.pieces[0], *good.pieces[1:]))


@_kind("truncated JSON")
def _(good: Outgoing) -> Outgoing:
    last = good.pieces[-1]
    if not good.streamed:
        return good._replace(pieces=(last[: len(last) // 2],))
    middle = len(good.pieces) // 2
    return good._replace(pieces=(*good.pieces[:middle], good.pieces[middle][:25] + b"\n\n"))


@_kind("not JSON")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=(b"upstream connect error",))


@_kind("an empty body")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=())


@_kind("blanks around the JSON")
def _(good: Outgoing) -> Outgoing:
    if good.streamed:
        return good
    return good._replace(pieces=(b" \n\t", *good.pieces, b"\r\n "))


@_kind("bytes that are not UTF-8")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=(*good.pieces[:-1], good.pieces[-1].replace(b"e", b"\xff", 1)))


@_kind("one huge line")
def _(good: Outgoing) -> Outgoing:
    return _splice(good, b'"padding":"' + b"x" * 3_000_000 + b'"')


@_kind("a page of HTML")
def _(good: Outgoing) -> Outgoing:
    page = b"<!doctype html><html><body>Please log in</body></html>"
    return good._replace(pieces=(page,), framing="length").with_header("content-type", "text/html")


@_kind("an error as a success")
def _(good: Outgoing) -> Outgoing:
    body = b'{"error": {"message": "upstream is overloaded", "type": "server_error", "code": 503}}'
    return good._replace(pieces=(body,), framing="length").with_header("content-type", "application/json")


@_kind("a wrong content type")
def _(good: Outgoing) -> Outgoing:
    return good.with_header("content-type", "text/plain")


@_kind("no content type")
def _(good: Outgoing) -> Outgoing:
    return good._replace(headers=tuple(pair for pair in good.headers if pair[0] != "content-type"))


@_kind("the wrong status of success")
def _(good: Outgoing) -> Outgoing:
    return good._replace(status=202)


# -- streams --------------------------------------------------------------------------------------------------------


@_kind("comments between the events")
def _(good: Outgoing) -> Outgoing:
    if not _is_sse(good):
        return good
    return good._replace(pieces=tuple(part for piece in good.pieces for part in (b": keep-alive\n\n", piece)))


@_kind("events of other kinds")
def _(good: Outgoing) -> Outgoing:
    if not _is_sse(good):
        return good
    return good._replace(pieces=(b"retry: 3000\nid: 7\n\n", *good.pieces))


@_kind("lines that end with CR LF")
def _(good: Outgoing) -> Outgoing:
    if not good.streamed:
        return good
    return good._replace(pieces=tuple(piece.replace(b"\n", b"\r\n") for piece in good.pieces))


@_kind("pieces that are cut inside of characters")
def _(good: Outgoing) -> Outgoing:
    whole = b"".join(good.pieces)
    return good._replace(pieces=tuple(whole[at : at + 5] for at in range(0, len(whole), 5)))


@_kind("all events in one piece")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=(b"".join(good.pieces),))


@_kind("the end mark is missing")
def _(good: Outgoing) -> Outgoing:
    return (
        good._replace(pieces=tuple(piece for piece in good.pieces if b"[DONE]" not in piece))
        if good.streamed
        else good
    )


@_kind("the end mark twice")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=(*good.pieces, good.pieces[-1])) if good.streamed else good


@_kind("more after the end")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=(*good.pieces, *good.pieces[1:3])) if good.streamed else good


@_kind("chunks out of order")
def _(good: Outgoing) -> Outgoing:
    if not good.streamed or len(good.pieces) < 8:
        return good
    head, (one, other), rest = good.pieces[:4], good.pieces[4:6], good.pieces[6:]
    return good._replace(pieces=(*head, other, one, *rest))


@_kind("a chunk twice")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=(*good.pieces[:5], *good.pieces[4:])) if good.streamed else good


@_kind("an event in the middle that is no JSON")
def _(good: Outgoing) -> Outgoing:
    if not good.streamed:
        return good
    bad = b"data: {oops\n\n" if _is_sse(good) else b"{oops\n"
    return good._replace(pieces=(*good.pieces[:5], bad, *good.pieces[5:]))


@_kind("an error in the middle")
def _(good: Outgoing) -> Outgoing:
    if not good.streamed:
        return good
    error = b'{"type": "error", "error": {"message": "overloaded", "type": "overloaded_error", "code": 503}}'
    bad = b"event: error\ndata: " + error + b"\n\n" if _is_sse(good) else b'{"error": "overloaded"}\n'
    return good._replace(pieces=(*good.pieces[:5], bad))


@_kind("ends early, like a good stream")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=good.pieces[:5]) if good.streamed else good


def _is_sse(good: Outgoing) -> bool:
    return good.streamed and b"data: " in good.pieces[0]


# -- the connection -------------------------------------------------------------------------------------------------


@_kind("a slow drip")
def _(good: Outgoing) -> Outgoing:
    count = min(8, len(good.pieces))
    return good._replace(pauses=tuple((place, SLOW_S) for place in range(count)))


@_kind("silence before the first byte")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pauses=((-1, SILENT_S),))


@_kind("silence behind the headers")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pauses=((0, SILENT_S),))


@_kind("silence before the end")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pauses=((len(good.pieces), SILENT_S),))


@_kind("closed before the answer")
def _(good: Outgoing) -> Outgoing:
    return good._replace(ending="before")


@_kind("reset before the answer")
def _(good: Outgoing) -> Outgoing:
    return good._replace(ending="before rst")


@_kind("closed inside of the headers")
def _(good: Outgoing) -> Outgoing:
    return good._replace(ending="headers")


@_kind("closed behind the headers")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=(), framing=good.framing if good.streamed else "500", ending="cut")


@_kind("closed in the middle of the body")
def _(good: Outgoing) -> Outgoing:
    return _half(good)._replace(ending="cut")


@_kind("reset in the middle of the body")
def _(good: Outgoing) -> Outgoing:
    return _half(good)._replace(ending="rst")


def _half(good: Outgoing) -> Outgoing:
    if good.streamed:
        return good._replace(pieces=good.pieces[: len(good.pieces) // 2])
    body = b"".join(good.pieces)
    return good._replace(pieces=(body[: len(body) // 2],), framing=str(len(body)))


@_kind("closed before the last chunk")
def _(good: Outgoing) -> Outgoing:
    return good._replace(ending="cut") if good.streamed else good


@_kind("a length that is too large")
def _(good: Outgoing) -> Outgoing:
    return good._replace(framing=str(len(b"".join(good.pieces)) + 10), ending="cut")


@_kind("a length that is too small")
def _(good: Outgoing) -> Outgoing:
    return good._replace(framing=str(len(b"".join(good.pieces)) // 2))


@_kind("no length at all")
def _(good: Outgoing) -> Outgoing:
    return good._replace(framing="close")


@_kind("a status line that is none")
def _(good: Outgoing) -> Outgoing:
    return good._replace(preamble=b"HTTP/9.9 abc\r\n\r\n", ending="preamble")


@_kind("an interim answer before the answer")
def _(good: Outgoing) -> Outgoing:
    return good._replace(preamble=b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")


@_kind("gzip")
def _(good: Outgoing) -> Outgoing:
    packed = gzip.compress(b"".join(good.pieces))
    return good._replace(pieces=(packed,)).with_header("content-encoding", "gzip")


@_kind("broken gzip")
def _(good: Outgoing) -> Outgoing:
    packed = gzip.compress(b"".join(good.pieces))
    return good._replace(pieces=(packed[:20] + b"\0\0\0" + packed[23:],)).with_header(
        "content-encoding", "gzip"
    )


@_kind("gzip that is none")
def _(good: Outgoing) -> Outgoing:
    return good.with_header("content-encoding", "gzip")


# -- refusals -------------------------------------------------------------------------------------------------------


def _refused(good: Outgoing, status: int, message: str, **headers: str) -> Outgoing:
    error = {
        "message": message,
        "type": "invalid_request_error" if status < 429 else "server_error",
        "code": None,
    }
    body = json.dumps({"type": "error", "error": error}).encode()
    told = (
        ("content-type", "application/json"),
        *((name.replace("_", "-"), text) for name, text in headers.items()),
    )
    return good._replace(pieces=(body,), streamed=False, status=status, headers=told, framing="length")


REFUSALS: Final = {
    "400": (400, "Invalid value."),
    "401": (401, "Incorrect API key provided."),
    "402": (402, "Payment required."),
    "403": (403, "Not from your country."),
    "404": (404, "There is no such model."),
    "408": (408, "Request timed out."),
    "409": (409, "Conflict."),
    "413": (413, "Request too large."),
    "422": (422, "Unprocessable."),
    "500": (500, "The server had an error."),
    "502": (502, "Bad gateway."),
    "503": (503, "Overloaded."),
    "504": (504, "Timeout."),
    "529": (529, "Overloaded."),
}
for _name, (_status, _message) in REFUSALS.items():
    KINDS[_name] = Kind(lambda good, status=_status, message=_message: _refused(good, status, message))  # type: ignore[misc]


@_kind("401 that repeats the key")
def _(good: Outgoing) -> Outgoing:
    return _refused(good, 401, f"Incorrect API key provided: {good.key}.")


@_kind("an error as a success that repeats the key")
def _(good: Outgoing) -> Outgoing:
    body = json.dumps(
        {"error": {"message": f"bad key {good.key}", "type": "server_error", "code": 503}}
    ).encode()
    return good._replace(pieces=(body,), framing="length").with_header("content-type", "application/json")


RETRY_AFTERS: Final = {
    "soon": {"retry_after": "0"},
    "in milliseconds": {"retry_after_ms": "10"},
    "a fraction": {"retry_after": "0.01"},
    "a date": {"retry_after": formatdate(1_700_000_000, usegmt=True)},
    "a date without a zone": {"retry_after": "Tue, 14 Nov 2023 22:13:20"},
    "a date of the year 1": {"retry_after": "Mon, 01 Jan 0001 00:00:00"},
    "nonsense": {"retry_after": "soon, I hope"},
    "negative": {"retry_after": "-5"},
    "not a number": {"retry_after": "NaN"},
    "of OpenAI": {"x_ratelimit_reset_requests": "10ms"},
    "of Anthropic": {"anthropic_ratelimit_requests_reset": "2023-11-14T22:13:20Z"},
    "empty": {"retry_after": ""},
}
for _name, _headers in RETRY_AFTERS.items():
    KINDS[f"429, retry-after {_name}"] = Kind(
        lambda good, headers=_headers: _refused(good, 429, "Slow down.", **headers)  # type: ignore[misc]
    )

LONG_AFTERS: Final = {
    "an hour": "3600",
    "absurd": "1e300",
    "a date of the year 9999": "Fri, 31 Dec 9999 23:59:59 GMT",
}
for _name, _text in LONG_AFTERS.items():
    KINDS[f"429, retry-after {_name}"] = Kind(
        lambda good, text=_text: _refused(good, 429, "Slow down.", retry_after=text)  # type: ignore[misc]
    )


@_kind("a refusal without a body")
def _(good: Outgoing) -> Outgoing:
    return _refused(good, 500, "")._replace(pieces=())


@_kind("a refusal that is a page")
def _(good: Outgoing) -> Outgoing:
    page = b"<html><head><title>502 Bad Gateway</title></head></html>"
    return _refused(good, 502, "")._replace(pieces=(page,)).with_header("content-type", "text/html")


@_kind("a refusal whose error is a text")
def _(good: Outgoing) -> Outgoing:
    return _refused(good, 400, "")._replace(pieces=(b'{"error": "model requires more system memory"}',))


@_kind("a refusal whose error is null")
def _(good: Outgoing) -> Outgoing:
    return _refused(good, 400, "")._replace(pieces=(b'{"error": null}',))


@_kind("a refusal that is a list")
def _(good: Outgoing) -> Outgoing:
    return _refused(good, 400, "")._replace(pieces=(b"[1, 2]",))


@_kind("a refusal that is cut off")
def _(good: Outgoing) -> Outgoing:
    return _refused(good, 400, "Invalid value.")._replace(framing="500", ending="cut")


@_kind("no content")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=(), streamed=False, status=204, framing="none")


@_kind("moved, 307")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=(), streamed=False, status=307, framing="length").with_header(
        "location", good.path
    )


@_kind("moved, 308")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=(), streamed=False, status=308, framing="length").with_header(
        "location", good.path
    )


@_kind("moved to nowhere")
def _(good: Outgoing) -> Outgoing:
    return good._replace(pieces=(), streamed=False, status=307, framing="length")
