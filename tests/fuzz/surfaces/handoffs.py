"""Handoff documents. The digest is made anew, as somebody does who knows how it is made."""

from contextlib import suppress

from orjson import JSONDecodeError, loads
from tests.fuzz.scratch import scratch_store
from tests.support.hostile import content, look_at_everything

import holdfast
from holdfast.core.transfer.handoff import markdown, read_document
from holdfast.core.transfer.handoff.validate import digest_of
from holdfast.errors import BadHandoff, HoldfastError


def check(data: bytes) -> None:
    """A refusal with nothing written, or a run that can be looked at in every way and gone on with."""
    with suppress(BadHandoff):
        read_document(data, "x.json")
    try:
        document = loads(data)
    except JSONDecodeError:
        return
    if not isinstance(document, dict):
        return
    with suppress(TypeError, RecursionError):
        document["digest"] = digest_of(document)
    with scratch_store() as store:
        before = content(store)
        try:
            accepted = store.accept(document)
        except HoldfastError:
            assert content(store) == before
            return
        markdown(document)
        look_at_everything(store)
        with suppress(HoldfastError, holdfast.StopSignal), holdfast.run(accepted.run, store=store) as run:
            run.step("next", str, 1)
        look_at_everything(store)
