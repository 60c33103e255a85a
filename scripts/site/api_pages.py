"""The reference of the Python API: every public name once, grouped by where a user would look for it.

What a page says of a name comes from its docstring, by autodoc. A test compares the groups with what is public.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast import errors
from holdfast.model.explained_error import Explained


class Group(NamedTuple):
    """Names under one heading."""

    title: str
    about: str
    names: tuple[str, ...]


PAGES: Final[dict[str, tuple[str, str, tuple[Group, ...]]]] = {
    "first": (
        "The five names that matter",
        "An agent needs no more than these. `run.step` and `run.checkpoint` are on [the page of a run](run.md), too.",
        (Group("", "", ("run", "Run.step", "tool", "Run.checkpoint", "wrap")),),
    ),
    "run": (
        "A run",
        ("What `with holdfast.run(…) as run:` gives. `AsyncRun` has the same names; where a call does something, "
        "await it. See [A run and its attempts](../../guide/runs.md)."),
        (
            Group("The classes", "", ("Run", "AsyncRun", "current")),
            Group("Do work", "[Effects](../../guide/effects.md)", ("Run.once", "Run.options", "Run.scope", "Run.bind")),
            Group(
                "Begin and end",
                "[Runs](../../guide/runs.md)",
                ("Run.finish", "Run.close", "Run.id", "Run.status", "Run.result", "Run.attempt", "Run.resumed",
                 "Run.replaying", "Run.position", "Run.owner"),
            ),
            Group(
                "State",
                "[State](../../guide/state.md)",
                ("Run.restore", "Run.autosave", "Run.state", "Run.to_rebuild", "Run.messages"),
            ),
            Group("Models", "[Model calls](../../models.md)", ("Run.model", "Run.stream", "Run.spent", "Run.nudge", "Run.context")),
            Group(
                "Notes for people and for the next model",
                "[Context](../../guide/context.md)",
                ("Run.plan", "Run.think", "Run.decide", "Run.discover", "Run.say"),
            ),
            Group(
                "People and time",
                "[People and time](../../guide/people.md)",
                ("Run.ask", "Run.sleep", "Run.sleep_until", "Run.now", "Run.uuid", "Run.random"),
            ),
            Group("Files", "[Files](../../artifacts.md)", ("Run.open", "Run.artifact", "Run.depends_on")),
            Group(
                "Other runs and agents",
                "[Handoffs](../../handoff.md), [workers](../../guide/workers.md)",
                ("Run.child", "Run.handoff", "Run.handed", "Run.send", "Run.receive", "Run.promise", "Run.promises",
                 "Run.keep", "Run.break_promise"),
            ),
            Group("Memory", "[Memory](../../memory.md)", ("Run.remember", "Run.recall")),
            Group("Code changes", "[Living with code changes](../../guide/code-changes.md)", ("Run.patched", "Run.resume_plan")),
        ),
    ),
    "tools": (
        "Tools and effects",
        "What a function does to the outside world. See [Effects and in doubt](../../guide/effects.md).",
        (
            Group("Declare", "", ("tools", "Tool", "KEY")),
            Group("What `verify` answers", "", ("Done", "NotDone", "Unknown")),
            Group("Values", "", ("ephemeral", "register", "Recorded", "secret", "Secret")),
        ),
    ),
    "models": (
        "Models and limits",
        "See [Model calls](../../models.md), [budgets](../../guide/budgets.md) and [loops](../../guide/loops.md).",
        (
            Group("Clients", "", ("replayed", "Patience")),
            Group("Limits", "", ("Budget", "Spent", "LoopPolicy", "Thresholds")),
        ),
    ),
    "store": (
        "A store",
        "What `holdfast.store(url)` gives: runs from outside, for programs and tests of your own. The commands do the same.",
        (
            Group("Open", "", ("store", "Store", "Store.url", "Store.close")),
            Group(
                "Look at runs",
                "",
                ("Store.runs", "Store.get", "Store.overview", "Store.look",
                 "Store.size", "Store.stats", "Store.resume_plan", "Store.command", "Store.acts", "Store.thoughts",
                 "Store.context", "Store.search", "Store.now"),
            ),
            Group(
                "Read and follow journals",
                "",
                ("Store.events", "Store.content", "Store.follow", "Store.wait", "Store.locate", "Store.find_event"),
            ),
            Group(
                "Settle",
                "[Effects](../../guide/effects.md), [people](../../guide/people.md)",
                ("Store.doubts", "Store.stopped_calls", "Store.resolve", "Store.questions", "Store.find_question", "Store.answer",
                 "Store.accept_premise", "Store.cancel", "Store.trust"),
            ),
            Group(
                "Fork, rewind, compare",
                "[Fork and rewind](../../guide/forks.md)",
                ("Store.fork", "Store.fork_changes", "Store.editable", "Store.rewind", "Store.effects_behind",
                 "Store.later_effects", "Store.later_children", "Store.lineage", "Store.diff", "Store.label", "Store.labels",
                 "Store.unlabel"),
            ),
            Group(
                "Keep and delete",
                "[Retention](../../guide/retention.md)",
                ("Store.prune", "Store.pin", "Store.pins", "Store.pins_of", "Store.unpin", "Store.erase", "Store.erase_secret", "Retention", "Keep"),
            ),
            Group(
                "Move",
                "[Taking a run elsewhere](../../guide/transfer.md), [handoffs](../../handoff.md)",
                ("Store.export", "Store.import_", "Store.copy", "Store.came_from", "Store.unseal", "Store.handoff",
                 "Store.accept", "Store.givers", "Store.promises"),
            ),
            Group(
                "Files",
                "[Files](../../artifacts.md)",
                ("Store.artifacts", "Store.artifact_versions", "Store.read_artifact", "Store.read_version",
                 "Store.restore_artifacts", "Store.orphans"),
            ),
            Group(
                "Check and repair",
                "[`holdfast doctor`](../../commands.md#holdfast-doctor)",
                ("Store.examine", "Store.examine_blobs", "Store.examine_index", "Store.examine_secrets", "Store.rebuild_index",
                 "Store.accept_loss", "Store.ailments", "Store.mend", "Store.rotate_key"),
            ),
            Group(
                "For a surface of your own",
                "[the HTTP API](../http-api.md), which is made of these",
                ("Store.look_after", "Store.past", "Store.run_with", "Store.survey", "Store.view", "Store.check_may_act", "Store.note_resume", "Store.absence", "Store.cursor"),
            ),
            Group("Agents, memory, hooks", "", ("Store.submit", "Store.memory", "Store.hooks", "Store.deliver_hooks")),
        ),
    ),
    "agents": (
        "Agents and workers",
        "See [Agents and workers](../../guide/workers.md).",
        (
            Group(
                "Agents",
                "",
                ("agent", "Agent", "Agent.run", "Agent.submit", "Agent.main", "Agent.inputs_of", "Agent.is_async",
                 "Agent.take_on"),
            ),
            Group(
                "Workers",
                "",
                ("worker", "Worker", "Worker.start", "Worker.stop", "Worker.drain", "Worker.wait_idle", "Worker.is_idle",
                 "Worker.runs"),
            ),
        ),
    ),
    "around": (
        "Facts, handoffs, hooks",
        "See [Memory](../../memory.md), [handoffs](../../handoff.md) and [hooks](../../hooks.md).",
        (
            Group("Facts", "", ("Fact", "Recalled", "Hit", "UnreadValue")),
            Group("Handoffs, promises, messages", "", ("Accepted", "Handed", "Loss", "Message", "Promise", "Promises")),
            Group("Hooks", "", ("hook", "Hook", "Notice", "read_webhook")),
        ),
    ),
}  # fmt: skip

CLASSES: Final = ("Run", "Store", "Agent", "Worker")
"""Classes whose attributes are grouped one by one; of the others a page has all."""

_FUNCTIONS: Final = frozenset({"run", "tool", "tools", "wrap", "current", "agent", "worker", "store", "hook", "read_webhook",
                               "replayed", "register", "ephemeral", "secret"})  # fmt: skip


def grouped_names() -> Iterator[str]:
    """Every name of the pages, as often as a page has it."""
    for _, _, groups in PAGES.values():
        for group in groups:
            yield from group.names


def error_names() -> list[str]:
    """The errors of the tree, which have pages of their own."""
    return [name for name, value in vars(errors).items() if isinstance(value, type)
            and issubclass(value, Explained) and not name.startswith("_")] + ["Terminated"]  # fmt: skip


def api_pages() -> dict[str, str]:
    """The pages by name, as MyST, with an index."""
    return {name: _page(*page) for name, page in PAGES.items()}


def _page(title: str, about: str, groups: tuple[Group, ...]) -> str:
    lines = [f"# {title}", "", about, ""]
    for group in groups:
        if group.title:
            lines += [f"## {group.title}", ""]
        if group.about:
            lines += [f"See {group.about}.", ""]
        lines += [
            "```{eval-rst}",
            ".. currentmodule:: holdfast",
            "",
            *map(_directive, group.names),
            "```",
            "",
        ]
    return "\n".join(lines)


def _directive(name: str) -> str:
    import holdfast

    owner, _, attribute = name.rpartition(".")
    if owner:
        is_property = isinstance(vars(getattr(holdfast, owner)).get(attribute), property)
        found = _inherited(getattr(holdfast, owner), attribute)
        kind = "autoproperty" if is_property or isinstance(found, property) else "automethod"
        return f".. {kind}:: {owner}.{attribute}\n"
    if name in _FUNCTIONS:
        return f".. autofunction:: {name}\n"
    if name == "KEY":
        return ".. autodata:: KEY\n   :no-value:\n"
    members = "" if name in {*CLASSES, "AsyncRun", "Tool"} else "   :members:\n   :undoc-members:\n"
    return f".. autoclass:: {name}\n{members}"


def _inherited(cls: type, attribute: str) -> object:
    return next((vars(base)[attribute] for base in cls.__mro__ if attribute in vars(base)), None)
