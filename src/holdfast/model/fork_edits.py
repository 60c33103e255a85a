"""What a person changes in a fork: its inputs, its state, messages of its conversation."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from holdfast.model.named_tuple import NamedTuple


class Unchanged:
    """Stands for what a fork takes over as it is. None would be a value."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()


class ForkEdits(NamedTuple):
    """What is edited. Messages by their index in the conversation; a negative one counts from its end."""

    inputs: Any = UNCHANGED
    state: Any = UNCHANGED
    messages: Mapping[int, Any] = MappingProxyType({})

    @property
    def is_there(self) -> bool:
        """Whether anything is edited."""
        return bool(self.messages) or self.inputs is not UNCHANGED or self.state is not UNCHANGED


class ForkChange(NamedTuple):
    """One edit, before and after, in the recorded form.

    ``what`` is ``inputs``, ``state`` or ``message 3``; ``then`` says what the program makes of it.
    """

    what: str
    before: Any
    after: Any
    then: str


class Editable(NamedTuple):
    """What can be edited in a fork of a place, in the recorded form.

    Where the state or the messages cannot be edited, it says why not.
    """

    inputs: Any
    state: Any
    state_refusal: str
    messages: tuple[Any, ...]
    messages_refusal: str
