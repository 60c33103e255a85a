"""The manifest of an export: written in one way, and believed only if every word of it holds together."""

from typing import Any

import pytest
from orjson import OPT_INDENT_2, dumps, loads

from holdfast.core.transfer.export_manifest import (
    MANIFEST,
    files_of,
    read,
    run_file,
    sealed,
    write,
)
from holdfast.errors import DamagedExport, ExportError, NewerExport, NotAnExport
from holdfast.model.exports import ExportedInbox, ExportedRecords, ExportedRun, Manifest, SingleUse

HASH = "ab" * 32


def a_run(
    number: int, run: str, origin: str | None, origin_seq: int, upto_seq: int, **fields: Any
) -> ExportedRun:
    part = ExportedRun(
        run, f"birth-{run}", 1.5, "failed", origin, origin_seq, upto_seq, {}, 3, run_file(number, run), HASH
    )
    return part._replace(**fields)


def a_manifest(**fields: Any) -> Manifest:
    runs = (a_run(0, "c", "b", 9, 12), a_run(1, "b", "a", 5, 9), a_run(2, "a", None, 0, 5))
    return Manifest("c", False, runs, None, ("aa" * 32, "bb" * 32))._replace(**fields)


def test_a_manifest_is_read_as_it_was_written() -> None:
    """With runs, blobs, an inbox and other names; and it names every part there is."""
    for manifest in (
        a_manifest(),
        a_manifest(
            runs=(a_run(0, "c", None, 0, 12, facts={"lineage": "x", "was": ["d", "e"]}),),
            blobs=(),
            moved=True,
            single_use=SingleUse("ab" * 16, "sqlite:///x.db"),
        ),
        a_manifest(moved=True, version=1),
        a_manifest(inbox=ExportedInbox(2, "inbox.jsonl", HASH)),
        a_manifest(version=3, records=ExportedRecords(2, 1, "records.jsonl", HASH)),
    ):
        whole = sealed(manifest)
        assert read(write(whole), "x") == whole
        assert files_of(whole)[0] == MANIFEST
        assert len(files_of(whole)) == 1 + len(whole.runs) + len(whole.blobs) + sum(
            part is not None for part in (whole.inbox, whole.records)
        )


def test_a_name_of_a_part_is_safe_everywhere() -> None:
    """Whatever a run is called, its file lies below the export, under a name that any file system takes."""
    for run in ("../../etc/passwd", "a/b", "ü" * 200, "CON", "x" * 200, ".."):
        name = run_file(3, run)
        assert name.startswith("runs/3-")
        assert name.count("/") == 1
        assert name.isascii()
        assert len(name) < 100


@pytest.mark.parametrize("seed", range(40))
def test_no_flipped_bit_passes(seed: int) -> None:
    """Anywhere in the file."""
    data = bytearray(write(sealed(a_manifest())))
    place = seed * (len(data) - 1) // 39
    data[place] ^= 1 << (seed % 8)
    with pytest.raises(ExportError):
        read(bytes(data), "x")


def test_another_files_manifest_is_told_from_a_damaged_one() -> None:
    """What is not ours, what is from a newer version, and what is broken."""
    with pytest.raises(NotAnExport):
        read(b'{"format":"something"}', "x")
    with pytest.raises(NotAnExport):
        read(b"[]", "x")
    with pytest.raises(NewerExport):
        read(b'{"format":"holdfast-export","version":4,"unknown":1}', "x")
    for broken in (b"", b"{", b'{"format":"holdfast-export"}', b'{"format":"holdfast-export","version":1}'):
        with pytest.raises(DamagedExport):
            read(broken, "x")


CIRCLE = (a_run(0, "c", "b", 9, 12), a_run(1, "b", "c", 5, 9))
BAD: dict[str, dict[str, Any]] = {
    "a circle": {"runs": CIRCLE},
    "its own origin": {"runs": (a_run(0, "c", "c", 9, 12),)},
    "a run twice": {"runs": (a_run(0, "c", "b", 9, 12), a_run(1, "b", "a", 5, 9), a_run(2, "b", None, 0, 5))},
    "no run": {"runs": ()},
    "another run": {"run": "b"},
    "an origin that is not there": {"runs": (a_run(0, "c", "b", 9, 12),)},
    "a point beyond its origin": {"runs": (a_run(0, "c", "b", 9, 12), a_run(1, "b", None, 0, 8))},
    "a point before its origin's own": {"runs": (a_run(0, "c", "b", 9, 12), a_run(1, "b", "a", 10, 9))},
    "a beginning from nowhere": {"runs": (a_run(0, "c", None, 3, 12),)},
    "an end before the beginning": {"runs": (a_run(0, "c", "b", 9, 8), a_run(1, "b", None, 0, 9))},
    "no events": {"runs": (a_run(0, "c", None, 0, 0),)},
    "a name that cannot be": {"run": "c@1", "runs": (a_run(0, "c@1", None, 0, 12),)},
    "a part elsewhere": {"runs": (a_run(0, "c", None, 0, 12, file="../c"),)},
    "an inbox elsewhere": {"inbox": ExportedInbox(1, "/etc/passwd", HASH)},
    "facts elsewhere": {"version": 3, "records": ExportedRecords(1, 0, "/etc/passwd", HASH)},
    "a part for no facts": {"version": 3, "records": ExportedRecords(0, 0, "records.jsonl", HASH)},
    "too many facts": {"version": 3, "records": ExportedRecords(10**6, 0, "records.jsonl", HASH)},
    "half a pin": {"version": 3, "records": ExportedRecords(1, 0.5, "records.jsonl", HASH)},  # type: ignore[arg-type]
    "nothing that needs its version": {"version": 3},
    "a blob elsewhere": {"blobs": ("../" + "a" * 61,)},
    "blobs in disorder": {"blobs": ("bb" * 32, "aa" * 32)},
    "a blob twice": {"blobs": ("aa" * 32, "aa" * 32)},
    "a text for a number": {"runs": (a_run(0, "c", None, 0, 12, events="3"),)},
    "a number for a text": {"runs": (a_run(0, "c", None, 0, 12, status=7),)},
    "no facts": {"runs": (a_run(0, "c", None, 0, 12, facts=[]),)},
    "names that are none": {"runs": (a_run(0, "c", None, 0, 12, facts={"was": [1]}),)},
    "a lineage that is none": {"runs": (a_run(0, "c", None, 0, 12, facts={"lineage": 1}),)},
    "a fact of another store": {"runs": (a_run(0, "c", None, 0, 12, facts={"flattens": "x"}),)},
    "a truth for a number": {"runs": (a_run(0, "c", None, 0, 12, events=True),)},
    "a number for a truth": {"moved": 1},
    "a move that does not say so": {"moved": True},
    "a single use of what was not moved": {"single_use": SingleUse("ab", "x")},
    "a move that is a number": {"moved": True, "single_use": SingleUse(1, "x")},  # type: ignore[arg-type]
    "a status that is none": {"runs": (a_run(0, "c", None, 0, 12, status="acting"),)},
    "a status that is half-way": {"runs": (a_run(0, "c", None, 0, 12, status="importing"),)},
    "a birth that cannot be": {"runs": (a_run(0, "c", None, 0, 12, birth="\n"),)},
    "a time that cannot be": {"runs": (a_run(0, "c", None, 0, 12, created_at=1e300),)},
    "a number beyond a run's range": {"runs": (a_run(0, "c", None, 0, 2**32),)},
    "a fact that nobody knows": {"runs": (a_run(0, "c", None, 0, 12, facts={"trusted": True}),)},
    "an agent that is a list": {"runs": (a_run(0, "c", None, 0, 12, facts={"agent": ["x"]}),)},
    "a whole number for a time": {"runs": (a_run(0, "c", None, 0, 12, created_at=1),)},
}


@pytest.mark.parametrize("what", BAD)
def test_a_manifest_that_makes_no_sense_is_refused(what: str) -> None:
    """Also if its hash is right: somebody may have written it by hand."""
    with pytest.raises(DamagedExport):
        read(write(sealed(a_manifest(**BAD[what]))), "x")


def test_a_circle_is_named() -> None:
    """The lineage as it is told, so that a person sees it."""
    with pytest.raises(DamagedExport, match="c from b from c"):
        read(write(sealed(a_manifest(runs=CIRCLE))), "x")


@pytest.mark.parametrize("field", ["run", "runs", "blobs", "moved", "sha256", "inbox"])
def test_a_missing_field_is_refused(field: str) -> None:
    """And so is one too many."""
    content = loads(write(sealed(a_manifest())))
    del content[field]
    with pytest.raises(DamagedExport):
        read(dumps(content, option=OPT_INDENT_2) + b"\n", "x")
    content = {**loads(write(sealed(a_manifest()))), f"{field}_too": 1}
    with pytest.raises(DamagedExport):
        read(dumps(content, option=OPT_INDENT_2) + b"\n", "x")
