"""The form of an act: what it asks for, what it would do, and the texts that were sent with it."""

from collections.abc import Callable, Mapping
from json import JSONDecodeError, loads
from typing import Any, Literal

from holdfast.api.store.store import Store
from holdfast.errors import Misuse
from holdfast.model.named_tuple import NamedTuple

Given = Mapping[str, str]


class Field(NamedTuple):
    """One input of a form.

    Fields with the same ``group`` stand together under it, folded away. ``note`` says what it is for, or why
    it is not there. The form is fetched again when a field that ``refills`` is changed.
    """

    name: str
    label: str
    kind: Literal["text", "json", "choice", "hidden", "check", "long", "note"]
    value: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    """Each with its value and the text to show."""
    group: str = ""
    note: str = ""
    is_open: bool = False
    refills: bool = False


class Form(NamedTuple):
    """A form: what it is about, what it asks for, and what it would do."""

    act: str
    title: str
    fields: tuple[Field, ...]
    consequences: tuple[str, ...]
    button: str
    is_grave: bool = False
    """Whether it cannot simply be taken back."""

    def groups(self) -> list[tuple[str, tuple[Field, ...]]]:
        """The fields by group, those of none first."""
        names = dict.fromkeys(("", *(field.group for field in self.fields)))
        return [(name, tuple(field for field in self.fields if field.group == name)) for name in names]


class Done(NamedTuple):
    """What was done, in a sentence, and the page to go to."""

    told: str
    go: str = ""


class Actor(NamedTuple):
    """Who acts, and how a program of theirs is started."""

    person: str
    store_option: str | None = None
    """The store as it was named on the command line, for a command that is started."""


class Act(NamedTuple):
    """An act: its form, and its deed in the name of a person."""

    form: Callable[[Store, Given], Form]
    do: Callable[[Store, Given, Actor], Done]
    fields: tuple[str, ...]
    """The names that the deed takes, besides ``run``."""
    needs_run: bool = True


def run_of(given: Given) -> str:
    """The run that the act is about. Misuse if none is named."""
    run = given.get("run", "")
    if not run:
        raise Misuse(problem="no run is named", advice="send run=…")
    return run


def place_of(given: Given) -> str:
    """The place that the act is about: a point, label or event, else the whole run."""
    run, at = run_of(given), given.get("at", "")
    return f"{run}@{at}" if at else run


def words(*choices: str) -> tuple[tuple[str, str], ...]:
    """Choices that are shown as they are."""
    return tuple((one, one) for one in choices)


def json_of(text: str) -> Any:
    """The JSON that a person typed. Misuse."""
    try:
        return loads(text)
    except (JSONDecodeError, RecursionError) as error:
        told = (
            f"{error.msg} at character {error.pos + 1}" if isinstance(error, JSONDecodeError) else "too deep"
        )
        raise Misuse(
            problem=f"{text[:60]!r} is not JSON ({told})",
            advice='quote texts: "text"',
        ) from None
