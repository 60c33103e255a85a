"""Where the current task of a graph is: its thread, and the checkpoint that it runs from.

LangGraph keeps both in the context of the task. The id of a task depends on that checkpoint: a node that was
killed and runs again has the same, and one that a user runs again from an older checkpoint has another.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from langchain_core.runnables.config import var_child_runnable_config

from holdfast.adapters.langgraph.saver import HoldfastSaver
from holdfast.core.steps.identity import scope_of
from holdfast.engine.run.call_site import CALL_SITE, CallSite, TaskCalls, current_task
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.sync_async import Runtime
from holdfast.engine.threads.shared_hold import share
from holdfast.model.named_tuple import NamedTuple


class ThreadPlace(NamedTuple):
    """The current task: its thread, by its saver and id, and the checkpoint that it runs from."""

    saver: HoldfastSaver
    thread_id: str
    task: str
    chain: str
    checkpoint: str | None

    async def arrived(self, runtime: Runtime) -> None:
        """Wait for the checkpoint.

        LangGraph writes it while the next task runs, and an effect must not precede it.
        """
        if self.checkpoint is not None:
            await self.saver.run(self.thread_id).arrived(runtime, self.chain, self.checkpoint)

    @contextmanager
    def entered(self, name: str) -> Iterator[HeldRun]:
        """Hold the thread's run during the block; its calls are in a scope of this name."""
        with share(self.saver.session, self.saver.entry_of(self.thread_id)) as held:
            token = CALL_SITE.set(CallSite(held, scope_of("", name), TaskCalls(current_task(), "")))
            try:
                yield held
            finally:
                CALL_SITE.reset(token)


def task_config() -> Mapping[str, Any]:
    """What LangGraph keeps for the current task; empty outside of a graph."""
    found: Mapping[str, Any] = (var_child_runnable_config.get() or {}).get("configurable", {})
    return found


def find_place() -> ThreadPlace | None:
    """The place of the current task; None outside of a graph with a HoldfastSaver."""
    conf = task_config()
    saver, task = conf.get("__pregel_checkpointer"), conf.get("__pregel_task_id")
    if not isinstance(saver, HoldfastSaver) or not task or "thread_id" not in conf:
        return None
    chain = str(conf.get("checkpoint_ns", "")).rpartition("|")[0]
    # With durability="exit" it is written at the end, and a killed turn starts over.
    is_kept = conf.get("__pregel_durability") != "exit"
    checkpoint = conf.get("checkpoint_map", {}).get(chain) if is_kept else None
    return ThreadPlace(saver, str(conf["thread_id"]), str(task), chain, checkpoint)
