"""``RUN``, ``RUN@44``, ``RUN@#1203`` and ``RUN@label``, as people and models type them."""

from contextlib import suppress
from functools import cache

import holdfast
from holdfast.core.lineage.points import parse_place


@cache
def store() -> holdfast.Store:
    made = holdfast.store("memory://fuzzed-points")
    with holdfast.run("a", store=made) as run:
        run.step("one", str, 1)
        run.checkpoint({"x": 1}, label="draft-1")
    return made


def check(data: bytes) -> None:
    """Misuse or another refusal of ours; what is read is written as it reads, and resolves to what is there."""
    text = data.decode("utf-8", "surrogateescape")
    with suppress(holdfast.HoldfastError):
        place = parse_place(text)
        assert parse_place(str(place)) == place, (text, place)
        resolved = store().resume_plan(place.run) if place.is_head else store().later_effects(text)
        assert place.run == "a", (text, resolved)
