"""The parameters that tools share, each with the sentence that a model reads.

One thing has one name in all tools: ``run`` is a run, ``step`` a step that was begun, ``text`` a sentence.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

Json = str | int | float | bool | list[Any] | dict[str, Any] | None
"""Any value. Written out, because some clients refuse a schema without types."""

RunName = Annotated[
    str | None,
    Field(description="Left out: the run that you started last."),
]
RunPoint = Annotated[
    str, Field(description="A run, or a point in it: 'release-1.4', 'release-1.4@#12' after its event 12.")
]
NewRun = Annotated[str, Field(description="The id of the new run.")]
StepName = Annotated[
    str,
    Field(description="What is done, in a few words, the same for the same kind of work: 'publish package'."),
]
Arguments = Annotated[
    dict[str, Any] | None,
    Field(
        description="What it is done with. The same name and arguments are the same step: "
        '{"package": "acme", "version": "1.4.0"}'
    ),
]
StepRef = Annotated[
    int | str, Field(description="The number that begin_step gave (12), or the name if it is the only one.")
]
Effect = Annotated[
    Literal["read", "idempotent", "once"],
    Field(
        description="once: must not happen twice (publish, pay, send, push). idempotent: safe to repeat with "
        "the same idempotency key. read: safe to repeat (build, test, look up)."
    ),
]
Budget = Annotated[int, Field(ge=50, le=100_000, description="How long the answer may be, about.")]
