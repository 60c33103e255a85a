"""What the facades call in ``engine``, by feature. At run time each module is loaded when a method first needs it.

Type checkers and editors see plain imports; a run that does not use a feature never loads it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.people import promises as promise_fold
    from holdfast.engine.artifacts import record as artifacts
    from holdfast.engine.artifacts import write
    from holdfast.engine.budget import budget
    from holdfast.engine.context import context
    from holdfast.engine.llm import conversation, conversation_repair, model_call, stream, text_stream
    from holdfast.engine.loops import loop_detection
    from holdfast.engine.memory import facts, keep_on_finish, remember
    from holdfast.engine.people import promises, questions, run_messages, waits
    from holdfast.engine.premises import premises
    from holdfast.engine.queue import children
    from holdfast.engine.resume import resume_plan
    from holdfast.engine.state import autosave, checkpoints, held_states
    from holdfast.engine.steps import drawn_values
    from holdfast.engine.transfer import handoff_give
else:
    from holdfast.api.late import Late

    promise_fold = Late("holdfast.core.people.promises")
    artifacts = Late("holdfast.engine.artifacts.record")
    write = Late("holdfast.engine.artifacts.write")
    budget = Late("holdfast.engine.budget.budget")
    context = Late("holdfast.engine.context.context")
    conversation = Late("holdfast.engine.llm.conversation")
    conversation_repair = Late("holdfast.engine.llm.conversation_repair")
    model_call = Late("holdfast.engine.llm.model_call")
    stream = Late("holdfast.engine.llm.stream")
    text_stream = Late("holdfast.engine.llm.text_stream")
    loop_detection = Late("holdfast.engine.loops.loop_detection")
    facts = Late("holdfast.engine.memory.facts")
    keep_on_finish = Late("holdfast.engine.memory.keep_on_finish")
    remember = Late("holdfast.engine.memory.remember")
    promises = Late("holdfast.engine.people.promises")
    questions = Late("holdfast.engine.people.questions")
    run_messages = Late("holdfast.engine.people.run_messages")
    waits = Late("holdfast.engine.people.waits")
    premises = Late("holdfast.engine.premises.premises")
    children = Late("holdfast.engine.queue.children")
    resume_plan = Late("holdfast.engine.resume.resume_plan")
    autosave = Late("holdfast.engine.state.autosave")
    checkpoints = Late("holdfast.engine.state.checkpoints")
    held_states = Late("holdfast.engine.state.held_states")
    drawn_values = Late("holdfast.engine.steps.drawn_values")
    handoff_give = Late("holdfast.engine.transfer.handoff_give")

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
    "handoff_give",
    "held_states",
    "keep_on_finish",
    "loop_detection",
    "model_call",
    "premises",
    "promise_fold",
    "promises",
    "questions",
    "remember",
    "resume_plan",
    "run_messages",
    "stream",
    "text_stream",
    "waits",
    "write",
]
