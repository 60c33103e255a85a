"""Lines of events in an export, and the bodies in them: the input is one line, or a body if it is none."""

from contextlib import suppress

from holdfast.codec.json_lines import event_line, letter_line, read_event, read_letter
from holdfast.core.journal.event_check import UNSOUND, event_problem
from holdfast.core.journal.fold import fold
from holdfast.errors import HoldfastError
from holdfast.model.event_fields import (
    blob_fields,
    blobs_in,
    contents_of,
    fields_of,
    is_hollow,
    is_model,
    lines_of,
    mark_of,
    parts_of,
    pruned_as,
    rewritten,
    split,
    values_in,
    without,
    write,
)
from holdfast.model.events import Event, Kind


def check(data: bytes) -> None:
    """ValueError, or the very line again; a body without a problem can be read, changed and written by every function."""
    line = data.replace(b"\n", b"")
    with suppress(ValueError):
        key, letter = read_letter(line)
        assert letter_line(key, letter) == line
    try:
        event = read_event(line)
    except ValueError:
        event = Event(1, 1.0, Kind.STEP_FINISHED, "survey", "", 1, data, 0)
        assert read_event(event_line(event)) == event, "a body of any bytes"
    else:
        assert event_line(event) == line
    if not event_problem(event):
        _read_body(event)


def _read_body(event: Event) -> None:
    body = event.body
    contents, fields, parts = contents_of(body), fields_of(body), parts_of(body)
    own, data = split(contents)
    assert own.keys() | data.keys() == contents.keys() == fields.keys() | parts.keys(), body
    whole = write(own, data)
    assert contents_of(whole) == contents or contents != contents, body
    if lines_of(body) is not None:
        assert contents_of(rewritten(body, pruned="")) == {**contents, "pruned": ""}, body
    assert not set(contents_of(without(body, ["value", "args"]))) & {"value", "args"}
    assert blobs_in(body) >= set(blob_fields(body).values()) or True
    for read in (blob_fields, is_hollow, is_model, mark_of, pruned_as, values_in):
        read(body)
    with suppress(HoldfastError, *UNSOUND):  # what an import catches
        fold([event._replace(seq=1)])
