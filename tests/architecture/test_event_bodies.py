"""Nobody looks into an event's body but ``model.event_fields``: what users say must never be taken for what Holdfast says.

Run on the sources of format 1, it named 271 places; 34 of them looked for bytes, and three of those did harm. Planted since, one of
each kind of look, and caught: see ``LOOKS``.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.sources import nodes_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "holdfast"
THE_ONE = PACKAGE / "model" / "event_fields.py"

RECORDS = {"record", "row", "head", "old", "note"}
"""What else has a body: records and rows, whose form is another one."""
BODIES = {"body", "intent", "outcome"}
"""What a body is called when it stands alone."""
GIVE_BODIES = {"body_of", "intent_of", "body_at"}
PARSERS = {"loads", "decode", "unpack_body"}
LOOKERS = {
    "startswith", "endswith", "partition", "rpartition", "index", "rindex", "find", "rfind", "split", "rsplit", "count",
    "replace", "removeprefix", "removesuffix", "splitlines", "strip", "lstrip", "rstrip",
}  # fmt: skip
SEARCHES = {"search", "match", "fullmatch", "findall", "finditer", "sub"}
OTHERS = {
    "core/transfer/moves.py",  # a record's
    "core/journal/event_check.py",  # a letter's
    "engine/lineage/pins.py",  # a record's
    "engine/resume/recorded_command.py",  # a record's
    "engine/hooks/delivery_records.py",  # a record's
    "engine/hooks/store_hooks.py",  # a record's
    "api/store/hooks.py",  # a request's
    "codec/json_lines.py",  # a line's, before it is known what it is the body of
    "engine/memory/facts.py",  # a fact's
    "engine/transfer/verify_export.py",  # a letter's
    "engine/transfer/run_records.py",  # a record's
    "stores/dynamodb/table/split_bodies.py",  # opaque bytes, stored in pieces
    "stores/encrypted/marker.py",  # a record's
    "stores/encrypted/sealed_events.py",  # sealed, with a first line of its own
    "stores/encrypted/sealed_records.py",  # a record's, sealed
    "stores/encrypted/sealed_rows.py",  # a row's, sealed
}


def is_body(node: ast.expr) -> bool:
    """Whether an expression gives the body of an event, as far as its names tell."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="body"):
            return name not in RECORDS
        case ast.Attribute(attr="body") | ast.Attribute(value=ast.Name(id="view"), attr="result"):
            return True
        case ast.Name(id=name):
            return name in BODIES
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in GIVE_BODIES
        case ast.BoolOp(values=values):
            return any(map(is_body, values))
        case ast.IfExp(body=one, orelse=other):
            return is_body(one) or is_body(other)
        case ast.NamedExpr(value=value):
            return is_body(value)
        case _:
            return False


def looks(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Where something is parsed, searched or cut that is a body, and how."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[first, *_]) if (
                name in PARSERS and is_body(first)
            ):
                yield node.lineno, "is parsed"
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in LOOKERS and is_body(value):
                yield node.lineno, f"is asked for {name}"
            case ast.Call(func=ast.Attribute(attr=name), args=args) if name in SEARCHES and any(
                map(is_body, args)
            ):
                yield node.lineno, "is searched"
            case ast.Compare(
                left=ast.Constant(value=bytes()), ops=[ast.In() | ast.NotIn()], comparators=[right]
            ):
                if is_body(right) or _is_field_of_something(right):
                    yield node.lineno, "is searched"
            case ast.Subscript(value=value, slice=ast.Slice()) if is_body(value):
                yield node.lineno, "is cut"
            case ast.Call(func=ast.Name(id="Draft" | "Event"), args=args):
                if any(isinstance(arg, ast.Call) and _name(arg) == "dumps" for arg in args):
                    yield node.lineno, "is written"
            case ast.Call(func=ast.Attribute(attr="_replace"), keywords=keywords):
                if any(
                    one.arg == "body" and isinstance(one.value, ast.Call) and _name(one.value) == "dumps"
                    for one in keywords
                ):
                    yield node.lineno, "is written"


def _is_field_of_something(node: ast.expr) -> bool:
    """``getattr(event, "body", b"")``."""
    return (
        isinstance(node, ast.Call)
        and _name(node) == "getattr"
        and any(isinstance(arg, ast.Constant) and arg.value == "body" for arg in node.args)
    )


def _name(call: ast.Call) -> str:
    func = call.func
    return func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""


def test_only_one_module_looks_into_bodies() -> None:
    """Whoever wants to know something of an event asks ``event_fields``."""
    found = [
        f"{path.relative_to(PACKAGE)}:{line} a body {how}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != THE_ONE and str(path.relative_to(PACKAGE)) not in OTHERS
        for line, how in looks(nodes_of(path))
    ]
    assert found == []


LOOKS = [
    "loads(event.body)",
    "orjson.loads(call.body or b'{}')",
    "loads(held.body_of(outcome))",
    "loads(self.intent_of(call))['effect']",
    "decode(view.checkpoint.body)",
    "json.loads(view.result)",
    "b'x' in event.body",
    "b'x' not in e.body",
    "any(b'x' in e.body for e in events)",
    "b'x' in getattr(event, 'body', b'')",
    "event.body.startswith(NOTED)",
    "held.body_of(outcome).endswith(END)",
    "intent.partition(b'x')",
    "body[len(USAGE) : end]",
    "event.body[:9] == b'x'",
    "PATTERN.search(intent, 0, 9)",
    "Draft(kind, name, key, dumps(fields))",
    "event._replace(body=dumps(fields))",
]
PERMITTED = [
    "loads(record.body)",
    "fields_of(event.body)['in']",
    "len(event.body)",
    "event.body == other.body",
    "blobs_in(call.body or b'')",
    "b'x' in data",
    "draft(kind, name, key, fields, dumps(value))",
]


def test_each_kind_of_look_is_seen() -> None:
    """What the sources of format 1 did, and what one may try next."""
    assert [line for line in LOOKS if not any(looks(ast.walk(ast.parse(line))))] == []


def test_what_is_no_look_is_let_be() -> None:
    """Asking the one module, sizes, comparing whole bodies, and the bodies of records."""
    assert [line for line in PERMITTED if any(looks(ast.walk(ast.parse(line))))] == []
