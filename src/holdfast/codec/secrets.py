"""The secrets that this process knows, and the one place that keeps their values out of what is written.

``hide`` puts references into written JSON, ``mask`` puts masks into text, ``filled_secrets`` reads
references. What a value is written as, and what text it appears in, other modules know.

Invariants: after ``hide`` and after ``mask`` no value of a known secret is in the result, in clear or as JSON
escapes it; ``KNOWN`` is empty where no secret is known, and then nothing is searched, nor this module loaded.
Values are never part of an error, a ``repr`` or a log line.
"""

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import orjson

from holdfast.errors import BadOption, Misuse
from holdfast.limits import SECRETS_DECLARED_MAX
from holdfast.model.markers import KNOWN, LINEAGE, MASKS, SHAPES
from holdfast.model.secret_forms import FORMS, other_forms
from holdfast.model.secret_text import TAG, mask_of
from holdfast.model.token_shapes import (
    is_credential,
    may_have_shape,
    names_a_credential,
    names_a_place,
    password_in,
    shapes_in,
)

POLICY: Final = "HOLDFAST_SECRETS"
NOT_SECRET: Final = "HOLDFAST_NOT_SECRET"  # noqa: S105 - the name of a variable
POLICIES: Final = ("warn", "refuse", "keep")
VALUE_CHARS_MIN: Final = 4
"""A shorter value would be found in every second word."""
NAME: Final = r"[A-Za-z0-9_.-]{1,100}"
_WORD_CHARS_MAX: Final = 16
_HASH_CHARS_MIN: Final = 8
_HEXDIGITS: Final = "0123456789abcdef"
_HEX: Final = frozenset(_HEXDIGITS)

_registered: Final[dict[str, str]] = {}
_environment: Final[dict[str, str]] = {}
_declared: Final[dict[str, dict[str, str]]] = {}
"""Value to its name in each lineage, oldest first."""
_erased: Final[dict[str, str]] = {}
"""Value to name, of what is just being erased: hidden, and never filled in."""
_names: Final[dict[str, str]] = {}
"""Value to name, of the registered and those of the environment."""
_pattern: "re.Pattern[str] | None" = None
_forms: Final[dict[str, tuple[str, str]]] = {}
"""How else a value is written inside a text, to the value and the name of the form."""
_policy = ""
_changing = threading.Lock()


# -- which secrets there are ---------------------------------------------------------------------------------


def secret(value: str, *, name: str) -> str:
    """Register a secret: from now on its value is recorded as a reference to ``name``, wherever it appears.

    Returns the value. The value of a name can be replaced, and a record is refilled with the newest. Misuse
    for a value of fewer than 4 characters, or a name with other characters than letters, digits, ``_ . -``.
    """
    _check(value, name)
    with _changing:
        _registered[name] = value
        _rebuild()
    return value


def _check(value: str, name: str) -> None:
    if re.fullmatch(NAME, name) is None:
        raise Misuse(
            problem=f"{name!r} cannot be the name of a secret",
            advice="use letters, digits, _ . and -, at most 100 of them",
        )
    if not isinstance(value, str) or len(value) < VALUE_CHARS_MIN or not _is_writable(value):
        raise Misuse(
            problem=f"the value of secret {name} cannot be hidden: it is no text of 4 characters or more",
            advice="register the text itself; shorter ones would be found in every second word",
        )


def know_environment(environment: Mapping[str, str] | None = None) -> None:
    """Look at the environment again: variables may have been set or rotated. BadOption for a bad policy."""
    global _policy  # noqa: PLW0603
    source = os.environ if environment is None else environment
    policy = _chosen_policy(source)
    ignored = frozenset(source.get(NOT_SECRET, "").replace(",", " ").split())
    found = {
        name: source[name]
        for name in sorted(filter(names_a_credential, source))
        if name not in ignored and is_credential(source[name]) and _is_writable(source[name])
    }
    for name in sorted(filter(names_a_place, source)):
        password, written = password_in(source[name])
        if name not in ignored and is_credential(password) and _is_writable(password):
            found[f"{name}.password"] = password
            if written not in {password, *other_forms(password)}:  # quoted otherwise than Python does it
                found[f"{name}.password.raw"] = written
    if found != _environment or policy != _policy:
        with _changing:
            _policy = policy
            _environment.clear()
            _environment.update(found)
            _rebuild()


def declare(value: str, parameter: str, lineage: str) -> str:
    """The name of a declared argument: of an environment or registered secret its own, else by HMAC.

    From now on its value is hidden wherever it appears.
    """
    known = _names.get(value)
    if known is not None:
        return known
    name = f"{parameter}~{digest(value, lineage)}"
    if _declared.get(value, {}).get(lineage) != name and _is_writable(value):
        with _changing:
            _declared.setdefault(value, {})[lineage] = name
            while len(_declared) > SECRETS_DECLARED_MAX:
                del _declared[next(iter(_declared))]
            _rebuild()
    return name


def is_named(value: object) -> bool:
    """Whether it is an environment or registered secret: another process finds it by its name."""
    return value in _names if isinstance(value, str) else False


@contextmanager
def erasing(value: str, name: str) -> Iterator[None]:
    """During the block, the value is hidden under this name, whatever value the name has now. Misuse."""
    _check(value, name)
    with _changing:
        _erased[value] = name
        _rebuild()
    try:
        yield
    finally:
        with _changing:
            del _erased[value]
            _rebuild()


def digest(value: str, lineage: str, size: int = 8) -> str:
    """A keyed digest: equal for equal values in one lineage, and of no use in another."""
    from hmac import digest as hmac_of

    return hmac_of(lineage.encode(), value.encode("utf-8", "surrogatepass"), "sha256")[:size].hex()


def digests(lineage: str) -> dict[str, str]:
    """A short digest of every environment and registered secret, to tell later that one was rotated."""
    return {name: digest(value, lineage, 4) for value, name in sorted(_names.items(), key=lambda one: one[1])}


def _chosen_policy(environment: Mapping[str, str]) -> str:
    given = environment.get(POLICY, "")
    if given and given not in POLICIES:
        raise BadOption(option=POLICY, value=given, choices=POLICIES)
    return given


def _is_writable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return bool(value)


def _rebuild() -> None:
    global _pattern  # noqa: PLW0603  one pattern for all secrets, made when they change
    # Registered names win, then the first of the alphabet: the same in every process.
    _names.clear()
    for names in (_environment, _registered):
        for name in sorted(names, reverse=True):
            _names[names[name]] = name
    _names.update(_erased)
    values = [
        *_names, *(one for one in _declared if one not in _names and len(one) >= VALUE_CHARS_MIN)
    ]  # fmt: skip
    # A value with quotes, umlauts or an @ looks different inside a JSON text, a ``repr`` and a URL.
    _forms.clear()
    for value in tuple(values):
        for form, write in FORMS.items():
            written = write(value)
            if written not in _forms and written not in values:
                _forms[written] = (value, form)
                values.append(written)
    values.sort(key=lambda one: (-len(one), one))
    _pattern = re.compile("|".join(map(re.escape, values))) if values else None
    MASKS[:] = [mask_known] if values else []
    KNOWN[:] = [orjson.dumps(value)[1:-1] for value in values]
    # Without a known secret only a program that asks for it pays for the search.
    SHAPES[:] = [_policy or "warn"] if (_policy or values) and _policy != "keep" else []


def _name_of(value: str) -> str:
    if value in _forms:
        value, form = _forms[value]
        return f"{_name_of(value)}|{form}"
    found = _names.get(value)
    if found is not None:
        return found
    names = _declared.get(value, {})
    return names.get(LINEAGE.get()) or next(reversed(names.values()), "?")


# -- write ---------------------------------------------------------------------------------------------------


def hide(data: bytes, *, sorts: bool = False) -> bytes:
    """Written JSON with references in place of values; ``sorts`` keeps the order of ``canonical``."""
    if not has_known(data):
        return data
    tree = _refer(orjson.loads(data), sorts=sorts)
    return orjson.dumps(tree, option=orjson.OPT_SORT_KEYS if sorts else 0)


def hide_tree(tree: Any) -> Any:
    """A tree with references in place of values. The tree itself if it has none."""
    data = orjson.dumps(tree)
    return _refer(orjson.loads(data), sorts=False) if has_known(data) else tree


def has_known(data: bytes, name: str = "") -> bool:
    """Whether written JSON, or a name, has the value of a known secret."""
    for value in KNOWN:
        if value in data:
            return True
    return bool(name) and mask_known(name) != name


def mask_json(data: bytes) -> bytes:
    """Written JSON with masks in its texts: for content that is only read by people and models."""
    return orjson.dumps(masked(orjson.loads(data))) if KNOWN and has_known(data) else data


def masked(content: Any, name: str = "") -> Any:
    """Fields and texts of a record with masks in them. Holdfast's own words and hashes stay.

    A secret may be a word or a number, such as ``done`` or ``1234``: in a hash, or as the name of a field, it
    is none. Values of the program are no such texts: ``hide`` has put references into them before.
    """
    if isinstance(content, str):
        if _pattern is None or (name in _WORDS and _is_word(content)):
            return content
        return _pattern.sub(
            lambda found: found[0] if _is_in_hash(found) else mask_of(_name_of(found[0])), content
        )
    if isinstance(content, dict):
        return {_masked_key(one): masked(part, one) for one, part in content.items()}
    return [masked(part, name) for part in content] if isinstance(content, (list, tuple)) else content


_WORDS: Final = frozenset(
    {
        "$", "act", "effect", "effects", "for", "how", "in_doubt", "is", "kind", "level", "pattern", "policy",
        "proof", "side", "state", "status", "type", "verdict", "via",
    }
)  # fmt: skip
"""The names of fields that have one of Holdfast's own words."""


def _masked_key(name: Any) -> Any:
    return name if type(name) is not str or _is_word(name) else mask_known(name)


def _is_word(text: str) -> bool:
    """Whether a text may be a word of Holdfast's own: a name of a field, or one of few values that it has."""
    return (
        len(text) <= _WORD_CHARS_MAX and text.isascii() and text.islower() and text.replace("_", "").isalpha()
    )


def _is_in_hash(found: "re.Match[str]") -> bool:
    """Whether it is a few digits inside of a longer hexadecimal number: so an address or a key has them."""
    text, start, end = found.string, found.start(), found.end()
    if end - start >= _HASH_CHARS_MIN or not _HEX.issuperset(found[0]):
        return False
    first, last = max(0, start - _HASH_CHARS_MIN), end + _HASH_CHARS_MIN
    before, after = text[first:start], text[end:last]
    before = before[len(before.rstrip(_HEXDIGITS)) :]
    after = after[: len(after) - len(after.lstrip(_HEXDIGITS))]
    return len(before) + end - start + len(after) >= _HASH_CHARS_MIN


def mask_known(text: str) -> str:
    """The text with masks in place of known secrets."""
    pattern = _pattern
    return text if pattern is None else pattern.sub(lambda found: mask_of(_name_of(found[0])), text)


def masked_text(content: Any) -> Any:
    """A text for people and models, or data with such texts, as it is recorded.

    What has the shape of a token is masked too, unless ``HOLDFAST_SECRETS=keep``.
    """
    if isinstance(content, str):
        return mask(content) if SHAPES else mask_known(content)
    if isinstance(content, dict):
        return {_masked_key(name): masked_text(part) for name, part in content.items()}
    return [masked_text(part) for part in content] if isinstance(content, (list, tuple)) else content


def without_shapes(content: Any) -> Any:
    """Data with masks in place of what has the shape of a token."""
    if isinstance(content, str):
        return _mask_shapes(content)
    if isinstance(content, dict):
        return {name: part if name in _OURS else without_shapes(part) for name, part in content.items()}
    return [without_shapes(part) for part in content] if isinstance(content, (list, tuple)) else content


def mask(text: str) -> str:
    """The text for people and models: masks for known secrets, and for what has the shape of a token."""
    return _mask_shapes(mask_known(text))


def _mask_shapes(text: str) -> str:
    at, pieces = 0, []
    for start, end, begins in shapes_in(text):
        pieces += [text[at:start], mask_of(f"{begins}…")]
        at = end
    return "".join([*pieces, text[at:]]) if pieces else text


def masked_data(content: Any) -> Any:
    """As ``masked``, for what is shown: what has the shape of a token is masked too."""
    if isinstance(content, str):
        return mask(content)
    if isinstance(content, Mapping):
        return {masked_data(name): masked_data(part) for name, part in content.items()}
    return [masked_data(part) for part in content] if isinstance(content, (list, tuple)) else content


def masks_in(text: str) -> list[tuple[int, int, str]]:
    """Where known secrets are in a text: from, to, and the mask."""
    pattern = _pattern
    found = () if pattern is None else pattern.finditer(text)
    return [(one.start(), one.end(), mask_of(_name_of(one[0]))) for one in found]


def split(content: str) -> list[str] | None:
    """Text and names of secrets in turn; None if the text has no known secret."""
    pattern = _pattern
    if pattern is None:
        return None
    at, parts = 0, []
    for found in pattern.finditer(content):
        parts += [content[at : found.start()], _name_of(found[0])]
        at = found.end()
    return [*parts, content[at:]] if parts else None


def split_bytes(content: bytes) -> list[Any] | None:
    """As ``split``, for bytes that have a value as UTF-8."""
    parts = split(content.decode("utf-8", "surrogateescape")) if KNOWN else None
    if parts is None:
        return None
    return [one if n % 2 else one.encode("utf-8", "surrogateescape") for n, one in enumerate(parts)]


def has_unfinished(content: Any) -> bool:
    """Whether a text in plain data ends with what may be the beginning of a known secret."""
    if type(content) is str:
        return bool(_unfinished(content)[0])
    if type(content) is dict:
        return any(map(has_unfinished, content.values()))
    return any(map(has_unfinished, content)) if type(content) is list else False


def with_masked_ends(content: Any) -> Any:
    """Plain data in which a text that ends within a secret ends with its mask: no more of it will come."""
    if type(content) is str:
        size, value = _unfinished(content)
        return f"{content[:-size]}{mask_of(_name_of(value))}" if size >= VALUE_CHARS_MIN else content
    if type(content) is dict:
        return {name: with_masked_ends(part) for name, part in content.items()}
    return [with_masked_ends(part) for part in content] if type(content) is list else content


def _unfinished(text: str) -> tuple[int, str]:
    """How many characters at the end of a text may be the beginning of a secret, and of which."""
    found = (0, "")
    for value in (*_names, *_declared, *_forms):
        for size in range(min(len(value) - 1, len(text)), found[0], -1):
            if text.endswith(value[:size]):
                found = (size, value)
                break
    return found


def _refer(tree: Any, *, sorts: bool) -> Any:
    if type(tree) is str:
        parts = split(tree)
        return tree if parts is None else {"$": TAG, "v": parts}
    if type(tree) is list:
        return [_refer(part, sorts=sorts) for part in tree]
    if type(tree) is not dict:
        return tree
    kind = tree.get("$")
    if kind == TAG:
        return tree
    if kind is None:
        return _refer_dict(tree, sorts=sorts)
    made = {name: part if name in _OURS else _refer(part, sorts=sorts) for name, part in tree.items()}
    if sorts and kind in _UNORDERED and type(made.get("v")) is list:  # the order must not tell the value
        made["v"].sort(key=_UNORDERED[kind])
    return made


def _refer_dict(tree: dict[str, Any], *, sorts: bool) -> dict[str, Any]:
    if not any(split(name) for name in tree):
        return {name: _refer(part, sorts=sorts) for name, part in tree.items()}
    pairs = [[_refer(name, sorts=sorts), _refer(part, sorts=sorts)] for name, part in tree.items()]
    if sorts:
        pairs.sort(key=_by_key)
    return {"$": "dict", "v": pairs}


def _by_key(pair: list[Any]) -> bytes:
    return orjson.dumps(pair[0], option=orjson.OPT_SORT_KEYS)


def _by_item(item: Any) -> bytes:
    return orjson.dumps(item, option=orjson.OPT_SORT_KEYS)


_OURS: Final = frozenset({"$", "type"})
_UNORDERED: Final[dict[str, Callable[[Any], bytes]]] = {
    "set": _by_item, "frozenset": _by_item, "dict": _by_key, "defaultdict": _by_key, "counter": _by_key,
}  # fmt: skip


# -- token shapes --------------------------------------------------------------------------------------------


def find_shape(data: bytes) -> str:
    """How the first token begins that written JSON has, and that is no known secret; empty if none."""
    if not may_have_shape(data):
        return ""
    return next((begins for _, _, begins in shapes_in(data.decode("utf-8", "replace"))), "")


# -- read ----------------------------------------------------------------------------------------------------


def find_value(name: str) -> str | None:
    """The value of a secret by its name; None if this process does not have it."""
    name, _, form = name.partition("|")
    if form in FORMS:
        value = find_value(name)
        return None if value is None else FORMS[form](value)
    found = _registered.get(name)
    if found is None and "~" in name:
        found = next((value for value, names in _declared.items() if name in names.values()), None)
    if found is None:
        # Any variable that may have a credential, even one that no longer looks like it.
        found = _environment.get(name) or (os.environ.get(name) if names_a_credential(name) else None)
    return found
