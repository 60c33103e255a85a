"""An act of a person on a run that leaves no event in its journal."""

from holdfast.model.named_tuple import NamedTuple


class ActRecord(NamedTuple):
    """What a person did with a run, from outside: ``prune``, ``export``, ``handoff``, ``unpin``, ``unlabel``.

    ``about`` says what it was about: the file that was written, what was freed, the point.
    """

    run: str
    act: str
    by: str
    at: float
    about: str = ""
