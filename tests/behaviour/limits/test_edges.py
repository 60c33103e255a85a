"""Every bound at its edge: exactly as much works, one more is refused by its name, and nothing of it is left.

``EDGES`` has a line for each name of ``limits.py``: a test of this file, the test elsewhere that tries the edge, or
what the bound is instead of a refusal. A new limit without a line fails. Planted: the bound itself refused (``SLEEP_S_MAX``),
a check taken out (that of names), a limit without a line.
"""

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

import holdfast
from holdfast import limits
from holdfast.core.journal import event_check
from holdfast.core.transfer import export_manifest
from holdfast.errors import BadName, DamagedExport, EmbedderUnavailable, HoldfastError, Misuse, TooLarge
from holdfast.exports.read import open_parcel
from holdfast.model.events import Event
from holdfast.model.exports import ExportedInbox, ExportedRecords, ExportedRun, Manifest
from holdfast.stores.bounds import SEALED, check_record

ROOT = Path(__file__).parents[3]
Edge = Callable[["Bounds", int], object]

RULES = "src/holdfast/testing/store_rules"
ELSEWHERE = {
    "ACTS_KEPT": "tests/behaviour/people/test_acts.py",
    "ACT_TEXT_CHARS_MAX": "tests/behaviour/people/test_acts.py",
    "APPEND_EVENTS_MAX": f"{RULES}/refusals.py::test_an_append_has_a_size_at_most",
    "APPEND_SIZE_BYTES_MAX": f"{RULES}/refusals.py::test_an_append_has_a_size_at_most",
    "ARTIFACT_BYTES_MAX": "tests/behaviour/artifacts/test_write.py::test_a_file_beyond_what_is_copied_at_all",
    "BLOB_PAGE_MAX": f"{RULES}/blobs.py",
    "BLOB_SIZE_BYTES_MAX": f"{RULES}/blobs.py::test_a_blob_has_a_size_at_most",
    "BRANCHES_MAX": "tests/behaviour/lineage/test_lineage.py::test_kept_branches_and_series_are_bounded",
    "CHILDREN_BORROWED_MAX": "tests/behaviour/lineage/test_children.py::test_more_children_than_a_row_can_name",
    "COMPACTED_NOTES_BYTES_MAX": "tests/behaviour/prune/test_compacted_notes.py",
    "COMPACTED_NOTES_MAX": "tests/behaviour/prune/test_compacted_notes.py",
    "EVENT_PAGE_MAX": f"{RULES}/events.py::test_a_page_of_events_is_bounded",
    "REMOVALS_MAX": f"{RULES}/removal.py::test_the_runs_and_records_of_one_call_are_bounded",
    "REMOVED_RECORDS_MAX": f"{RULES}/removal.py::test_the_runs_and_records_of_one_call_are_bounded",
    "HANDOFF_VALUE_BYTES_MAX": "tests/behaviour/transfer/test_handoff_document.py",
    "INBOX_MESSAGES_MAX": "tests/behaviour/people/test_run_messages.py::test_what_cannot_be_delivered_is_refused",
    "PREMISE_BYTES_MAX": "tests/behaviour/premises/test_rules.py",
    "PREMISE_FILES_MAX": "tests/behaviour/premises/test_rules.py",
    "PREMISE_TEXT_CHARS_MAX": "tests/behaviour/premises/test_reach.py",
    "PREMISE_TREE_BYTES_MAX": "tests/behaviour/premises/test_reach.py",
    "PREMISE_USES_MAX": "tests/behaviour/premises/test_reach.py",
    "PROXY_BODY_BYTES_MAX": "tests/proxy/test_proxy.py::test_requests_are_bounded",
    "PRUNE_MEMORY_BYTES_MAX": "tests/behaviour/lineage/test_growth.py",
    "RECORD_PAGE_MAX": f"{RULES}/records.py::test_a_page_of_records_is_bounded",
    "RECORD_SIZE_BYTES_MAX": f"{RULES}/records.py::test_a_record_has_a_size_at_most",
    "RUN_PAGE_MAX": f"{RULES}/runs.py::test_a_page_of_runs_is_bounded",
    "SERIES_RUNS_MAX": "tests/behaviour/lineage/test_lineage.py::test_kept_branches_and_series_are_bounded",
    "STATE_SHAPE_LEAVES_MAX": "tests/behaviour/state/test_grown_states.py::test_what_is_remembered_is_bounded",
    "STATE_SHAPE_LEAVES_TOTAL_MAX": "tests/behaviour/state/test_grown_states.py::test_what_is_remembered_is_bounded",
    "STATE_SHAPE_LEVELS_MAX": "tests/behaviour/state/test_grown_states.py::test_what_is_remembered_is_bounded",
    "TRACEBACK_CHARS_MAX": "tests/unit/test_codec_exceptions.py",
    "VALUE_DEPTH_MAX": "tests/unit/test_codec_values.py::test_depth_is_limited_as_json_counts_it",
    "VALUE_SIZE_BYTES_MAX": "tests/unit/test_codec_values.py::test_size_is_limited",
    "VECTORS_MAX": "tests/contract/test_sqlite_vectors.py",
}  # fmt: skip
"""The test, or the file of tests, that tries the edge."""

NO_REFUSAL = {
    "a pace or a wait": (
        "LEASE_S CHAIN_WAIT_S BEATS_PER_LEASE FLUSH_SYNC_S STREAM_FLUSH_S STREAM_FLUSH_BYTES BUSY_TIMEOUT_S FORK_WAIT_S "
        "STATEMENT_TIMEOUT_S CONNECT_TIMEOUT_S LISTEN_LOOK_S POLL_S OUTCOME_HOLD_S OUTCOME_BACKOFF_S "
        "OUTCOME_BACKOFF_S_MAX OUTCOME_TELL_S SETTLE_S DRAIN_S PROXY_STOP_S RETRY_BACKOFF_S RETRY_BACKOFF_S_MAX "
        "WORKER_DRAIN_S WORKER_POLL_S WORKER_POLL_S_MIN WAIT_LOOK_S EMBEDDER_TIMEOUT_S AUTOSAVE_EVERY_S "
        "AUTOSAVE_EVERY_STEPS ARGUMENT_CHECK_EVERY HOLDER_ENDS_S INTENT_WAITS_S PREMISE_REACH_S CLOCK_BACK_S "
        "HOOK_TIMEOUT_S HOOK_WAIT_S HOOK_TRIES_MAX HOOK_PAUSE_S HOOK_PAUSE_S_MAX HOOK_LOG_S HOOK_POLL_S MIRROR_PAUSE_S "
        "MIRROR_WAIT_S PRUNE_CHECKPOINTS PRUNE_EVENTS BLOB_GRACE_S WORKER_CRASHES_MAX"
    ),
    "a default that the caller may change": "KEPT_CHECKPOINTS COMPACT_EVENTS_MIN CONTEXT_TOKENS WORKER_RUNS",
    "how large the pieces are that something is kept in, or handled in": (
        "VALUE_INLINE_BYTES_MAX EMBEDDER_BATCH_MAX OBJECT_SIZE_BYTES_MIN SNAPSHOT_EVENTS_MIN SNAPSHOT_CHUNK_BYTES "
        "STATE_INLINE_BYTES_MAX STATE_PIECE_BYTES_MIN STATE_PIECE_BYTES_MAX STATE_WIDTH_MAX STATE_DEPTH_MAX "
        "STATE_PACK_BYTES STATE_MEMORY_NODES_MAX STATE_SHAPE_BYTES_MIN ARTIFACT_PIECE_BYTES_MIN "
        "ARTIFACT_PIECE_BYTES_MAX PRUNE_PAGE_EVENTS "
        "CONNECTIONS_MAX STORE_THREADS_MAX DEFERRED_MAX DEFERRED_BYTES_MAX CHAIN_MEMORY_BYTES_MAX RECENT_CALLS_MAX "
        "CALL_NOTE_BYTES_MAX LOOP_FACTS_COMPACTED_MAX PROXY_LOST_ANSWERS_MAX SECRETS_DECLARED_MAX"
    ),
    "how much is shown, searched or compared; the rest is left out, and said to be": (
        "SEARCH_EVENT_CHARS_MAX UNCLAIMED_SHOWN_MAX MODULE_DATA_NAMES_MAX MODULE_DATA_VALUE_BYTES_MAX "
        "MODULE_DATA_CHARS_MAX ARGUMENT_CHECK_ATTRIBUTES_MAX CONTEXT_VALUE_BYTES_MAX CONTEXT_READ_BYTES_MAX "
        "HANDOFF_BYTES_MAX HANDOFF_ITEMS_MAX PREMISE_SOURCE_BYTES_MAX PREMISE_DEPTH_MAX NOTICE_TEXT_CHARS_MAX"
    ),
}  # fmt: skip
"""Bounds that refuse nothing: what each is."""


class Bounds:
    """A store to write to, a place for files, and a way to make a large bound a small one."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.url = str(place / "store.db")
        self.runs = 0
        self.bound = 0
        """The bound under test, as it was before a test made it smaller."""
        self._monkeypatch = monkeypatch

    def shrink(self, name: str, value: int) -> None:
        """Give a bound another value wherever it was taken from ``limits``."""
        for module in [*sys.modules.values()]:
            if getattr(module, "__name__", "").startswith("holdfast") and name in vars(module):
                self._monkeypatch.setattr(module, name, value)

    def in_run(self, act: Callable[[holdfast.Run], Any], name: str = "", **options: Any) -> Any:
        """Do it in a new run, which comes to its end."""
        self.runs += 1
        with holdfast.run(name or f"r{self.runs}", store=self.url, **options) as run:
            return act(run)

    @property
    def store(self) -> holdfast.Store:
        return holdfast.store(self.url)


@pytest.fixture
def bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bounds]:
    made = Bounds(tmp_path, monkeypatch)
    yield made
    made.store.close()


HERE: dict[str, tuple[Edge, type[BaseException], str, int | None]] = {}
"""By limit: what tries a size, what it is refused with, what that says, and the value that the bound gets."""


def edge(
    name: str, error: type[BaseException] = TooLarge, says: str = "", *, shrunk: int | None = None
) -> Callable[[Edge], Edge]:
    """Note what tries an edge. It is called with a size: the bound, and one more."""

    def noted(tried: Edge) -> Edge:
        HERE[name] = (tried, error, says, shrunk)
        return tried

    return noted


# -- names -------------------------------------------------------------------------------------------------------------


@edge("RUN_ID_CHARS_MAX", BadName, "201")
def _run_id(bounds: Bounds, size: int) -> None:
    bounds.in_run(lambda _: None, "i" * size)


@edge("STEP_NAME_CHARS_MAX", BadName, "201")
def _step_name(bounds: Bounds, size: int) -> None:
    bounds.in_run(lambda run: run.step("n" * size, str, 1))


@edge("LABEL_CHARS_MAX", BadName, "101")
def _label(bounds: Bounds, size: int) -> None:
    bounds.in_run(lambda run: run.checkpoint({"a": 1}, label="l" * size))


@edge("KEY_CHARS_MAX", BadName, "501")
def _key(bounds: Bounds, size: int) -> None:
    bounds.in_run(lambda run: run.options(key="k" * size).step("a", str, 1))


# -- values ------------------------------------------------------------------------------------------------------------


@edge("NESTING_DEPTH_MAX", Misuse, "nested 64 steps deep")
def _nesting(bounds: Bounds, size: int) -> None:
    def deeper(run: holdfast.Run, left: int) -> int:
        return 0 if left == 0 else run.step("in", deeper, holdfast.ephemeral(run), left - 1)

    bounds.in_run(lambda run: deeper(run, size))


@edge("LOOP_FACTS_MAX", Misuse, "memory is 1 to 300")
def _loop_memory(bounds: Bounds, size: int) -> None:
    bounds.in_run(lambda _: None, loops=holdfast.LoopPolicy(memory=size))


@edge("SLEEP_S_MAX", Misuse, "cannot be")
def _sleep(bounds: Bounds, size: int) -> None:
    with suppress(holdfast.Sleeping):
        bounds.in_run(lambda run: run.sleep(size, wait_s=0))


@edge("TIME_MAX", Misuse, "cannot be")
def _time(bounds: Bounds, size: int) -> None:
    with suppress(holdfast.Sleeping):
        bounds.in_run(lambda run: run.sleep_until(size, wait_s=0))


@edge("COUNT_MAX", Misuse, "cannot be a limit")
def _count(bounds: Bounds, size: int) -> None:
    bounds.in_run(lambda _: None, budget={"tokens": size})


@edge("ARTIFACTS_BYTES_MAX", HoldfastError, "7", shrunk=6)
def _artifacts(bounds: Bounds, size: int) -> None:
    def write(run: holdfast.Run) -> None:
        with run.open("a.txt", "w") as file:
            file.write("x" * size)

    bounds.in_run(write, workspace=bounds.place, artifact_bytes_max=limits.ARTIFACTS_BYTES_MAX)


@edge("SEALED_BYTES_MAX", TooLarge, "the limit is 1,000,000")
def _sealed(_: Bounds, size: int) -> None:
    check_record("s", "k", SEALED + bytes(limits.RECORD_SIZE_BYTES_MAX - len(SEALED) + size))


# -- memory and people -------------------------------------------------------------------------------------------------


@edge("SCOPE_CHARS_MAX", HoldfastError, "201")
def _scope(bounds: Bounds, size: int) -> None:
    bounds.store.memory.remember("x", scope="s" * size)


@edge("FACT_KEY_CHARS_MAX", HoldfastError, "201")
def _fact_key(bounds: Bounds, size: int) -> None:
    bounds.store.memory.remember("x", key="k" * size)


@edge("FACT_TEXT_CHARS_MAX", TooLarge, "20,001")
def _fact_text(bounds: Bounds, size: int) -> None:
    bounds.store.memory.remember("x" * size)


@edge("PROMISE_CHARS_MAX", HoldfastError, "1 to 2,000 characters")
def _promise(bounds: Bounds, size: int) -> None:
    bounds.in_run(lambda run: run.promise("p" * size))


@edge("HOOKS_MAX", Misuse, "2 hooks already", shrunk=2)
def _hooks(bounds: Bounds, size: int) -> None:
    for number in range(size - len([*bounds.store.hooks.list()])):
        bounds.store.hooks.add(f"http://127.0.0.1:9/{number}", on=["finished"])


@edge("HANDOFF_DOUBTS_MAX", TooLarge, "settle some", shrunk=2)
def _doubts(bounds: Bounds, size: int) -> None:
    def cut(number: int) -> None:
        raise OSError(number)

    async def work(name: str) -> None:
        async with holdfast.run(name, store=bounds.url) as run:
            calls = [run.once("cut", cut, number) for number in range(size)]
            assert all(await asyncio.gather(*calls, return_exceptions=True))

    with suppress(holdfast.StepInDoubt):
        asyncio.run(work(f"doubts{size}"))
    assert len(bounds.store.doubts(f"doubts{size}")) == size
    bounds.store.handoff(f"doubts{size}", "taker")


@edge("EMBEDDER_ANSWER_BYTES_MAX", EmbedderUnavailable, "answered with more than 40 bytes", shrunk=40)
def _embedder_answer(_: Bounds, size: int) -> None:
    import io

    from holdfast.embedding.http_embedder import Endpoint

    embedder = Endpoint("http://127.0.0.1:9/v1/embeddings", "m")
    body = b'{"data":[{"index":0,"embedding":[1]}]}'.ljust(size)
    embedder._opener = type("Opener", (), {"open": lambda *_, **__: io.BytesIO(body)})()
    embedder.embed(["a"])


# -- data from others --------------------------------------------------------------------------------------------------


class Refused(Exception):
    """What a check has found."""


def found(problem: str) -> None:
    if problem:
        raise Refused(problem)


SOUND = Event(1, 1.0, "mark", "think", "a.1", 1, b'{"value":1}', 0)


@edge("SEQ_MAX", Refused, "its number is beyond")
def _seq(_: Bounds, size: int) -> None:
    found(event_check.event_problem(SOUND._replace(seq=size)))


@edge("FENCE_MAX", Refused, "its fence")
def _fence(_: Bounds, size: int) -> None:
    found(event_check.event_problem(SOUND._replace(fence=size)))


@edge("EVENT_NAME_CHARS_MAX", Refused, "more than 8,000 characters")
def _event_name(_: Bounds, size: int) -> None:
    found(event_check.event_problem(SOUND._replace(name="n" * size)))


@edge("BODY_DEPTH_MAX", Refused, "nested deeper than 450 levels")
def _body_depth(_: Bounds, size: int) -> None:
    found(event_check.content_problem(b"[" * size + b"]" * size))


@edge("LETTER_KEY_CHARS_MAX", Refused, "its id has 1,001 characters")
def _letter_key(_: Bounds, size: int) -> None:
    found(event_check.letter_problem("k" * size, b'{"kind":"child","run":"a","at":1.0}'))


@edge("BIRTH_CHARS_MAX", Refused, "its birth is")
def _birth(_: Bounds, size: int) -> None:
    found(event_check.birth_problem("b" * size))


HASH = "ab" * 32


def lineage(count: int) -> tuple[ExportedRun, ...]:
    """So many runs, each forked from the next."""
    name = [f"r{n}" for n in range(count)]
    return tuple(
        ExportedRun(
            one, "b", 1.5, "failed", name[n + 1] if n + 1 < count else None, int(n + 1 < count), 1 + (n == 0), {}, 1,
            export_manifest.run_file(n, one), HASH,
        )
        for n, one in enumerate(name)
    )  # fmt: skip


def read_manifest(**fields: Any) -> None:
    made = Manifest("r0", False, lineage(1), None, ())._replace(**fields)
    export_manifest.read(export_manifest.write(export_manifest.sealed(made)), "x")


@edge("EXPORT_RUNS_MAX", DamagedExport, "holds 4 runs", shrunk=3)
def _export_runs(_: Bounds, size: int) -> None:
    read_manifest(runs=lineage(size))


@edge("EXPORT_LETTERS_MAX", DamagedExport, "holds 1,001 letters")
def _export_letters(_: Bounds, size: int) -> None:
    read_manifest(inbox=ExportedInbox(size, export_manifest.INBOX, HASH))


@edge("EXPORT_RECORDS_MAX", DamagedExport, "holds 100,001 facts")
def _export_records(_: Bounds, size: int) -> None:
    read_manifest(version=3, records=ExportedRecords(size, 0, export_manifest.RECORDS, HASH))


def exported(bounds: Bounds) -> tuple[Path, int]:
    """An export as a directory, which is made once, and how many parts it has."""
    place = bounds.place / "export"
    if not place.exists():
        bounds.in_run(lambda run: run.step("a", str, 1))
        bounds.store.export(f"r{bounds.runs}", place, directory=True)
    return place, sum(path.is_file() for path in place.rglob("*"))


def import_as(bounds: Bounds, place: Path) -> None:
    """Into a store of its own, where nothing of a refused one arrives."""
    bounds.runs += 1
    target = holdfast.store(bounds.place / f"target{bounds.runs}.db")
    try:
        target.import_(place)
    except HoldfastError:
        assert [*target.runs()] == []
        raise


@edge("EXPORT_MANIFEST_BYTES_MAX", DamagedExport, "has a manifest of more than")
def _export_manifest(bounds: Bounds, size: int) -> None:
    place, _ = exported(bounds)
    bytes_there = (place / "manifest.json").stat().st_size
    bounds.shrink("EXPORT_MANIFEST_BYTES_MAX", bytes_there - (size - bounds.bound))
    import_as(bounds, place)


@edge("EXPORT_LINE_BYTES_MAX", DamagedExport, "")
def _export_line(bounds: Bounds, size: int) -> None:
    place, _ = exported(bounds)
    longest = max(
        len(line) for line in next((place / "runs").iterdir()).read_bytes().splitlines(keepends=True)
    )
    bounds.shrink("EXPORT_LINE_BYTES_MAX", longest - (size - bounds.bound))
    import_as(bounds, place)


@edge("EXPORT_PARTS_MAX", DamagedExport, "holds more than")
def _export_parts(bounds: Bounds, size: int) -> None:
    _, parts = exported(bounds)
    file = bounds.place / "x.holdfast"
    if not file.exists():
        bounds.store.export(f"r{bounds.runs}", file)
    bounds.shrink("EXPORT_PARTS_MAX", parts - (size - bounds.bound))
    with open_parcel(file) as reader:
        assert len(reader.names) == parts


@edge("HANDOFF_DOCUMENT_BYTES_MAX", Misuse, "bytes; the limit is")
def _handoff_document(bounds: Bounds, size: int) -> None:
    _file_of(bounds, size, "HANDOFF_DOCUMENT_BYTES_MAX", "accept", "--store", bounds.url)


@edge("FACTS_FILE_BYTES_MAX", Misuse, "bytes; the limit is")
def _facts_file(bounds: Bounds, size: int) -> None:
    _file_of(bounds, size, "FACTS_FILE_BYTES_MAX", "memories", "--store", bounds.url, "--import")


def _file_of(bounds: Bounds, size: int, name: str, *given: str) -> None:
    """Give a command a file of exactly the bound, or of one byte more."""
    from holdfast.cli.app import app

    file = bounds.place / name
    if not file.exists():
        bounds.in_run(lambda run: run.step("a", str, 1), "giver")
        bounds.store.memory.remember("a fact")
        content = (
            b"".join(bounds.store.memory.export())
            if name == "FACTS_FILE_BYTES_MAX"
            else orjson.dumps(bounds.store.handoff("giver", "taker"))
        )
        file.write_bytes(content)
    bounds.shrink(name, file.stat().st_size - (size - bounds.bound))
    told = CliRunner().invoke(app, [*given, str(file)], env={"HOLDFAST_URL": None})
    if told.exit_code == 2:
        raise Misuse(problem=told.output, advice="")
    assert told.exit_code == 0, told.output


@edge("UI_BODY_BYTES_MAX", HoldfastError, "413", shrunk=200)
def _ui_body(bounds: Bounds, size: int) -> None:
    from starlette.exceptions import HTTPException
    from starlette.requests import Request

    from holdfast.ui.server import _body_of

    del bounds
    parts = [b"x" * (size - 1), b"x"]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    try:
        body = asyncio.run(_body_of(Request({"type": "http", "method": "POST", "headers": []}, receive)))
    except HTTPException as refused:
        raise Misuse(problem=f"{refused.status_code}: {refused.detail}", advice="") from None
    assert len(body) == size


@edge("MCP_BODY_BYTES_MAX", HoldfastError, "413: the request has more than 200 bytes", shrunk=200)
def _mcp_body(bounds: Bounds, size: int) -> None:
    from holdfast.mcp.transports import Guard

    del bounds
    parts, sent, heard = [b"x" * (size - 1), b"x"], [], []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        heard.append(len((await receive())["body"]))

    headers = [(b"host", b"127.0.0.1:9"), (b"authorization", b"Bearer t")]
    scope = {"type": "http", "method": "POST", "headers": headers}
    asyncio.run(Guard(app, "t", "127.0.0.1:9")(scope, receive, send))
    if sent:
        assert heard == []
        raise Misuse(problem=f"{sent[0]['status']}: {sent[1]['body'].decode()}", advice="")
    assert heard == [size]


# -- the table ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HERE)
def test_the_bound_works_and_one_more_is_refused(name: str, bounds: Bounds) -> None:
    """As much as the bound is taken; one more is refused with what it says, and a smaller one is taken again."""
    tried, error, says, shrunk = HERE[name]
    if shrunk is not None:
        bounds.shrink(name, shrunk)
    bound = bounds.bound = int(getattr(limits, name))
    tried(bounds, bound)
    with pytest.raises(error) as refused:
        tried(bounds, bound + 1)
    assert says in f"{refused.value} {getattr(refused.value, 'hint', '')}"


def test_every_limit_has_an_edge() -> None:
    """A test here or elsewhere, or what it is instead of a refusal; no name twice, none that is no limit."""
    none = [name for names in NO_REFUSAL.values() for name in names.split()]
    told = [*HERE, *ELSEWHERE, *none]
    assert sorted(told) == sorted({name for name in vars(limits) if name.isupper()})


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_test_elsewhere_is_there(name: str) -> None:
    """The file names the limit, or has the test that is named."""
    file, _, test = ELSEWHERE[name].partition("::")
    text = (ROOT / file).read_text()
    assert re.search(rf"def {test}\b" if test else rf"\b{name}\b", text)
