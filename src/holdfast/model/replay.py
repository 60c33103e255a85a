"""What a replay of a recorded run over today's program found."""

from typing import Final

from holdfast.model.named_tuple import NamedTuple

ENVIRONMENT: Final = "HOLDFAST_REPLAY"
"""The file that what is found is appended to, one line of JSON for each run."""


class Replayed(NamedTuple):
    """What a replay found: ``verdict`` is ``same``, ``reached``, ``differs`` or ``failed``."""

    run: str
    verdict: str
    answered: int
    """How many recorded calls the program asked for."""
    difference: str = ""

    @property
    def is_fine(self) -> bool:
        """Whether today's program does what is recorded, as far as the record goes."""
        return self.verdict in {"same", "reached"}
