"""Writes the manifest of an export, and checks one that is read.

It checks the manifest alone; the importer checks the other parts. Names of parts are computed from their
content, so a forged manifest cannot make the importer read a path outside the export.
"""

import re
from hashlib import sha256
from typing import Any, Final, NoReturn

from orjson import OPT_INDENT_2, JSONDecodeError, dumps, loads

from holdfast import limits
from holdfast.core.journal.event_check import (
    birth_problem,
    facts_problem,
    status_problem,
    time_problem,
)
from holdfast.core.journal.names import check_run_id
from holdfast.errors import BadName, DamagedExport, NewerExport, NotAnExport
from holdfast.model.exports import (
    ExportedChild,
    ExportedInbox,
    ExportedRecords,
    ExportedRun,
    Manifest,
    SingleUse,
)

FORMAT: Final = "holdfast-export"
VERSION: Final = 3
"""Since version 2 a line of an event has its chain, and the export of a moved run has ``single_use``.

Version 3 has children, facts and pins. An export without any is written as version 2, which older versions
can read.
"""
MANIFEST: Final = "manifest.json"
INBOX: Final = "inbox.jsonl"
RECORDS: Final = "records.jsonl"
_NAME_CHARS_MAX: Final = 60
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


def run_file(number: int, run: str) -> str:
    """The name of the part with a run's events: valid on every file system, and readable."""
    return f"runs/{number}-{_UNSAFE.sub('_', run)[:_NAME_CHARS_MAX]}.jsonl"


def blob_file(address: str) -> str:
    """The name of the part with a blob's content: its hash."""
    return f"blobs/{address}"


def child_place(number: int) -> str:
    """The prefix of the names of all parts of a child's export."""
    return f"children/{number}/"


def files_of(manifest: Manifest) -> list[str]:
    """The names of the run's own parts, in the order of the export. The parts of its children follow."""
    beside = [part.file for part in (manifest.inbox, manifest.records) if part]
    return [MANIFEST, *(run.file for run in manifest.runs), *beside, *map(blob_file, manifest.blobs)]


def sealed(manifest: Manifest) -> Manifest:
    """The manifest with its own hash."""
    return manifest._replace(sha256=_hash(manifest))


def write(manifest: Manifest) -> bytes:
    """The bytes of the manifest in an export."""
    assert manifest.sha256, "a manifest is written with its hash"
    return _text(manifest)


def read(data: bytes, path: str) -> Manifest:
    """The manifest, if this version can read it and it is consistent.

    Raises NotAnExport, NewerExport or DamagedExport, each naming ``path``.
    """
    content = _content(data, path)
    try:
        manifest = _parsed(content)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedExport(path=path, problem=f"has a manifest that makes no sense: {error}") from error
    # Writing it again must give the same bytes: otherwise a part of it is not covered by the hash.
    if _text(manifest) != data or _hash(manifest) != manifest.sha256:
        raise DamagedExport(path=path, problem="has a manifest that was changed after it was written")
    _check(manifest, path)
    return manifest


# -- its text ------------------------------------------------------------------------------------------------


def _text(manifest: Manifest) -> bytes:
    runs = [run._asdict() for run in manifest.runs]
    inbox = manifest.inbox._asdict() if manifest.inbox else None
    fields = {**manifest._asdict(), "runs": runs, "inbox": inbox}
    version = fields.pop("version")
    single_use = fields.pop("single_use")
    children, records = fields.pop("children"), fields.pop("records")
    # The hashes of older versions were made without the later fields.
    if version > 1:
        fields["single_use"] = single_use and single_use._asdict()
    if version > 2:
        fields["children"] = [child._asdict() for child in children]
        fields["records"] = records and _records_text(records)
    return dumps({"format": FORMAT, "version": version, **fields}, option=OPT_INDENT_2) + b"\n"


def _records_text(records: ExportedRecords) -> dict[str, Any]:
    """Its fields. An export without ends of promises is as it was before those came along."""
    fields = records._asdict()
    if not records.settlements:
        del fields["settlements"]
    return fields


def _hash(manifest: Manifest) -> str:
    return sha256(_text(manifest._replace(sha256=""))).hexdigest()


def _content(data: bytes, path: str) -> dict[str, Any]:
    try:
        content = loads(data)
    except JSONDecodeError as error:
        raise DamagedExport(path=path, problem=f"has a manifest that is not JSON ({error})") from error
    if type(content) is not dict or content.pop("format", None) != FORMAT:
        raise NotAnExport(path=path, problem="has a manifest of something else than a Holdfast export")
    version = content.get("version")
    if type(version) is int and version > VERSION:
        raise NewerExport(
            path=path, problem=f"is of version {version}; this Holdfast knows versions up to {VERSION}"
        )
    if version not in {1, 2, VERSION} or type(version) is not int:
        raise DamagedExport(path=path, problem=f"has a manifest of version {version!r}")
    return content


def _parsed(content: dict[str, Any]) -> Manifest:
    runs = tuple(ExportedRun(**run) for run in content.pop("runs"))
    inbox = content.pop("inbox")
    single_use = content.pop("single_use") if content["version"] > 1 else None
    children = content.pop("children") if content["version"] > 2 else ()
    records = content.pop("records") if content["version"] > 2 else None
    manifest = Manifest(
        **{**content, "blobs": tuple(content["blobs"])},
        children=tuple(ExportedChild(**child) for child in children),
        runs=runs,
        inbox=None if inbox is None else ExportedInbox(**inbox),
        single_use=None if single_use is None else SingleUse(**single_use),
        records=None if records is None else ExportedRecords(**records),
    )
    _check_types(manifest, runs)
    return manifest


def _check_types(manifest: Manifest, runs: tuple[ExportedRun, ...]) -> None:
    """Checks the type of every field. Later code relies on it and does not check again."""
    texts: list[object] = [manifest.run, manifest.sha256, *manifest.blobs]
    numbers: list[object] = []
    for run in runs:
        texts += [run.run, run.birth, run.status, run.file, run.sha256]
        texts += [run.origin] if run.origin is not None else []
        numbers += [run.origin_seq, run.upto_seq, run.events]
        if type(run.created_at) is not float or type(run.facts) is not dict:
            raise TypeError(f"created_at is {run.created_at!r}, facts are {run.facts!r}")
    if manifest.inbox is not None:
        texts += [manifest.inbox.file, manifest.inbox.sha256]
        numbers.append(manifest.inbox.letters)
    if manifest.records is not None:
        texts += [manifest.records.file, manifest.records.sha256]
        numbers += [manifest.records.facts, manifest.records.pins, manifest.records.settlements]
    texts += manifest.single_use or ()
    texts += [text for child in manifest.children for text in child]
    if type(manifest.moved) is not bool:
        raise TypeError(f"moved is {manifest.moved!r}")
    for text in texts:
        if type(text) is not str:
            raise TypeError(f"{text!r} is no text")
    for number in numbers:
        if type(number) is not int or not 0 <= number <= limits.SEQ_MAX:
            raise TypeError(f"{number!r} is no number")


# -- what it says --------------------------------------------------------------------------------------------


def _check(manifest: Manifest, path: str) -> None:
    def refuse(problem: str) -> NoReturn:
        raise DamagedExport(path=path, problem=problem)

    if len(manifest.runs) > limits.EXPORT_RUNS_MAX:
        refuse(f"holds {len(manifest.runs):,} runs")
    _check_lineage(manifest, refuse)
    if manifest.version > 1 and manifest.moved != (manifest.single_use is not None):
        refuse("does not say whether it is for a single use")
    for number, run in enumerate(manifest.runs):
        _check_run(number, run, path, refuse)
    if manifest.inbox is not None and manifest.inbox.file != INBOX:
        refuse(f"keeps letters in {manifest.inbox.file!r}")
    if manifest.inbox is not None and manifest.inbox.letters > limits.EXPORT_LETTERS_MAX:
        refuse(f"holds {manifest.inbox.letters:,} letters")
    if list(manifest.blobs) != sorted(set(manifest.blobs)) or not all(map(_HASH.fullmatch, manifest.blobs)):
        refuse("lists blobs that are none")
    _check_children(manifest, refuse)
    _check_records(manifest, refuse)
    if bool(manifest.children or manifest.records) != (manifest.version > 2):
        refuse("does not say whether it has children, facts or pins")


def _check_records(manifest: Manifest, refuse: Any) -> None:
    records = manifest.records
    if records is not None and records.file != RECORDS:
        refuse(f"keeps facts in {records.file!r}")
    count = 0 if records is None else records.facts + records.pins + records.settlements
    if records is not None and not 0 < count <= limits.EXPORT_RECORDS_MAX:
        refuse(f"holds {count:,} facts, pins and ends of promises")


def _check_children(manifest: Manifest, refuse: Any) -> None:
    names = [child.run for child in manifest.children]
    if len(names) > limits.EXPORT_RUNS_MAX:
        refuse(f"holds {len(names):,} children")
    if len({*names, manifest.run}) != len(names) + 1:
        refuse("holds a child twice")


def _check_run(number: int, run: ExportedRun, path: str, refuse: Any) -> None:
    try:
        check_run_id(run.run)
    except BadName as error:
        raise DamagedExport(path=path, problem=f"holds a run that cannot be: {error}") from error
    if run.file != run_file(number, run.run):
        refuse(f"keeps run {run.run} in {run.file!r}")
    problem = birth_problem(run.birth) or status_problem(run.status) or time_problem(run.created_at)
    problem = problem or facts_problem(run.facts)
    if problem:
        refuse(f"tells of run {run.run} what cannot be: {problem}")


def _check_lineage(manifest: Manifest, refuse: Any) -> None:
    """Checks that each run is a fork of the next, before its own end, and that no run is its own ancestor."""
    names = [run.run for run in manifest.runs]
    if not names or names[0] != manifest.run:
        refuse("does not hold the run that it names")
    if len(set(names)) != len(names) or any(
        run.origin in names[: n + 1] for n, run in enumerate(manifest.runs)
    ):
        refuse(
            f"has a lineage that leads in a circle: {' from '.join([*names, str(manifest.runs[-1].origin)])}"
        )
    for run, origin in zip(manifest.runs, [*manifest.runs[1:], None], strict=True):
        if run.origin != (origin.run if origin else None):
            refuse(f"holds run {run.run}, forked from {run.origin}, and not that one")
        if origin is not None and not origin.upto_seq == run.origin_seq >= origin.origin_seq:
            refuse(f"holds run {run.run}, forked from #{run.origin_seq}, where {origin.run} has no event")
        if origin is None and run.origin_seq:
            refuse(f"holds run {run.run}, which begins after #{run.origin_seq}")
        if run.upto_seq < run.origin_seq:
            refuse(f"holds run {run.run}, which ends before it begins")
    if manifest.head == 0:
        refuse("holds a run without events")
