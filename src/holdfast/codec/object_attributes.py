"""Reads and restores an object's attributes without running any code of its class.

It knows ``__dict__``, slots and the interpreter's own members. It does not know what an attribute means. The
invariant: ``put_state`` restores what ``state_of`` reads, bypassing properties, descriptors and frozen
classes.
"""

from collections.abc import Mapping
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final

_IN_PLACE: Final = frozenset({MemberDescriptorType, GetSetDescriptorType})


def state_of(value: object) -> dict[str, Any]:
    """Every attribute that the object itself has, in ``__dict__`` or in slots, by name."""
    state: Any = object.__getstate__(value)
    if state is None:
        return {}
    return {**(state[0] or {}), **state[1]} if isinstance(state, tuple) else dict(state)


def put_state(value: object, state: Mapping[str, Any]) -> None:
    """Set attributes where they were read."""
    cls = type(value)
    for name, part in state.items():
        if type(getattr(cls, name, None)) in _IN_PLACE:
            object.__setattr__(value, name, part)
        else:
            value.__dict__[name] = part  # not setattr: a property of that name would run
