"""Configs that graphs give out: the same as with LangGraph's own savers, and what may be done with them."""

import asyncio
import copy
import json
import pickle
from typing import Any
from uuid import uuid4

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from tests.adapters.langgraph.test_threads import adding, config_of, new_saver

import holdfast

PLACE = {"thread_id", "checkpoint_ns", "checkpoint_id"}


class AnyId(str):
    """Equal to every text, as a test of a user may have it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str)

    __hash__ = str.__hash__


def states_of(saver: Any) -> list[Any]:
    """All states that a graph gives out after two turns: the latest, one by its id, and the history."""
    graph = adding(saver)
    for line in ("a", "b"):
        graph.invoke({"lines": [line]}, config_of("t"))
    latest = graph.get_state(config_of("t"))
    return [latest, graph.get_state(latest.parent_config), *graph.get_state_history(config_of("t"))]


def test_a_config_names_a_place_and_nothing_else() -> None:
    """The same keys as with LangGraph's own saver, in states, history and debug streams."""
    ours, theirs = new_saver(), InMemorySaver()
    for one, other in zip(states_of(ours), states_of(theirs), strict=True):
        assert one.config["configurable"].keys() == other.config["configurable"].keys() == PLACE
        assert (one.parent_config is None) == (other.parent_config is None)
        assert one.metadata == other.metadata
    for mode in ("debug", "checkpoints", "tasks"):
        events = [*adding(ours).stream({"lines": ["c"]}, config_of("t"), stream_mode=mode)]
        wanted = [*adding(theirs).stream({"lines": ["c"]}, config_of("t"), stream_mode=mode)]
        assert "holdfast" not in repr(events)
        assert [_keys(event) for event in events] == [_keys(event) for event in wanted]


def _keys(value: Any) -> Any:
    """The names in a nested value."""
    if isinstance(value, dict):
        return {name: _keys(part) for name, part in value.items()}
    return [_keys(part) for part in value] if isinstance(value, list) else None


def test_a_config_is_plain_data() -> None:
    """Equal to one with a plain id, with the same hash, and plain after every way out of the process."""
    for state in states_of(new_saver()):
        config = state.config
        id_ = config["configurable"]["checkpoint_id"]
        plain = json.loads(json.dumps(config))
        assert config == plain
        assert plain == config
        assert id_ == AnyId("x")
        assert (id_ != AnyId("x")) == (str(id_) != AnyId("x"))
        assert {id_: 1}[plain["configurable"]["checkpoint_id"]] == 1
        assert repr(config) == repr(plain)
        serde = JsonPlusSerializer()
        for copied in (
            plain,
            *(pickle.loads(pickle.dumps(config, protocol)) for protocol in range(6)),
            serde.loads_typed(serde.dumps_typed(config)),
        ):
            assert copied == config
            assert type(copied["configurable"]["checkpoint_id"]) is str


def test_a_run_records_a_config() -> None:
    """As an argument and as a result of a step: what comes back is plain."""
    config = states_of(new_saver())[0].config
    url = f"memory://{uuid4().hex}"
    for _ in range(2):
        with holdfast.run("r", store=url, if_finished="reopen") as run:
            found = run.step("same", lambda given: given, config)
        assert found == config
    assert type(found["configurable"]["checkpoint_id"]) is str


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_a_copied_config_of_an_older_checkpoint_still_forks(how: Any) -> None:
    """A program may keep configs where it likes."""
    saver = new_saver()
    graph = adding(saver)
    graph.invoke({"lines": ["a"]}, config_of("t"))
    old = how(graph.get_state(config_of("t")).config)
    old = pickle.loads(old) if isinstance(old, bytes) else old
    graph.invoke({"lines": ["b"]}, config_of("t"))
    assert graph.invoke({"lines": ["c"]}, old)["lines"] == ["a", "said", "c", "said"]


def test_an_update_of_what_was_read_as_the_latest_is_refused_when_it_moved() -> None:
    """Two updates that both read the same latest checkpoint: the second is refused, as a turn would be."""
    saver = new_saver()
    graph = adding(saver)
    graph.invoke({"lines": ["a"]}, config_of("t"))
    found = saver.get_tuple

    def late(config: Any) -> Any:
        read = found(config)
        graph_of_another = adding(saver)
        saver.get_tuple = found  # type: ignore[method-assign]
        graph_of_another.update_state(config_of("t"), {"lines": ["first"]})
        return read

    saver.get_tuple = late  # type: ignore[method-assign]
    with pytest.raises(holdfast.ChainMoved):
        graph.update_state(config_of("t"), {"lines": ["second"]})
    assert graph.get_state(config_of("t")).values["lines"] == ["a", "said", "first"]


# -- forks of the first checkpoint ---------------------------------------------------------------------------------


@pytest.fixture(params=["theirs", "ours"])
def saver(request: pytest.FixtureRequest) -> BaseCheckpointSaver[Any]:
    """LangGraph's own saver, and ours: what holds for one holds for the other."""
    return InMemorySaver() if request.param == "theirs" else new_saver()


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_the_first_checkpoint_is_copied(saver: Any, kind: str) -> None:
    """``__copy__`` of it makes a second checkpoint without a parent, from which a graph goes on."""
    graph = adding(saver)
    graph.invoke({"lines": ["a"]}, config_of("t"))
    graph.invoke({"lines": ["b"]}, config_of("t"))
    *_, first = graph.get_state_history(config_of("t"))
    assert first.parent_config is None
    if kind == "async":
        copied = asyncio.run(graph.aupdate_state(first.config, None, as_node="__copy__"))
    else:
        copied = graph.update_state(first.config, None, as_node="__copy__")
    assert graph.get_state(copied).parent_config is None
    assert graph.get_state(copied).metadata["source"] == "fork"
    assert graph.invoke(None, copied)["lines"] == ["a", "said"]
    assert len([*graph.get_state_history(config_of("t"))]) > 6


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_turn_starts_again_from_the_first_checkpoint(saver: Any, durability: str) -> None:
    """By its id: with new input, and with none."""
    graph = adding(saver)
    graph.invoke({"lines": ["a"]}, config_of("t"))
    *_, first = graph.get_state_history(config_of("t"))
    assert graph.invoke(None, first.config, durability=durability)["lines"] == ["a", "said"]
    assert graph.invoke({"lines": ["c"]}, first.config, durability=durability)["lines"][-2:] == ["c", "said"]


# -- versions ------------------------------------------------------------------------------------------------------


def test_a_thread_of_another_saver_goes_on() -> None:
    """Copied checkpoint by checkpoint, with its versions as texts; a turn, an update and a fork continue it."""
    theirs, ours = InMemorySaver(), new_saver()
    graph = adding(theirs)
    graph.invoke({"lines": ["a"]}, config_of("t"))
    for one in reversed([*theirs.list(config_of("t"))]):
        parent = one.parent_config or config_of("t", checkpoint_ns="")
        ours.put(parent, one.checkpoint, one.metadata, one.checkpoint["channel_versions"])
        for task, channel, value in one.pending_writes or ():
            ours.put_writes(one.config, [(channel, value)], task)
    graph = adding(ours)
    assert graph.get_state(config_of("t")).values["lines"] == ["a", "said"]
    assert graph.invoke({"lines": ["b"]}, config_of("t"))["lines"] == ["a", "said", "b", "said"]
    graph.update_state(config_of("t"), {"lines": ["c"]})
    *_, first = graph.get_state_history(config_of("t"))
    assert graph.invoke(None, first.config)["lines"] == ["a", "said"]
    found = ours.get_tuple(config_of("t"))
    assert found is not None
    assert {type(one) for one in found.checkpoint["channel_versions"].values()} == {str}


def test_versions_grow() -> None:
    """Numbers stay numbers, texts stay texts, and each is greater than the one before it."""
    saver = new_saver()
    assert [saver.get_next_version(one, None) for one in (None, 1, 2.5)] == [1, 2, 3.5]
    version: Any = InMemorySaver().get_next_version(None, None)
    for _ in range(12):
        following = saver.get_next_version(version, None)
        assert following > version
        assert len(following.split(".")[0]) == 32
        version = following
    other = InMemorySaver()
    assert other.get_next_version(version, None) > version, "and back to the other saver"


def test_the_first_checkpoint_of_a_thread_has_one_writer() -> None:
    """A turn that found nothing and a second one that found nothing, too: the second is refused."""
    saver = new_saver()
    turn = config_of("t", checkpoint_ns="", __pregel_task_id="x")
    saver.put(turn, empty_checkpoint(), {"source": "input", "step": -1}, {})
    with pytest.raises(holdfast.ChainMoved):
        saver.put(turn, empty_checkpoint(), {"source": "input", "step": -1}, {})
