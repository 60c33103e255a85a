"""Exports that are cut off, changed or made up: a typed error each time, and the store as it was."""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from orjson import OPT_INDENT_2, dumps, loads

import holdfast
from holdfast.codec.json_lines import event_line, read_event
from holdfast.core.transfer.export_manifest import MANIFEST, files_of, read, sealed, write
from holdfast.errors import DamagedExport, ExportError, ImportClash, NewerExport, NotAnExport
from holdfast.exports import tar
from holdfast.model.events import relinked
from holdfast.model.exports import Manifest


def text(number: int) -> str:
    return f"message {number} of some length " * 10


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A moved fork with everything that an export can have, as a file and as a directory."""
    place = tmp_path_factory.mktemp("exported")
    store = holdfast.store(f"memory://{uuid4().hex}")
    tool = holdfast.tool(effect="once", name="pay")(_cut_off)
    with contextlib.suppress(KeyError), holdfast.run("daily", store=store) as run:
        run.step("large", lambda: "x" * 20_000)
        run.remember("the invoice is due on Friday")
        run.checkpoint([text(n) for n in range(40)], label="first")
        raise KeyError
    store.fork("daily", as_="deep")
    with contextlib.suppress(holdfast.StepInDoubt), holdfast.run("deep", store=store) as run:
        run.checkpoint([text(n) for n in range(60)])
        tool()
    store.resolve("deep", "pay", "done", value="receipt " * 4000)
    store.pin("daily@first")
    store.export("deep", place / "x.holdfast", move=True)
    store.export("deep", place / "d", move=True, directory=True)
    store.close()
    return place


def _cut_off() -> str:
    raise KeyError


@pytest.fixture
def target() -> Iterator[holdfast.Store]:
    """A store with something in it, which must stay as it is."""
    store = holdfast.store(f"memory://{uuid4().hex}")
    with holdfast.run("mine", store=store) as run:
        run.step("large", lambda: "y" * 20_000)
    yield store
    store.close()


def content(store: holdfast.Store) -> Any:
    port = store._port
    rows = port.list_runs(limit=100)
    return rows, [port.read_events(row.run, limit=2000) for row in rows], port.scan_blobs(limit=1000)


def refused(target: holdfast.Store, path: Path) -> ExportError:
    """Importing must fail with an error of an export, and leave nothing behind."""
    before = content(target)
    with pytest.raises(ExportError) as caught:
        target.import_(path)
    assert content(target) == before
    assert str(path) in str(caught.value)
    return caught.value


def test_the_export_itself_is_sound(exported: Path, target: holdfast.Store) -> None:
    """Or nothing below would prove anything. It has every kind of part."""
    names = [p.relative_to(exported / "d").as_posix() for p in (exported / "d").rglob("*") if p.is_file()]
    assert {name.split("/")[0] for name in names} == {
        MANIFEST,
        "runs",
        "blobs",
        "inbox.jsonl",
        "records.jsonl",
    }
    assert target.import_(exported / "x.holdfast").run == "deep"
    assert target.import_(exported / "d").events == 0


# -- the file -----------------------------------------------------------------------------------------------------


def test_a_file_that_is_cut_off_is_refused(exported: Path, tmp_path: Path, target: holdfast.Store) -> None:
    """At the borders of its blocks, around them, and at many places between."""
    data = (exported / "x.holdfast").read_bytes()
    borders = {0, 1, 511, 512, 513, len(data) - 1, len(data) - 512, len(data) - 1024}
    for length in sorted(borders | set(range(0, len(data), 1777))):
        (tmp_path / "x").write_bytes(data[:length])
        found = refused(target, tmp_path / "x")
        assert isinstance(found, NotAnExport if length < 512 else DamagedExport), length


def test_no_flipped_bit_in_the_file_passes(exported: Path, tmp_path: Path, target: holdfast.Store) -> None:
    """In headers, contents and what fills the blocks: every block is hit, and each time in another place."""
    data = bytearray((exported / "x.holdfast").read_bytes())
    for number, start in enumerate(range(0, len(data), tar.BLOCK)):
        place = start + number * 101 % tar.BLOCK
        data[place] ^= 1 << (number % 8)
        (tmp_path / "x").write_bytes(data)
        refused(target, tmp_path / "x")
        data[place] ^= 1 << (number % 8)
    (tmp_path / "x").write_bytes(data)
    assert target.import_(tmp_path / "x").run == "deep"


@pytest.mark.parametrize("more", [b"\0", b"x", bytes(512), tar.header("more", 0), bytes(10240)])
def test_a_file_with_something_behind_it_is_refused(
    exported: Path, tmp_path: Path, target: holdfast.Store, more: bytes
) -> None:
    """It ends where it ends, also for zeros: two files with one content would be two files."""
    (tmp_path / "x").write_bytes((exported / "x.holdfast").read_bytes() + more)
    assert isinstance(refused(target, tmp_path / "x"), DamagedExport)


def rewritten(exported: Path, to: Path, change: Any) -> None:
    """The file anew from its parts, with right headers, after ``change(parts)``."""
    parts = parts_of(exported / "d")
    change(parts)
    data = b"".join(
        tar.header(name, len(part)) + part + tar.padding(len(part)) for name, part in parts.items()
    )
    to.write_bytes(data + tar.END)


def parts_of(directory: Path) -> dict[str, bytes]:
    manifest = read((directory / MANIFEST).read_bytes(), "x")
    return {name: (directory / name).read_bytes() for name in files_of(manifest)}


def test_a_part_that_is_there_twice_is_refused(
    exported: Path, tmp_path: Path, target: holdfast.Store
) -> None:
    """Which of them is meant, nobody knows."""
    data = (exported / "x.holdfast").read_bytes()
    first = tar.BLOCK * (2 + (len((exported / "d" / MANIFEST).read_bytes()) - 1) // tar.BLOCK)
    (tmp_path / "x").write_bytes(data[:first] + data)
    assert "twice" in str(refused(target, tmp_path / "x"))


# -- the parts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [MANIFEST, "runs/0-deep.jsonl", "runs/1-daily.jsonl", "inbox.jsonl", "records.jsonl", "blobs/"]
)
@pytest.mark.parametrize("how", ["missing", "empty", "cut off", "flipped", "longer", "crlf"])
def test_a_part_that_is_not_what_it_was_is_refused(
    exported: Path, tmp_path: Path, target: holdfast.Store, kind: str, how: str
) -> None:
    """Of every kind, in the directory and in a file with right headers."""

    def change(parts: dict[str, bytes]) -> None:
        name = next(name for name in parts if name.startswith(kind))
        data = parts.pop(name)
        flipped = data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :]
        changed = {
            "empty": b"",
            "cut off": data[:-1],
            "flipped": flipped,
            "longer": data + b"\n",
            "crlf": data.replace(b"\n", b"\r\n") if b"\n" in data else data + b"\r",
        }
        if how in changed:
            parts[name] = changed[how]
            parts.update({other: parts.pop(other) for other in list(parts) if other != name})

    rewritten(exported, tmp_path / "x", change)
    refused(target, tmp_path / "x")
    shutil.copytree(exported / "d", tmp_path / "d")
    parts = parts_of(exported / "d")
    change(parts)
    for name in parts_of(exported / "d"):
        if name in parts:
            (tmp_path / "d" / name).write_bytes(parts[name])
        else:
            (tmp_path / "d" / name).unlink()
    refused(target, tmp_path / "d")


def test_a_part_too_many_is_refused(exported: Path, tmp_path: Path, target: holdfast.Store) -> None:
    """Anywhere; only what file managers hide in directories is overlooked."""
    rewritten(exported, tmp_path / "x", lambda parts: parts.update({"blobs/" + "ab" * 32: b"x"}))
    assert "does not know" in str(refused(target, tmp_path / "x"))
    for extra in ("notes.txt", "runs/2-x.jsonl", "blobs/" + "ab" * 32, "more/deep/x"):
        shutil.copytree(exported / "d", tmp_path / "d")
        (tmp_path / "d" / extra).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "d" / extra).write_bytes(b"x")
        assert extra in str(refused(target, tmp_path / "d"))
        shutil.rmtree(tmp_path / "d")
    shutil.copytree(exported / "d", tmp_path / "d")
    (tmp_path / "d" / ".DS_Store").write_bytes(b"x")
    assert target.import_(tmp_path / "d").run == "deep"


# -- made up: every hash is right ---------------------------------------------------------------------------------


def forged(exported: Path, to: Path, change: Any) -> None:
    """An export whose parts were changed by somebody who knows how the hashes are made."""

    def work(parts: dict[str, bytes]) -> None:
        manifest = read(parts[MANIFEST], "x")
        manifest = change(manifest, parts) or manifest
        runs = tuple(
            run._replace(
                sha256=sha256(parts.get(run.file, b"")).hexdigest(),
                events=parts.get(run.file, b"").count(b"\n"),
            )
            for run in manifest.runs
        )
        parts[MANIFEST] = write(sealed(manifest._replace(runs=runs)))

    rewritten(exported, to, work)


def lines(parts: dict[str, bytes], name: str) -> list[bytes]:
    return parts[name].splitlines(keepends=True)


DEEP = "runs/0-deep.jsonl"


def without_an_event(manifest: Manifest, parts: dict[str, bytes]) -> None:
    found = lines(parts, DEEP)
    parts[DEEP] = b"".join(found[:2] + found[3:])


def without_the_last_event(manifest: Manifest, parts: dict[str, bytes]) -> Manifest:
    parts[DEEP] = b"".join(lines(parts, DEEP)[:-1])
    return manifest._replace(runs=(manifest.runs[0]._replace(upto_seq=manifest.head - 1), *manifest.runs[1:]))


def events_in_disorder(manifest: Manifest, parts: dict[str, bytes]) -> None:
    found = lines(parts, DEEP)
    parts[DEEP] = b"".join([found[1], found[0], *found[2:]])


def an_event_twice(manifest: Manifest, parts: dict[str, bytes]) -> None:
    found = lines(parts, DEEP)
    parts[DEEP] = b"".join([found[0], *found])


def anothers_events(manifest: Manifest, parts: dict[str, bytes]) -> None:
    parts[DEEP] = parts["runs/1-daily.jsonl"]


def another_body(manifest: Manifest, parts: dict[str, bytes]) -> None:
    parts[DEEP] = parts[DEEP].replace(b'"effect":"once"', b'"effect":"read"')


def a_line_that_is_no_event(manifest: Manifest, parts: dict[str, bytes]) -> None:
    parts[DEEP] += b"{}\n"


def without_a_needed_blob(manifest: Manifest, parts: dict[str, bytes]) -> Manifest:
    address = manifest.blobs[0]
    del parts[f"blobs/{address}"]
    return manifest._replace(blobs=manifest.blobs[1:])


def with_a_needless_blob(manifest: Manifest, parts: dict[str, bytes]) -> Manifest:
    address = sha256(b"x").hexdigest()
    parts[f"blobs/{address}"] = b"x"
    return manifest._replace(blobs=tuple(sorted((*manifest.blobs, address))))


def another_name(manifest: Manifest, parts: dict[str, bytes]) -> Manifest:
    parts["runs/0-steal.jsonl"] = parts.pop(DEEP)
    run = manifest.runs[0]._replace(run="steal", file="runs/0-steal.jsonl")
    return manifest._replace(run="steal", runs=(run, *manifest.runs[1:]))


@pytest.mark.parametrize(
    "change",
    [
        without_an_event,
        without_the_last_event,
        events_in_disorder,
        an_event_twice,
        anothers_events,
        another_body,
        a_line_that_is_no_event,
        without_a_needed_blob,
        with_a_needless_blob,
        another_name,
    ],
)
def test_a_history_that_does_not_hold_together_is_refused(
    exported: Path, tmp_path: Path, target: holdfast.Store, change: Any
) -> None:
    """Also when every hash is right: the events' own checksums, their order and what they need still tell."""
    forged(exported, tmp_path / "x", change)
    assert isinstance(refused(target, tmp_path / "x"), DamagedExport)


def test_a_circle_is_refused(exported: Path, tmp_path: Path, target: holdfast.Store) -> None:
    """A run that is its own ancestor has no beginning."""

    def circle(manifest: Manifest, parts: dict[str, bytes]) -> Manifest:
        oldest = manifest.runs[-1]._replace(origin="deep", origin_seq=1)
        return manifest._replace(runs=(*manifest.runs[:-1], oldest))

    forged(exported, tmp_path / "x", circle)
    assert "circle" in str(refused(target, tmp_path / "x"))


def test_a_lineage_that_contradicts_the_store_is_refused(
    exported: Path, tmp_path: Path, target: holdfast.Store
) -> None:
    """The same run by name and birth cannot have two beginnings: a circle through the store is not possible either."""
    target.import_(exported / "x.holdfast")

    def rooted(manifest: Manifest, parts: dict[str, bytes]) -> Manifest:
        daily = manifest.runs[1]._replace(file="runs/0-daily.jsonl")
        parts["runs/0-daily.jsonl"] = parts.pop("runs/1-daily.jsonl")
        for name in (DEEP, "inbox.jsonl", "records.jsonl"):
            del parts[name]
        needed = [
            line for line in lines(parts, "runs/0-daily.jsonl") if b"_blob" in line or b'"state"' in line
        ]
        kept = tuple(a for a in manifest.blobs if any(a.encode() in line for line in needed))
        for address in set(manifest.blobs) - set(kept):
            del parts[f"blobs/{address}"]
        stolen = daily._replace(birth=manifest.runs[0].birth)
        # Whoever forges the birth has to forge the chain, too: it begins there.
        events = [read_event(line[:-1]) for line in lines(parts, stolen.file)]
        forged_events = relinked("daily", stolen.birth, events, 0)
        parts[stolen.file] = b"".join(event_line(event) + b"\n" for event in forged_events)
        return Manifest("daily", False, (stolen,), None, kept)

    forged(exported, tmp_path / "y", rooted)
    with pytest.raises(ImportClash):
        target.import_(tmp_path / "y")


def test_a_newer_version_is_told(exported: Path, tmp_path: Path, target: holdfast.Store) -> None:
    """It says so, whatever else it may hold that is not known here."""

    def newer(parts: dict[str, bytes]) -> None:
        content = {**loads(parts[MANIFEST]), "version": 4, "news": True}
        parts[MANIFEST] = dumps(content, option=OPT_INDENT_2) + b"\n"

    rewritten(exported, tmp_path / "x", newer)
    assert isinstance(refused(target, tmp_path / "x"), NewerExport)


@pytest.mark.parametrize("data", [b"", b"x", b"SQLite format 3\0" + bytes(2000), bytes(1024), bytes(5000)])
def test_what_was_never_an_export_is_told(tmp_path: Path, target: holdfast.Store, data: bytes) -> None:
    """Other files, empty ones, directories, and what is not there at all."""
    (tmp_path / "x").write_bytes(data)
    assert isinstance(refused(target, tmp_path / "x"), NotAnExport)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_bytes(data)
    assert isinstance(refused(target, tmp_path / "d"), NotAnExport)
    assert isinstance(refused(target, tmp_path / "nowhere"), NotAnExport)


FULL = """
import sys
import holdfast
from pathlib import Path

place = Path(sys.argv[1])
store = holdfast.store("memory://full")
with holdfast.run("daily", store=store) as run:
    run.step("large", lambda: "x" * 200_000)
for directory in (False, True):
    for move in (False, True):
        try:
            store.export("daily", place / "x", directory=directory, move=move)
        except holdfast.ExportError as error:
            assert str(place / "x") in str(error) and "No space left" in str(error), error
        else:
            sys.exit("a full disk took it")
        assert not list(place.iterdir()), list(place.iterdir())
assert store.get("daily").status == "finished"
print("done")
"""


def test_a_full_disk_leaves_no_half_export(tmp_path: Path) -> None:
    """ExportError names the path; nothing lies there, and a run that was to move is not sealed."""
    mounting = 'mount -t tmpfs -o size=100k tmpfs "$1"\nexec "$2" -c "$3" "$1"'
    command = ["unshare", "--mount", "sh", "-ec", mounting, "sh", str(tmp_path), sys.executable, FULL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, target: holdfast.Store) -> None:
    """The same error, for a directory that takes no files."""
    with pytest.raises(ExportError, match="cannot be written"):
        target.export("mine", "/proc/x.holdfast")
    assert target.get("mine").status == "finished"
