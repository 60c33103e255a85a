"""The parameters that tools share, each with the sentence that a model reads."""

from typing import Annotated, Any, Literal

from pydantic import Field

Json = str | int | float | bool | list[Any] | dict[str, Any] | None
"""Any value. Written out, because some clients refuse a schema without types."""

RunName = Annotated[
    str | None,
    Field(description="Which run. Left out: the one that this session started last."),
]
StepName = Annotated[
    str,
    Field(
        description="What is done, in a few words; the same name for the same kind of work: 'publish "
        "package'."
    ),
]
Arguments = Annotated[
    dict[str, Any] | None,
    Field(
        description="What it is done with, as an object. Name and arguments together say which step it is: "
        '{"package": "acme", "version": "1.4.0"}'
    ),
]
StepRef = Annotated[
    int | str,
    Field(description="The step's number as begin_step gave it (12), or its name if that is clear."),
]
Effect = Annotated[
    Literal["read", "idempotent", "once"],
    Field(
        description="What it does to the outside world. once: must not happen twice (publish, pay, send, "
        "push). idempotent: safe to repeat with the same idempotency key. read: safe to repeat (build, "
        "test, look up)."
    ),
]
Budget = Annotated[int, Field(ge=50, le=100_000, description="The approximate maximum of tokens.")]
