"""The modules that the facades call, each loaded when a method first needs it.

Type checkers and editors see plain imports. A run that does not use a feature never loads it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.api import messages as message_handles
    from holdfast.api import open_file as file_handles
    from holdfast.api import stream as stream_handles
    from holdfast.core.people import promises as promise_fold
    from holdfast.engine.artifacts import record as artifacts
    from holdfast.engine.artifacts import write
    from holdfast.engine.budget import budget
    from holdfast.engine.context import context
    from holdfast.engine.drift import patches
    from holdfast.engine.llm import conversation, conversation_repair, model_call, piece_stream, stream
    from holdfast.engine.loops import loop_detection
    from holdfast.engine.memory import facts, keep_on_finish, run_memory
    from holdfast.engine.people import promises, questions, run_messages, waits
    from holdfast.engine.premises import premises
    from holdfast.engine.queue import children
    from holdfast.engine.resume import resume_plan
    from holdfast.engine.state import autosave, checkpoints, held_states
    from holdfast.engine.steps import drawn_values
    from holdfast.engine.transfer import handoff_give
else:
    from holdfast.api.late import LazyModule

    file_handles = LazyModule("holdfast.api.open_file")
    message_handles = LazyModule("holdfast.api.messages")
    stream_handles = LazyModule("holdfast.api.stream")
    promise_fold = LazyModule("holdfast.core.people.promises")
    artifacts = LazyModule("holdfast.engine.artifacts.record")
    write = LazyModule("holdfast.engine.artifacts.write")
    budget = LazyModule("holdfast.engine.budget.budget")
    context = LazyModule("holdfast.engine.context.context")
    patches = LazyModule("holdfast.engine.drift.patches")
    conversation = LazyModule("holdfast.engine.llm.conversation")
    conversation_repair = LazyModule("holdfast.engine.llm.conversation_repair")
    model_call = LazyModule("holdfast.engine.llm.model_call")
    stream = LazyModule("holdfast.engine.llm.stream")
    piece_stream = LazyModule("holdfast.engine.llm.piece_stream")
    loop_detection = LazyModule("holdfast.engine.loops.loop_detection")
    facts = LazyModule("holdfast.engine.memory.facts")
    keep_on_finish = LazyModule("holdfast.engine.memory.keep_on_finish")
    run_memory = LazyModule("holdfast.engine.memory.run_memory")
    promises = LazyModule("holdfast.engine.people.promises")
    questions = LazyModule("holdfast.engine.people.questions")
    run_messages = LazyModule("holdfast.engine.people.run_messages")
    waits = LazyModule("holdfast.engine.people.waits")
    premises = LazyModule("holdfast.engine.premises.premises")
    children = LazyModule("holdfast.engine.queue.children")
    resume_plan = LazyModule("holdfast.engine.resume.resume_plan")
    autosave = LazyModule("holdfast.engine.state.autosave")
    checkpoints = LazyModule("holdfast.engine.state.checkpoints")
    held_states = LazyModule("holdfast.engine.state.held_states")
    drawn_values = LazyModule("holdfast.engine.steps.drawn_values")
    handoff_give = LazyModule("holdfast.engine.transfer.handoff_give")

__all__ = [
    "artifacts",
    "autosave",
    "budget",
    "checkpoints",
    "children",
    "context",
    "conversation",
    "conversation_repair",
    "drawn_values",
    "facts",
    "file_handles",
    "handoff_give",
    "held_states",
    "keep_on_finish",
    "loop_detection",
    "message_handles",
    "model_call",
    "patches",
    "piece_stream",
    "premises",
    "promise_fold",
    "promises",
    "questions",
    "resume_plan",
    "run_memory",
    "run_messages",
    "stream",
    "stream_handles",
    "waits",
    "write",
]
