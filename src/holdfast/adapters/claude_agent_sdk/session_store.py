"""The SDK's sessions in a Holdfast store.

A session's transcript, and each of its subagents', is a list; an index has one record for a session. Inside a
run, a session that is loaded is the same in each attempt, whatever an attempt before has added to it. That is
left out from then on: the attempt adds it again. So the list also has notes: whose the entries after them
are, and that a run has begun again.
"""

import os
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from claude_agent_sdk import fold_session_summary  # pyright: ignore[reportMissingImports]
from orjson import dumps, loads

from holdfast.adapters.shared.journaled_calls import ASIDE, RunPosition
from holdfast.api.store.store import Store, session_at
from holdfast.codec.secrets import mask_json
from holdfast.engine.run.call_site import here_now
from holdfast.engine.threads.shared_lists import Ledger, coded, is_coded, uncoded
from holdfast.limits import RECORD_PAGE_MAX, RECORD_SIZE_BYTES_MAX

_INDEX: Final = "claude-sessions"
_PART: Final = "holdfast.part"
_BY: Final = "holdfast.by"
_AGAIN: Final = "holdfast.again"
_BATCH_BYTES: Final = RECORD_SIZE_BYTES_MAX // 2
_PART_CHARS: Final = RECORD_SIZE_BYTES_MAX // 8
"""Of a larger entry: a character may become six bytes."""
_DIGEST_CHARS: Final = 32


class HoldfastSessionStore:
    """A ``SessionStore`` for ``ClaudeAgentOptions``. The default ``store`` is the current run's."""

    def __init__(self, store: "str | os.PathLike[str] | Store | None" = None) -> None:
        self._place, self._found = store, None
        self._lists: dict[str, Ledger] = {}
        self._runs: dict[str, str] = {}
        """The runs that have loaded a session here, by its list."""

    async def append(self, key: Any, entries: list[Any]) -> None:
        """Add entries to a transcript; those whose uuid is there already are left out. Durable on return."""
        if not entries:
            return
        ledger = self._list(key)
        known = {_uuid(one) for one in _whole(ledger.items())} - {None}
        new = [entry for entry in entries if entry.get("uuid") not in known]
        by = self._runs.get(_name(key))
        for batch in _batches([coded(entry) for entry in new]):
            ledger.change("add", [{_BY: by}, *batch] if by else batch)
        self._note(key, new)

    async def load(self, key: Any) -> list[Any] | None:
        """A transcript; None if there is none. In a run, as the run has found it first."""
        is_known = self._session_of(key) is not None
        seam = RunPosition.find_free()
        if seam is None:
            return (_entries(self._list(key).items()) or None) if is_known else None

        async def perform() -> int:
            return self._list(key).look() if is_known else 0

        number = int(await seam.tool_async(ASIDE, "session.load", dict(key), perform))
        if not number:
            return None
        held, ledger = _held(), self._list(key)
        self._runs[_name(key)] = held.birth
        if ledger.look() > number:
            after = len(ledger.items(number))
            ledger.change("add", [{_AGAIN: held.birth, "attempt": held.number, "after": after}])
        return _entries(ledger.items(number)) or None

    async def list_sessions(self, project_key: str) -> list[Any]:
        """The sessions of a project, with the time of the last change in milliseconds."""
        return [
            {"session_id": one["session_id"], "mtime": one["mtime"]} for one in self._sessions(project_key)
        ]

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        """What the SDK shows of each session."""
        return [
            {"session_id": one["session_id"], "mtime": one["mtime"], "data": one["summary"]}
            for one in self._sessions(project_key)
        ]

    async def list_subkeys(self, key: Any) -> list[str]:
        """The transcripts of a session's subagents."""
        found = self._session_of(key)
        return list(found["subpaths"]) if found else []

    async def delete(self, key: Any) -> None:
        """Delete a session with its subagents' transcripts; with a subpath, that one. For good."""
        found = self._session_of(key)
        if found is None:
            return
        subpath, whole = key.get("subpath"), {name: key[name] for name in ("project_key", "session_id")}
        if subpath:
            self._change(
                key, lambda old: {**old, "subpaths": [one for one in old["subpaths"] if one != subpath]}
            )
        else:
            self._change(key, lambda _: None)
        gone = (
            [{**whole, "subpath": subpath}]
            if subpath
            else [whole, *({**whole, "subpath": one} for one in found["subpaths"])]
        )
        for one in gone:
            self._list(one).empty()

    # -- the index -------------------------------------------------------------------------------------------

    def _note(self, key: Any, entries: list[Any]) -> None:
        """Tell the index of new entries."""
        subpath = key.get("subpath")

        def noted(old: Any) -> Any:
            known = old or {"session_id": key["session_id"], "subpaths": [], "summary": None, "mtime": 0}
            if subpath:
                more = [] if subpath in known["subpaths"] else [subpath]
                return {**known, "subpaths": [*known["subpaths"], *more]}
            before = None
            if known["summary"] is not None:
                before = {"session_id": key["session_id"], "mtime": known["mtime"], "data": known["summary"]}
            summary = fold_session_summary(before, key, entries)["data"]
            mtime = max(int(self._session().clock.wall() * 1000), known["mtime"])
            return {**known, "summary": summary, "mtime": mtime}

        self._change(key, noted)

    def _change(self, key: Any, change: Any) -> None:
        """Change a session's record; another process may change it at the same time."""
        port, space, name = self._session().store, _space(key["project_key"]), _digest(key["session_id"])
        while True:
            record = port.get_record(space, name)
            made = change(loads(record.body) if record else None)
            revision = record.revision if record else 0
            if made is None:
                if record is None or port.delete_record(space, name, revision=revision):
                    return
            elif port.put_record(space, name, mask_json(dumps(made)), revision=revision):
                return

    def _session_of(self, key: Any) -> Any:
        record = self._session().store.get_record(_space(key["project_key"]), _digest(key["session_id"]))
        found = loads(record.body) if record else None
        if found is None or not key.get("subpath"):
            return found
        return found if key["subpath"] in found["subpaths"] else None

    def _sessions(self, project_key: str) -> Iterator[Any]:
        after = ""
        while page := self._session().store.scan_records(
            _space(project_key), after=after, limit=RECORD_PAGE_MAX
        ):
            yield from (one for record in page if (one := loads(record.body))["summary"] is not None)
            after = page[-1].key

    # -- places ----------------------------------------------------------------------------------------------

    def _session(self) -> Any:
        here = here_now()
        if self._place is None and here is not None:
            return here.held.session
        return session_at(self._place)

    def _list(self, key: Any) -> Ledger:
        name = _name(key)
        if name not in self._lists:
            self._lists[name] = Ledger(self._session().store, f"{_INDEX}/{name}")
        return self._lists[name]


def _held() -> Any:
    here = here_now()
    assert here is not None, "a run is entered"
    return here.held


def _name(key: Any) -> str:
    return _digest([key["project_key"], key["session_id"], key.get("subpath") or ""])


def _space(project_key: str) -> str:
    return f"{_INDEX}/{_digest(project_key)}"


def _digest(value: Any) -> str:
    return sha256(dumps(value)).hexdigest()[:_DIGEST_CHARS]


def _entries(items: list[Any]) -> list[Any]:
    """The entries as the SDK has given them. SecretMissing."""
    return [uncoded(entry) for entry in _whole(items)]


def _uuid(entry: Any) -> Any:
    """The uuid of an entry as it is recorded: without its secrets, which may not be there."""
    content = next(iter(entry.values())) if is_coded(entry) else entry
    return content.get("uuid") if isinstance(content, dict) else None


def _batches(entries: list[Any]) -> Iterator[list[Any]]:
    """Entries in lists that a record can have; a larger one is cut into parts of its text."""
    batch: list[Any] = []
    size = 0
    for entry in entries:
        text = dumps(entry)
        if len(text) > _BATCH_BYTES:
            if batch:
                yield batch
            whole = text.decode()
            for at in range(0, len(whole), _PART_CHARS):
                yield [{_PART: whole[at : at + _PART_CHARS], "last": at + _PART_CHARS >= len(whole)}]
            batch, size = [], 0
            continue
        if size + len(text) > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(text)
    if batch:
        yield batch


def _whole(items: list[Any]) -> Iterator[Any]:
    """The entries, without those that a run has added again."""
    entries: list[tuple[int, str, Any]] = []
    parts: list[str] = []
    again: set[tuple[str, int]] = set()
    by = ""
    for at, item in enumerate(items):
        if _BY in item:
            by = item[_BY]
        elif _AGAIN in item:
            begun = (item[_AGAIN], item["attempt"])
            if begun not in again:  # only where the attempt begins: what it adds itself stays
                entries = [one for one in entries if one[0] < item["after"] or one[1] != item[_AGAIN]]
            again.add(begun)
        elif _PART in item:
            parts.append(item[_PART])
            if item["last"]:
                entries.append((at, by, loads("".join(parts))))
                parts = []
        else:
            entries.append((at, by, item))
    return (entry for _, _, entry in entries)
