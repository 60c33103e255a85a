"""``HoldfastSaver``: LangGraph's checkpoints on any store. It translates terms, and decides one thing.

A thread is a run, a namespace is one of its chains, a checkpoint is a link of it, and writes are pending with
a link. It decides who may continue a checkpoint that another writer has already continued: a caller that
asked for it by id. LangGraph passes the config of what it read to ``put``, so the id in that config is marked
with how the checkpoint was found.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial
from random import random
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from holdfast.adapters.langgraph.serde import Values
from holdfast.adapters.langgraph.thread_ids import PREFIX, run_of, thread_of
from holdfast.adapters.shared.engine_parts import (
    chain_removal,
    chain_rules,
    chained_runs,
    entry,
    forks,
    store_handle,
)
from holdfast.engine.journal.pause_gc import without_collecting
from holdfast.errors import Corrupt, RunHeld, UnknownPoint
from holdfast.limits import CHAIN_WAIT_S, RUN_PAGE_MAX
from holdfast.model.markers import MarkedText

if TYPE_CHECKING:
    import os

    from langgraph.checkpoint.base import DeltaChannelHistory  # since 4.1

    from holdfast.api.store.store import Store
    from holdfast.core.threads.chains import Chains, Link
    from holdfast.engine.run.entry import Entry
    from holdfast.engine.threads.chains import ChainedRun, NewLink
    from holdfast.model.events import Event
    from holdfast.model.store_rows import RunRow

_CHOSEN: Final = "chosen"
"""The mark on the id of a checkpoint that its reader asked for by id."""
_LATEST: Final = "latest"
"""The mark on the id of a checkpoint that its reader found as the latest."""
_COUNTERS: Final = "counters_since_delta_snapshot"
_NAMES: Final = frozenset({"v", "id", "ts", "channel_versions", "versions_seen", "updated_channels"})
"""The fields of a checkpoint that are names and numbers."""
_THREADS_KEPT: Final = 1_000


class HoldfastSaver(BaseCheckpointSaver[Any], AbstractContextManager, AbstractAsyncContextManager):  # type: ignore[type-arg]  # as LangGraph's own
    """Threads that survive: on SQLite, PostgreSQL, DynamoDB or in memory, blocking and async."""

    def __init__(
        self,
        store: "str | os.PathLike[str] | Store | None" = None,
        *,
        serde: SerializerProtocol | None = None,
    ) -> None:
        """``store`` is a URL, a path or a handle, as for ``holdfast.run``."""
        super().__init__(serde=serde)
        self.store = store_handle.store_at(store)
        self.session = store_handle.session_at(self.store)
        self._runs: dict[str, ChainedRun] = {}
        self._lock = Lock()
        self._made = Values(self.serde)

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str) -> Iterator[Self]:
        """The constructor of LangGraph's own savers."""
        yield cls(conn_string)

    def setup(self) -> None:
        """For compatibility with LangGraph's own savers: a store is set up when it is opened."""

    def __exit__(self, *_: object) -> None:
        """Nothing to release: no lease is held between two calls, and the store's handle is shared by URL."""

    async def __aexit__(self, *_: object) -> None:
        """As ``__exit__``."""

    def get_next_version(self, current: Any, channel: None = None) -> Any:
        """The version after this one: numbers, or LangGraph's texts in a thread that came from another saver.

        A text is the number with leading zeros and a random part, which keeps the versions of two branches
        apart in savers that store values by version.
        """
        if not isinstance(current, str):
            return super().get_next_version(current, channel)
        return f"{int(current.split('.')[0]) + 1:032}.{random():016}"  # noqa: S311 - not a secret

    # -- read ------------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config names, or the latest of its thread and namespace."""
        conf = _conf(config)
        id_, run = get_checkpoint_id(config), self.run(conf["thread_id"])
        with run.reading() as chains:
            link = chains.find(conf.get("checkpoint_ns", ""), id_)
            events = [] if link is None else [*chains.pending(link.chain, link.id)]
        if link is None or not link.is_seen:
            return None
        return self._tuple(conf["thread_id"], run, link, events, _CHOSEN if id_ else _LATEST)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread, or of all, newest first."""
        left = limit
        for thread_id in [_conf(config)["thread_id"]] if config else self._threads():
            run = self.run(thread_id)
            with run.reading() as chains:
                found = [
                    (link, [*chains.pending(link.chain, link.id)]) for link in _wanted(chains, config, before)
                ]
            for link, events in found:
                if left is not None and left <= 0:
                    return
                metadata = self.values.revived(run.about(link)["metadata"]) if filter else {}
                if all(
                    name in metadata and metadata[name] == value for name, value in (filter or {}).items()
                ):
                    left = None if left is None else left - 1
                    yield self._tuple(thread_id, run, link, events, _CHOSEN)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> "Mapping[str, DeltaChannelHistory]":
        """For each channel: the writes since the last checkpoint that holds it, and its value there."""
        conf = _conf(config)
        run = self.run(conf["thread_id"])
        history: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        with run.reading() as chains:
            target = chains.find(conf.get("checkpoint_ns", ""), get_checkpoint_id(config))
            before = (
                []
                if target is None
                else [(link, [*chains.pending(link.chain, link.id)]) for link in chains.ancestors(target)]
            )
        for link, events in before:
            missing = [name for name in history if "seed" not in history[name]]
            if not missing:
                break
            for one in reversed(chain_rules.settled(run.pending(events))):
                if one.name in missing:
                    history[one.name]["writes"].insert(
                        0, (one.task, one.name, self.values.revived(one.value))
                    )
            for name in missing:
                if run.holds(link, name):
                    if not link.is_kept:
                        problem = f"checkpoint {link.id} of {run.run} was pruned, and {name!r} builds on it"
                        raise Corrupt(store=self.store.url, problem=problem)
                    history[name]["seed"] = self.values.revived(run.state(link)[name])
        return history

    @without_collecting()
    def _tuple(
        self, thread_id: str, run: "ChainedRun", link: "Link", events: "Sequence[Event]", mark: str
    ) -> CheckpointTuple:
        values, about = self.values, run.about(link)
        place = {"thread_id": str(thread_id), "checkpoint_ns": link.chain}
        checkpoint: Any = {
            **{
                name: part if name in _NAMES else values.revived(part)
                for name, part in about["checkpoint"].items()
            },
            "channel_values": {name: values.revived(part) for name, part in run.state(link).items()},
        }
        return CheckpointTuple(
            {"configurable": {**place, "checkpoint_id": MarkedText(link.id, mark)}},
            checkpoint,
            values.revived(about["metadata"]),
            {"configurable": {**place, "checkpoint_id": link.parent}} if link.parent else None,
            [
                (one.task, one.name, values.revived(one.value))
                for one in chain_rules.settled(run.pending(events))
            ],
        )

    # -- write -----------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - what is new, the store finds out
    ) -> RunnableConfig:
        """Store a checkpoint: what changed since the one before it. Durable on return.

        Raises ChainMoved if another writer has continued the checkpoint before it since it was read.
        """
        return self._put(config, checkpoint, metadata, CHAIN_WAIT_S)

    def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, wait_s: float
    ) -> RunnableConfig:
        new = self._link(config, checkpoint, metadata)
        thread_id = str(_conf(config)["thread_id"])
        self.run(thread_id).put(new, wait_s=wait_s)
        return {"configurable": {"thread_id": thread_id, "checkpoint_ns": new.chain, "checkpoint_id": new.id}}

    @without_collecting()
    def _link(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> "NewLink":
        conf, values = _conf(config), self.values
        chain = conf.get("checkpoint_ns", "")
        parent = get_checkpoint_id(config) or None
        state = checkpoint["channel_values"]
        rest = {name: part for name, part in checkpoint.items() if name != "channel_values"}
        return chained_runs.NewLink(
            chain,
            checkpoint["id"],
            None if parent is None else str(parent),
            {name: values.plain(part) for name, part in state.items()},
            {
                "checkpoint": {n: part if n in _NAMES else values.plain(part) for n, part in rest.items()},
                "metadata": values.plain(get_checkpoint_metadata(config, metadata)),
            },
            tuple(name for name in metadata.get(_COUNTERS) or () if name not in state),
            _is_fork(conf, parent, metadata),
            f"{metadata.get('source', 'put')} {metadata.get('step', '')}".strip()
            + (f" in {chain}" if chain else ""),
        )

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task, with the checkpoint that it ran from. Durable on return."""
        self._put_writes(config, writes, task_id, task_path, CHAIN_WAIT_S)

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, path: str, wait_s: float
    ) -> None:
        conf = _conf(config)
        entries = [
            (WRITES_IDX_MAP.get(channel, index), channel, self.values.plain(value))
            for index, (channel, value) in enumerate(writes)
        ]
        run = self.run(conf["thread_id"])
        place = conf.get("checkpoint_ns", ""), str(conf["checkpoint_id"])
        run.attach(*place, task, path, entries, wait_s=wait_s)

    # -- threads ---------------------------------------------------------------------------------------------

    def branch(self, config: RunnableConfig, name: str) -> RunnableConfig:
        """A new thread that continues this one's latest checkpoint, or the one the config names.

        It writes one row, however long the thread is. Raises RunExists or UnknownPoint.
        """
        thread_id, id_ = _conf(config)["thread_id"], get_checkpoint_id(config)
        run, row = self.run(thread_id), self._row(thread_id)
        with run.reading() as chains:
            link = chains.find(_conf(config).get("checkpoint_ns", ""), id_)
        if row is None or link is None:
            raise UnknownPoint(
                run=run.run, what=id_ or "checkpoint", last_point=0, head=row.head if row else 0
            )
        forks.fork(self.session, row, link.seq if id_ else row.head, run_of(name))
        return {"configurable": {"thread_id": name}}

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As ``branch``, for the complete thread; does nothing if there is none."""
        if self._row(source_thread_id) is not None:
            self.branch({"configurable": {"thread_id": source_thread_id}}, target_thread_id)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread; its branches keep their history. RunHeld while another process works on it."""
        chain_removal.delete(self.session, run_of(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these graph runs; those that others build on stay, hidden."""
        wanted = set(run_ids)
        for thread_id in [*self._threads()] if wanted else ():
            run = self.run(thread_id)
            with run.reading() as chains:
                links = [link for link in chains.links() if link.is_seen]
            made_by = {
                one.seq: self.values.revived(run.about(one)["metadata"]).get("run_id") for one in links
            }
            gone = frozenset(seq for seq, by in made_by.items() if by in wanted)
            if gone:
                chain_removal.drop(self.session, run.run, partial(_is_among, gone))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the latest checkpoint of each namespace, and what its delta channels build on.

        Or ``delete`` all.
        """
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                chain_removal.prune(self.session, run_of(thread_id))

    # -- async versions --------------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As ``get_tuple``."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As ``list``."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> "Mapping[str, DeltaChannelHistory]":
        """As ``get_delta_channel_history``."""
        return await asyncio.to_thread(self.get_delta_channel_history, config=config, channels=channels)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As ``put``."""
        try:
            return self._put(config, checkpoint, metadata, 0)
        except RunHeld:  # wait in a thread, not in the event loop
            return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As ``put_writes``."""
        try:
            self._put_writes(config, writes, task_id, task_path, 0)
        except RunHeld:
            await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As ``copy_thread``."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        """As ``delete_thread``."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As ``delete_for_runs``."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As ``prune``."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    # -- parts -----------------------------------------------------------------------------------------------

    @property
    def values(self) -> Values:
        """Its serializer, element by element."""
        if (
            self._made.serde is not self.serde
        ):  # LangGraph copies a saver and gives the copy another serializer
            self._made = Values(self.serde)
        return self._made

    def entry_of(self, thread_id: object) -> "Entry":
        """How a thread's run is created."""
        return entry.Entry(run_of(thread_id), goal="a LangGraph thread")

    def run(self, thread_id: object) -> "ChainedRun":
        """A thread's run."""
        run = run_of(thread_id)
        with self._lock:
            found = self._runs.pop(run, None) or chained_runs.ChainedRun(
                self.session, self.entry_of(thread_id)
            )
            self._runs[run] = found
            if len(self._runs) > _THREADS_KEPT:
                del self._runs[next(iter(self._runs))]
        return found

    def _row(self, thread_id: object) -> "RunRow | None":
        return self.session.store.find_run(run_of(thread_id))

    def _threads(self) -> Iterator[str]:
        before: RunRow | None = None
        while page := self.session.store.list_runs(limit=RUN_PAGE_MAX, before=before, prefix=PREFIX):
            yield from (thread_of(row.run) for row in page)
            before = page[-1]


def _is_among(seqs: frozenset[int], event: "Event") -> bool:
    return event.seq in seqs


def _conf(config: RunnableConfig) -> dict[str, Any]:
    return config.get("configurable", {})


def _is_fork(conf: Mapping[str, Any], parent: str | None, metadata: CheckpointMetadata) -> bool:
    """Whether the caller of ``put`` knows that others may continue the same checkpoint."""
    if parent is None and conf.get("checkpoint_ns"):
        return True  # a subgraph that starts again: the graph around it decides whether that is right
    if metadata.get("source") == "fork":
        return True  # a copy of a checkpoint, beside it; the copy of the first has no parent
    if isinstance(parent, MarkedText):
        return parent.mark == _CHOSEN
    if parent is None and metadata.get("source") == "update":
        return False
    # a turn continues what it wrote itself, or begins the thread; without a turn, the caller chose the parent
    return not any(name.startswith("__pregel") for name in conf)


def _wanted(
    chains: "Chains", config: RunnableConfig | None, before: RunnableConfig | None
) -> "Iterator[Link]":
    """The links that a config asks for, newest first."""
    conf = _conf(config) if config else {}
    names = [conf["checkpoint_ns"]] if "checkpoint_ns" in conf else chains.names
    found = [link for name in names for link in chains.newest_first(name)]
    id_, upto = conf.get("checkpoint_id"), get_checkpoint_id(before) if before else None
    known = next((link.seq for link in found if link.id == upto), None)
    for link in sorted(found, key=lambda link: -link.seq):
        is_before = not upto or (link.seq < known if known else link.id < upto)
        if is_before and (not id_ or link.id == id_):
            yield link
