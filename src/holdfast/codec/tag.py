"""A value to its tree: what orjson can write and read back unchanged, with a tag wherever it could not.

It knows the containers and which types need a tag. It refuses everything that would come back as something
else. The invariant: ``orjson.dumps`` of the tree loses nothing, because nothing that orjson would change
(NaN, tuples, enums, UUIDs, datetimes, dataclasses, subclasses) is left in it.

A tag is an object whose first key is ``$``. A container in which nothing needs a tag is returned as it is,
not copied. Cycles are not tracked: they hit the depth limit. The depth is that of the written JSON, so a
tuple counts for two levels; it keeps the tree within what orjson can write.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import orjson

from holdfast.codec.refusals import RefusedError, member, too_deep, unstorable
from holdfast.codec.scalars import FLOAT, INT, TEXT, Form, find_form
from holdfast.codec.type_registry import registration_of
from holdfast.codec.user_classes import find_record
from holdfast.limits import VALUE_DEPTH_MAX
from holdfast.model.markers import Ephemeral, MarkedText, SecretArgument

FACTORIES: Final[dict[str, type]] = {
    kind.__name__: kind for kind in (list, int, dict, set, str, float, tuple, bool, bytes, frozenset)
}
"""The allowed factories of a defaultdict."""

EPHEMERAL: Final = "ephemeral"
"""The tag in place of a process-bound value; it is read as None."""

_FLOAT: Final = frozenset({float})
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1


class Mode:
    """How to walk. ``plain`` has the types that need no look; ``sorts`` ignores the order of dicts and sets.

    ``leaves_out`` drops ephemeral values from the tree instead of refusing them, and ``left_out`` counts
    them.
    """

    # slots, not a NamedTuple: it is read once per container, and slots are faster
    __slots__ = ("careful", "leaves_out", "left_out", "plain", "sorts")

    def __init__(
        self,
        plain: frozenset[type],
        *,
        sorts: bool = False,
        careful: bool = False,
        leaves_out: bool = False,
    ) -> None:
        self.plain = plain
        self.sorts = sorts
        self.careful = careful
        self.leaves_out = leaves_out
        self.left_out = 0


# Quick mode trusts every str and int: orjson raises for those that it cannot write. Careful mode checks each.
_QUICK_PLAIN: Final = frozenset({type(None), bool, int, str})
_CAREFUL_PLAIN: Final = frozenset({type(None), bool})
QUICK: Final = Mode(_QUICK_PLAIN)
CAREFUL: Final = Mode(_CAREFUL_PLAIN, careful=True)
QUICK_SORTED: Final = Mode(_QUICK_PLAIN, sorts=True)
CAREFUL_SORTED: Final = Mode(_CAREFUL_PLAIN, sorts=True, careful=True)


def of_state(*, careful: bool) -> Mode:
    """The mode for one state, which may contain process-bound values."""
    return Mode(_CAREFUL_PLAIN if careful else _QUICK_PLAIN, careful=careful, leaves_out=True)


def tag(value: Any, depth: int, mode: Mode) -> Any:
    """The value's tree, ``depth`` levels below the top. Raises RefusedError."""
    kind = type(value)
    if kind in mode.plain:
        return value
    return _HANDLERS.get(kind, _tag_other)(value, depth, mode)


def _tag_list(value: list[Any], depth: int, mode: Mode) -> list[Any]:
    if depth >= VALUE_DEPTH_MAX:
        raise too_deep()
    if mode.plain.issuperset(map(type, value)) or _is_finite_floats(value):
        return value
    plain = mode.plain
    out = value
    index = 0
    try:
        for index, item in enumerate(value):
            kind = type(item)
            if kind in plain:
                continue
            handler = _HANDLERS.get(kind, _tag_other)  # tag() inlined: it saves a call per element
            new = handler(item, depth + 1, mode)
            if new is not item:
                if out is value:
                    out = value.copy()
                out[index] = new
    except RefusedError as refused:
        refused.inside(value, f"[{index}]")
        raise
    return out


def _is_finite_floats(value: list[Any]) -> bool:
    """Whether it is a list of floats, like an embedding. Checked without a Python step per element."""
    if not _FLOAT.issuperset(map(type, value)):
        return False
    total: float = sum(value)
    # false for infinities and NaN; also for an overflow of the sum, which only costs the slow path
    return total - total == 0.0


def _tag_dict(value: dict[Any, Any], depth: int, mode: Mode) -> dict[str, Any]:
    if depth >= VALUE_DEPTH_MAX:
        raise too_deep()
    if "$" in value or (mode.careful and not all(map(_is_plain_key, value))):
        return _tag_pairs("dict", value, depth, mode)
    plain = mode.plain
    out = value
    key = None
    try:
        for key, item in value.items():
            if type(key) is not str:
                break
            kind = type(item)
            # x - x is 0.0 for every float but the infinities and NaN
            if kind in plain or (kind is float and item - item == 0.0):
                continue
            handler = _HANDLERS.get(kind, _tag_other)
            new = handler(item, depth + 1, mode)
            if new is not item:
                if out is value:
                    out = value.copy()
                out[key] = new
        else:
            return out
    except RefusedError as refused:
        refused.inside(value, member(key))
        raise
    return _tag_pairs("dict", value, depth, mode)


def _is_plain_key(key: object) -> bool:
    return type(key) is str and _is_text(key)


def _is_text(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _tag_pairs(name: str, value: dict[Any, Any], depth: int, mode: Mode) -> dict[str, Any]:
    """A mapping as a list of pairs.

    For keys that JSON does not have, and where the class must be recorded.
    """
    pairs = []
    key = None
    if depth >= VALUE_DEPTH_MAX:
        raise too_deep()
    try:
        for key, item in value.items():
            pairs.append([tag(key, depth + 3, mode), tag(item, depth + 3, mode)])
    except RefusedError as refused:
        refused.inside(value, member(key))
        raise
    # OrderedDicts in different order are not equal; all other mappings are
    if mode.sorts and name != "ordered-dict":
        pairs.sort(key=lambda pair: _sort_key(pair[0]))
    return {"$": name, "v": pairs}


def _sort_key(tree: Any) -> bytes:
    return orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)


def _tag_tuple(value: tuple[Any, ...], depth: int, mode: Mode) -> dict[str, Any]:
    return {"$": "tuple", "v": _tag_items(value, value, depth, mode)}


def _tag_items(value: object, items: Iterable[Any], depth: int, mode: Mode) -> list[Any]:
    if depth >= VALUE_DEPTH_MAX:
        raise too_deep()
    out: list[Any] = []
    try:
        # extend, not a list display: after a refusal, the length of ``out`` is the index of the fault
        out.extend(tag(item, depth + 2, mode) for item in items)
    except RefusedError as refused:
        refused.inside(value, f"[{len(out)}]")
        raise
    return out


def _tag_set(value: set[Any] | frozenset[Any], depth: int, mode: Mode) -> dict[str, Any]:
    # sort by the written form: the iteration order of sets differs between processes
    items = sorted(_tag_items(value, value, depth, mode), key=_sort_key)
    return {"$": type(value).__name__, "v": items}


def _tag_deque(value: deque[Any], depth: int, mode: Mode) -> dict[str, Any]:
    tree = {"$": "deque", "v": _tag_items(value, value, depth, mode)}
    return tree if value.maxlen is None else tree | {"maxlen": value.maxlen}


def _tag_ordered_dict(value: OrderedDict[Any, Any], depth: int, mode: Mode) -> dict[str, Any]:
    _refuse_attributes(value)
    return _tag_pairs("ordered-dict", value, depth, mode)


def _tag_counter(value: Counter[Any], depth: int, mode: Mode) -> dict[str, Any]:
    _refuse_attributes(value)
    return _tag_pairs("counter", value, depth, mode)


def _tag_defaultdict(value: defaultdict[Any, Any], depth: int, mode: Mode) -> dict[str, Any]:
    factory: Any = value.default_factory
    tree = _tag_pairs("defaultdict", value, depth, mode)
    if factory is None:
        return tree
    name = getattr(factory, "__name__", "")
    if FACTORIES.get(name) is not factory:
        raise RefusedError(
            "a defaultdict with a factory of its own", "use a builtin factory, or convert it with dict(...)"
        )
    return {"$": "defaultdict", "of": name, "v": tree["v"]}


def _refuse_attributes(value: object) -> None:
    if vars(value):
        raise RefusedError(f"{type(value).__name__} with attributes of its own", "make it a dataclass")


def _tag_float(value: float, depth: int, mode: Mode) -> Any:  # noqa: ARG001  one signature for all
    return value if value - value == 0.0 else {"$": FLOAT.tag, **FLOAT.write(value)}


def _tag_int(value: int, depth: int, mode: Mode) -> Any:  # noqa: ARG001
    return value if _INT_MIN <= value <= _INT_MAX else {"$": INT.tag, **INT.write(value)}


def _tag_str(value: str, depth: int, mode: Mode) -> Any:  # noqa: ARG001
    return value if _is_text(value) else {"$": TEXT.tag, **TEXT.write(value)}


def _tag_marked(value: MarkedText, depth: int, mode: Mode) -> Any:
    return _tag_str(str(value), depth, mode)


def _tag_ephemeral(value: Ephemeral, depth: int, mode: Mode) -> Any:  # noqa: ARG001
    if not mode.leaves_out:
        raise RefusedError(
            "a value marked ephemeral", "only arguments and the state of a checkpoint may hold such values"
        )
    mode.left_out += 1
    return {"$": EPHEMERAL}


def _tag_secret(value: SecretArgument, depth: int, mode: Mode) -> Any:  # noqa: ARG001
    return {"$": "secrets", "v": ["", value.name, ""]}


_HANDLERS: Final[dict[type, Callable[[Any, int, Mode], Any]]] = {
    list: _tag_list,
    dict: _tag_dict,
    tuple: _tag_tuple,
    set: _tag_set,
    frozenset: _tag_set,
    deque: _tag_deque,
    OrderedDict: _tag_ordered_dict,
    Counter: _tag_counter,
    defaultdict: _tag_defaultdict,
    float: _tag_float,
    int: _tag_int,
    str: _tag_str,
    Ephemeral: _tag_ephemeral,
    MarkedText: _tag_marked,
    SecretArgument: _tag_secret,
}


def _tag_other(value: Any, depth: int, mode: Mode) -> Any:
    kind = type(value)
    form = find_form(kind)
    if form is not None:
        return _tag_form(value, form, depth, mode)
    entry = registration_of(kind)
    if entry is not None and entry.encode is not None:
        return _tag_custom(value, entry.name, entry.encode, depth, mode)
    record = find_record(value, kind)
    if record is None:
        raise unstorable(value)
    return _tag_parts(value, record, depth, mode)


def _tag_form(value: Any, form: Form, depth: int, mode: Mode) -> dict[str, Any]:
    fields = form.write(value)
    if fields["v"] is None:
        raise RefusedError(f"a {type(value).__name__} without a key")
    return _tag_parts(value, {"$": form.tag, **fields}, depth, mode)


def _tag_custom(
    value: Any, name: str, encode: Callable[[Any], Any], depth: int, mode: Mode
) -> dict[str, Any]:
    try:
        plain = encode(value)
    except Exception as error:
        raise RefusedError(
            f"{name}, which its registered encode refused ({type(error).__name__}: {error})",
            "mend that function",
        ) from error
    return _tag_parts(value, {"$": "custom", "type": name, "v": plain}, depth, mode)


def _tag_parts(value: object, record: dict[str, Any], depth: int, mode: Mode) -> dict[str, Any]:
    """A record with each part tagged. The parts add no segment to a refusal's path."""
    if depth >= VALUE_DEPTH_MAX:
        raise too_deep()
    try:
        return {name: tag(part, depth + 1, mode) for name, part in record.items()}
    except RefusedError as refused:
        refused.inside(value, "")
        raise
