"""The file of an exported run. An input lists its parts as text, ``=== name`` before each; their hashes are made anew.

So a change reaches what is behind the hashes: events, letters, facts, blobs and what the manifest says of them. An input that
begins with ``raw`` and a line end is taken as the file itself, hashes and all.
"""

import struct
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from orjson import OPT_INDENT_2, JSONDecodeError, dumps, loads
from tests.fuzz.scratch import scratch_store
from tests.support.hostile import content, look_at_everything

import holdfast
from holdfast.codec.json_lines import event_line, read_event
from holdfast.core.transfer.export_manifest import MANIFEST
from holdfast.errors import HoldfastError
from holdfast.exports import tar
from holdfast.model.events import Event, checksum, relinked


def check(data: bytes) -> None:
    """A refusal with the store as it was, or a run that can be looked at in every way and gone on with."""
    file = data[4:] if data.startswith(b"raw\n") else file_of(data)
    if file is None:
        return
    with scratch_store() as store, tempfile.TemporaryDirectory() as made:
        with holdfast.run("mine", store=store) as run:
            run.step("paid", str, 1)
        path = Path(made) / "x.holdfast"
        path.write_bytes(file)
        _bring(store, path)


def _bring(store: holdfast.Store, path: Path) -> None:
    before = content(store)
    try:
        imported = store.import_(path)
    except HoldfastError:
        assert content(store) == before
        return
    look_at_everything(store)
    with suppress(HoldfastError, holdfast.StopSignal), holdfast.run(imported.run, store=store) as run:
        run.step("small", str, 1)
    look_at_everything(store)


def parts_of(data: bytes) -> dict[str, bytes]:
    """The parts that an input lists."""
    found = {}
    for part in data.split(b"=== ")[1:]:
        name, _, body = part.partition(b"\n")
        found[name.decode("utf-8", "replace")] = body
    return found


def file_of(data: bytes) -> bytes | None:
    """The file of an input, every hash and count in it right; None if it has no manifest that is an object."""
    parts = parts_of(data)
    try:
        manifest = loads(parts.get(MANIFEST, b""))
    except JSONDecodeError:
        return None
    if not isinstance(manifest, dict):
        return None
    with suppress(TypeError, AttributeError, KeyError, ValueError, OverflowError):
        _settle(manifest, parts)
    with suppress(TypeError):
        text = dumps({**manifest, "sha256": ""}, option=OPT_INDENT_2) + b"\n"
        parts[MANIFEST] = dumps({**manifest, "sha256": sha256(text).hexdigest()}, option=OPT_INDENT_2) + b"\n"
    with suppress(UnicodeEncodeError, ValueError, AssertionError):
        pieces = (tar.header(name, len(body)) + body + tar.padding(len(body)) for name, body in parts.items())
        return b"".join(pieces) + tar.END
    return None


def _settle(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
    """Counts and hashes of the parts in the manifest, checksums and chains in the events."""
    chains: dict[int, int] = {}
    for run in reversed(manifest["runs"]):
        events: list[Event] = []
        for line in parts.get(run["file"], b"").splitlines():
            event = read_event(line)
            with suppress(struct.error):  # a number that no checksum can be made of: it goes in as it is
                event = event._replace(crc=checksum(run["run"], *event[:6], event.body))
            events.append(event)
        with suppress(struct.error):
            events = list(relinked(run["run"], run["birth"], events, chains.get(run["origin_seq"], 0)))
        chains |= {event.seq: event.chain for event in events}
        parts[run["file"]] = b"".join(event_line(event) + b"\n" for event in events)
        run |= {
            "sha256": sha256(parts[run["file"]]).hexdigest(),
            "events": len(events),
            "upto_seq": events[-1].seq if events else run["origin_seq"],
        }
    for part in (manifest.get("inbox"), manifest.get("records")):
        if part:
            part["sha256"] = sha256(parts.get(part["file"], b"")).hexdigest()
