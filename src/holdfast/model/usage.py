"""Usage of a model call: counted by the provider, priced by the table in force when it was recorded."""

from holdfast.model.named_tuple import NamedTuple


class Usage(NamedTuple):
    """Usage of one model call. None means unknown, never zero.

    ``input_tokens`` includes the cached ones, ``output_tokens`` the reasoning, as providers bill them.
    """

    model: str = ""
    provider: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None
    """In US dollars."""
    at_least: bool = False
    """Whether the call used more than this: an earlier try was cut off before it reported all."""
