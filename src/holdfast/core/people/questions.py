"""Questions to people: which answers are allowed, and whether an answer fits.

An answer is checked twice by the same rule: when a person gives it, so that the person sees at once what is
wrong, and when the run takes it from its inbox. Neither place needs the program's classes: ``Wants``
describes as data what they accept.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, Final

from orjson import JSONDecodeError, loads

from holdfast.core.text.value_text import readable
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.questions import Question, Wants

_YES: Final = frozenset({"yes", "y", "true", "approve", "ok"})
_NO: Final = frozenset({"no", "n", "false", "deny"})
_SCALARS: Final = (str, int, float, bool)
_PLAIN: Final[dict[Any, Wants]] = {
    None: Wants("json"),
    bool: Wants("bool"),
    str: Wants("text"),
    int: Wants("int"),
    float: Wants("number"),
}


def question_in(event: Event) -> Question:
    """The question that an event asks."""
    body = contents_of(event.body)
    wants = body["wants"]
    return Question(
        event.key,
        event.name,
        event.seq,
        event.at,
        body["question"],
        Wants(
            wants["kind"],
            tuple(wants.get("choices", ())),
            wants.get("name", ""),
            tuple(wants.get("fields", ())),
        ),
        body["about_sha256"],
        body.get("expires_at"),
        body["in"],
        body["after"],
        body.get("forked", False),
    )


class UnfitError(ValueError):
    """The answer does not fit the question. The text says why."""


class Place(NamedTuple):
    """The position of a question in the program; see ``core.steps.call_point.Point``."""

    scope: str
    after: str
    forked: bool


# -- what may be answered ------------------------------------------------------------------------------------


def wants_of(returns: Any, choices: Sequence[Any] | None) -> Wants:
    """The answers that ``returns`` and ``choices`` allow. Raises ValueError if the choices make no sense."""
    if choices is None and isinstance(returns, (list, tuple)):
        returns, choices = None, returns
    if choices is not None:
        return _choice(returns, tuple(choices))
    plain = _PLAIN.get(returns) if returns is None or isinstance(returns, type) else None
    if plain is not None:
        return plain
    if isinstance(returns, type) and issubclass(returns, Enum):
        return Wants("choice", tuple(returns.__members__), returns.__name__)
    fields = _fields_of(returns)
    name: str = getattr(returns, "__name__", "")
    return Wants("json") if fields is None else Wants("object", (), name, fields)


def _choice(returns: Any, choices: tuple[Any, ...]) -> Wants:
    if not choices or not all(isinstance(choice, _SCALARS) for choice in choices):
        raise ValueError("choices are one or more texts, numbers or truth values")
    if len(set(map(repr, choices))) < len(choices):  # by ``repr``, because 1 and True are equal
        raise ValueError("one of the choices stands there twice")
    if isinstance(returns, type) and returns in _PLAIN:
        strangers = [choice for choice in choices if type(choice) is not returns]
        if strangers:
            raise ValueError(f"{strangers[0]!r} is among the choices, and no {returns.__name__}")
    return Wants("choice", choices)


def _fields_of(cls: Any) -> tuple[str, ...] | None:
    """The fields that an answer must have to become an instance.

    None if it is no dataclass, NamedTuple or model.
    """
    if not isinstance(cls, type):
        return None
    if hasattr(cls, "__pydantic_fields__"):
        fields: dict[str, Any] = cls.__pydantic_fields__
        return tuple(field.alias or name for name, field in fields.items() if field.is_required())
    if hasattr(cls, "__dataclass_fields__"):
        from dataclasses import MISSING
        from dataclasses import fields as fields_of

        return tuple(
            field.name
            for field in fields_of(cls)
            if field.init and field.default is MISSING and field.default_factory is MISSING
        )
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        named: Any = cls
        return tuple(name for name in named._fields if name not in named._field_defaults)
    return None


def as_data(wants: Wants) -> dict[str, Any]:
    """The allowed answers as a body records them."""
    return {name: part for name, part in wants._asdict().items() if part}


# -- whether it fits -----------------------------------------------------------------------------------------


def plain_of(value: Any) -> Any:
    """A program's answer in the form of a person's answer: names of enum members, fields of objects."""
    if isinstance(value, Enum):
        return value.name
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(type(value), "__dataclass_fields__"):
        return {name: plain_of(getattr(value, name)) for name in type(value).__dataclass_fields__}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain_of(getattr(value, name)) for name in getattr(value, "_fields", ())}
    return value


def fit(wants: Wants, value: Any) -> Any:
    """The answer, if it fits: a choice as it was offered, a number as a float. Raises UnfitError."""
    return _FITS[wants.kind](wants, value)


def read_typed(wants: Wants, text: str) -> Any:
    """The answer that a person typed. Raises UnfitError if it does not fit."""
    stripped = text.strip()
    if wants.kind == "text":
        return text
    if wants.kind == "bool" and stripped.casefold() in _YES | _NO:
        return stripped.casefold() in _YES
    if wants.kind == "choice":
        exact = [choice for choice in wants.choices if str(choice) == stripped]
        found = exact or [choice for choice in wants.choices if _typed_as(choice, stripped)]
        if found:
            return found[0]
    try:
        return fit(wants, loads(stripped))
    except JSONDecodeError:
        return fit(wants, text)


def _typed_as(choice: Any, text: str) -> bool:
    return str(choice).casefold() == text.casefold()


def offered(wants: Wants) -> str:
    """What may be answered, for people: ``yes or no``, ``staging, prod``."""
    if wants.kind == "choice":
        return ", ".join(str(choice) for choice in wants.choices)
    if wants.kind == "object":
        return f"a JSON object with {', '.join(wants.fields)}" if wants.fields else "a JSON object"
    return {
        "bool": "yes or no",
        "text": "text",
        "int": "a whole number",
        "number": "a number",
        "json": "text or JSON",
    }[wants.kind]


def example(wants: Wants) -> str:
    """An example of an answer that a person can type."""
    if wants.kind == "choice":
        return str(wants.choices[0])
    if wants.kind == "object":
        return "{" + ", ".join(f'"{name}": …' for name in wants.fields) + "}"
    return {"bool": "yes", "text": "TEXT", "int": "1", "number": "1.5", "json": "TEXT"}[wants.kind]


def _fit_bool(_: Wants, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    raise UnfitError(f"{_shown(value)} is neither yes nor no")


def _fit_text(_: Wants, value: Any) -> Any:
    if isinstance(value, str):
        return value
    raise UnfitError(f"{_shown(value)} is no text")


def _fit_int(_: Wants, value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise UnfitError(f"{_shown(value)} is no whole number")


def _fit_number(_: Wants, value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise UnfitError(f"{_shown(value)} is no number")


def _fit_choice(wants: Wants, value: Any) -> Any:
    for choice in wants.choices:
        if type(choice) is type(value) and choice == value:
            return choice
    raise UnfitError(f"{_shown(value)} is not one of {offered(wants)}")


def _fit_object(wants: Wants, value: Any) -> Any:
    if not isinstance(value, dict):
        raise UnfitError(f"{_shown(value)} is no JSON object")
    missing = [name for name in wants.fields if name not in value]
    if missing:
        raise UnfitError(f"it has no {', '.join(missing)}")
    return value


def _shown(value: Any) -> str:
    return readable(value, 60)


_FITS: Final[dict[str, Callable[[Wants, Any], Any]]] = {
    "bool": _fit_bool,
    "text": _fit_text,
    "int": _fit_int,
    "number": _fit_number,
    "choice": _fit_choice,
    "object": _fit_object,
    "json": lambda _, value: value,
}


def typed(returns: Any, value: Any) -> Any:
    """A fitting answer as the type that the program wants. Raises UnfitError if the class refuses it."""
    try:
        if isinstance(returns, type) and issubclass(returns, Enum):
            return returns[value]
        if hasattr(returns, "model_validate"):
            return returns.model_validate(value)
        return value if _fields_of(returns) is None else returns(**value)
    except (TypeError, ValueError, KeyError) as refused:
        raise UnfitError(f"{returns.__name__} refuses it: {refused}") from refused


# -- which question ------------------------------------------------------------------------------------------


def told_end(body: dict[str, Any]) -> str:
    """How a question ended, from the body of its last event: ``yes, by ada``."""
    if body["how"] != "answered":
        return str(body["how"])
    value = body.get("value", "…")
    shown = {True: "yes", False: "no"}[value] if isinstance(value, bool) else readable(value, 60)
    return f"{shown}, by {body['by']}" + (f": {body['reason']}" if body.get("reason") else "")


def superseded(questions: Sequence[Question], place: Place, posed: AbstractSet[str]) -> list[Question]:
    """The questions that a new one replaces: an earlier process asked them at the same position.

    Questions that this process asked itself stay open, because a program may ask several at one position.
    Tasks share a position, so a question of a forked task replaces none.
    """
    return [
        question
        for question in questions
        if place == (question.scope, question.after, False)
        and not question.forked
        and question.key not in posed
    ]
