"""Laws of ``store.diff`` over random states, through a real store: checkpoints, packs, journal and all."""

from typing import Any
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_tree import alike, applied, edited, histories, relaxed, trees

import holdfast
from holdfast.core.diff.diff_types import Diff

roles = st.sampled_from(["user", "assistant", "tool"])
messages = st.lists(
    st.fixed_dictionaries(
        {"role": roles, "content": st.none() | st.text("ab \n", max_size=12) | st.just("long " * 300)}
    ),
    max_size=30,
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Any]:
    """States of an agent: messages that come, go at the front and are edited; and whatever else."""
    found: list[dict[str, Any]] = [{"messages": draw(messages), "rest": draw(trees)}]
    for _ in range(draw(st.integers(1, 3))):
        before = found[-1]["messages"]
        kept: list[dict[str, Any]] = [dict(one) for one in before[draw(st.integers(0, len(before))) :]]
        is_edited = draw(st.booleans())
        if kept and is_edited:
            kept[draw(st.integers(0, len(kept) - 1))]["content"] = draw(st.text("xyz ", max_size=8))
        found.append({"messages": kept + draw(messages), "rest": draw(edited(found[-1]["rest"]))})
    return found


def saved(states: list[Any]) -> tuple[holdfast.Store, list[Any]]:
    """A run that checkpointed the states, and what its journal holds of them."""
    store = holdfast.store(f"memory://{uuid4().hex}")
    with holdfast.run("a", store=store) as run:
        for number, state in enumerate(states):
            run.step("work", int, number)
            run.checkpoint(state, label=f"s{number}")
    trees = [store.content(event)["state"] for event in store.events("a") if event.kind == "checkpoint"]
    return store, trees


def is_told(diff: Diff) -> bool:
    """Whether people are told something if and only if something changed."""
    return bool(diff.changes) == bool(diff.state) and all(change.line for change in diff.state)


@relaxed
@given(histories() | conversations())
def test_the_patch_turns_one_state_into_the_other(states: list[Any]) -> None:
    """Forward, backward and across; and there is something to tell wherever something changed.

    Planted: the changes of one list of messages left untold.
    """
    store, trees = saved(states)
    last = len(states) - 1
    for a, b in ((0, last), (last, 0), (0, 1)):
        diff = store.diff(f"a@s{a}", f"a@s{b}")
        assert diff.state_patch is not None
        assert alike(applied(diff.state_patch, trees[a]), trees[b])
        assert is_told(diff)
    store.close()


@relaxed
@given(conversations())
def test_every_message_is_told_once(states: list[Any]) -> None:
    """Those that came less those that went are those that there are more.

    Planted: messages that went numbered by their place in the patch, where all at the front are the first.
    """
    store, trees = saved(states)
    last = len(states) - 1
    for a, b in ((0, last), (last, 0)):
        told = [c for c in store.diff(f"a@s{a}", f"a@s{b}").state if c.path.startswith("messages")]
        come = sum(change.kind == "added" for change in told)
        went = sum(change.times for change in told if change.kind == "removed")
        assert come - went == len(trees[b]["messages"]) - len(trees[a]["messages"])
    store.close()


@relaxed
@given(trees)
def test_a_point_does_not_differ_from_itself(tree: Any) -> None:
    """Neither a point from itself, nor from a fork that begins there, nor a run's state from the same of a stranger."""
    store, _ = saved([tree])
    store.fork("a", as_="b")
    for a, b in (("a@1", "a@1"), ("a@s0", "a@2"), ("a", "b"), ("b", "a")):
        diff = store.diff(a, b)
        assert diff.is_empty
        assert (diff.state, diff.steps, diff.a.events, diff.b.events) == ((), (), 0, 0)
        assert diff.sentences == ("both are the same point",)
    with holdfast.run("c", store=store) as run:
        run.step("work", int, 0)
        run.checkpoint(tree, label="s0")
    stranger = store.diff("a", "c")
    assert (stranger.changes, stranger.diverged, stranger.common) == ((), None, None)
    assert "nothing changed in the state" in stranger.sentences
    store.close()
