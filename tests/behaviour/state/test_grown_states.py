"""A long state that is handed over again: what is as it was is neither encoded nor searched, and nothing differs."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import holdfast
from holdfast.codec import secrets
from holdfast.codec.values import encode_state
from holdfast.core.state import shape, unchanged
from holdfast.core.state.last_state import Window
from holdfast.engine.state import state_store
from holdfast.limits import STATE_SHAPE_BYTES_MIN
from holdfast.model.events import Kind

LONG = 300


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each look at a state has encoded."""
    found: list[int] = []

    def encode(state: Any, **options: Any) -> Any:
        found.append(len(state["messages"]))
        return encode_state(state, **options)

    monkeypatch.setattr(state_store, "encode_state", encode)
    before = set(threading.enumerate())  # those of the tests: a state is encoded twice if others run
    monkeypatch.setattr(state_store, "enumerate_threads", lambda: set(threading.enumerate()) - before)
    return found


@pytest.fixture
def a_secret() -> Iterator[str]:
    """A registered secret; it is forgotten after the test."""
    yield holdfast.secret("sesame-9f2c", name="door")
    secrets._registered.clear()
    secrets._rebuild()


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Window]]:
    """What is remembered of the one list of the latest state."""
    found: list[state_store.States] = []
    take = state_store.States.take

    def seen(states: state_store.States, state: Any, **options: Any) -> Any:
        found.append(states)
        return take(states, state, **options)

    def latest() -> list[Window]:
        nodes = found[-1]._nodes
        assert nodes is not None
        (long,) = nodes._long[""].values()
        return long.windows

    monkeypatch.setattr(state_store.States, "take", seen)
    return latest


def history(size: int) -> list[Any]:
    return [message(number) for number in range(size)]


def message(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"question {number} " * 20, "parts": [{"n": number, "ok": True}]}


def restored(url: str) -> Any:
    with holdfast.run("a", store=url) as run:
        return run.restore()


def states(url: str) -> list[Any]:
    """All recorded states, as they are shown."""
    store = holdfast.store(url)
    return [store.content(event)["state"] for event in store.events("a") if event.kind == Kind.CHECKPOINT]


def stopped(url: str, program: Callable[[holdfast.Run], object]) -> None:
    with pytest.raises(RuntimeError, match="stop"), holdfast.run("a", store=url) as run:
        program(run)
        raise RuntimeError("stop")


def test_only_what_may_have_changed_is_encoded(url: str, encoded: list[int]) -> None:
    """After two checkpoints, the messages of full windows are not. Planted: without shapes it was all, each time."""
    state: dict[str, Any] = {"step": 0, "messages": history(LONG)}

    def program(run: holdfast.Run) -> None:
        for step in range(5):
            state["step"] = step
            run.checkpoint(state)
            state["messages"].append(message(step))
        state["messages"][10]["parts"][0]["ok"] = 1
        run.checkpoint(state)

    stopped(url, program)
    assert encoded[:2] == [LONG, LONG + 1]
    assert encoded[2:5] == [LONG + step - 256 for step in (2, 3, 4)]
    assert encoded[5:] == [LONG + 5 - 256 + 64]
    assert repr(restored(url)) == repr(state)


def test_new_objects_for_each_checkpoint_are_given_up(
    url: str, encoded: list[int], windows: Callable[[], list[Window]]
) -> None:
    """A program that makes its messages from something else: shapes would only cost. They are equal and read back."""

    def program(run: holdfast.Run) -> None:
        for _ in range(12):
            run.checkpoint({"messages": history(LONG)})

    stopped(url, program)
    assert encoded[-4:] == [LONG] * 4
    assert not any(window.shape or window.may_be_kept for window in windows())
    assert restored(url) == {"messages": history(LONG)}


def test_a_short_list_has_no_shape(url: str, windows: Callable[[], list[Window]]) -> None:
    """It is encoded faster than compared."""
    state = {"messages": [{"n": number} for number in range(60)]}
    stopped(url, lambda run: [run.checkpoint(state) for _ in range(4)])
    assert [len(window.data) < STATE_SHAPE_BYTES_MIN for window in windows()] == [True]
    assert not any(window.may_be_kept for window in windows())


@pytest.mark.parametrize(
    ("module", "limit", "value", "again"),
    [
        (shape, "STATE_SHAPE_LEAVES_MAX", 64 * 9 - 1, 256),
        (shape, "STATE_SHAPE_LEAVES_MAX", 64 * 9, 0),
        (shape, "STATE_SHAPE_LEVELS_MAX", 2, LONG),
        (shape, "STATE_SHAPE_LEVELS_MAX", 3, 0),
        (unchanged, "STATE_SHAPE_LEAVES_TOTAL_MAX", 64 * 9 * 2, LONG - 128),
    ],
)
def test_what_is_remembered_is_bounded(
    url: str,
    encoded: list[int],
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    limit: str,
    value: int,
    again: int,
) -> None:
    """Keys and leaves of 64 messages, of all, and how deep they are: what is beyond is encoded each time."""
    monkeypatch.setattr(module, limit, value)
    state = {"messages": history(LONG)}
    stopped(url, lambda run: [run.checkpoint(state) for _ in range(9)])
    assert encoded[-1] == again
    assert restored(url) == state


def test_a_secret_that_is_registered_later_is_hidden(url: str, encoded: list[int]) -> None:
    """What was searched before is searched again; what has it is a reference from then on, the rest is not encoded.

    Planted: without the look which secrets were known, it stayed in clear in the next states.
    """
    state = {"messages": history(LONG)}
    state["messages"][200]["content"] += "sesame-9f2c"

    def program(run: holdfast.Run) -> None:
        for _ in range(4):
            run.checkpoint(state)
        holdfast.secret("sesame-9f2c", name="door")
        for _ in range(4):
            run.checkpoint(state)

    try:
        stopped(url, program)
        assert restored(url) == state
        texts = [repr(found) for found in states(url)]
        assert ["sesame-9f2c" in text for text in texts] == [True] * 4 + [False] * 4
    finally:
        secrets._registered.clear()
        secrets._rebuild()
    assert encoded == [LONG, LONG, 0, 0, LONG, 64, 64, 64]


def test_a_live_checkpoint_does_not_walk_the_state_for_secrets(
    url: str, a_secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state without a reference and without a mask was the same in clear. It was walked three times, in Python."""
    from holdfast.codec import filled_secrets

    walked: list[Any] = []
    monkeypatch.setattr(filled_secrets, "clear_tree", walked.append)
    stopped(url, lambda run: [run.checkpoint({"messages": history(LONG)}) for _ in range(3)])
    assert walked == []
    stopped(url, lambda run: run.checkpoint({"messages": [a_secret]}))
    assert walked


def test_requests_and_states_are_remembered_beside_each_other(url: str, encoded: list[int]) -> None:
    """A model call between two checkpoints. Planted: with one memory for both, each wiped that of the other."""
    state: dict[str, Any] = {"messages": history(LONG)}

    def program(run: holdfast.Run) -> None:
        for step in range(4):
            run.checkpoint(state)
            run.model("m", lambda _: "ok", {"messages": [{"role": "user", "content": f"{step}"}]})

    stopped(url, program)
    assert encoded[::2] == [LONG, LONG, 0, 0]


def test_a_prune_in_between_is_noticed(url: str) -> None:
    """All of the state is stored again where its nodes may be gone. Planted: a window was taken over without them."""
    state = {"messages": history(LONG)}

    def program(run: holdfast.Run) -> None:
        for _ in range(6):
            run.checkpoint(state)
            holdfast.store(url).prune("a", policy=holdfast.Retention(checkpoints=holdfast.Keep(last=1)))
            state["messages"].append(message(1))

    stopped(url, program)
    assert len(restored(url)["messages"]) == LONG + 5


def test_threads_and_tasks_that_hand_over_long_states_all_read_back(url: str) -> None:
    """Each its own list, which the others leave as it is; the memory of the last state is shared."""
    results: set[int] = set()
    lists = [history(LONG + number) for number in range(3)]

    def program(run: holdfast.Run) -> None:
        def save(number: int) -> None:
            with run.scope(f"thread {number}"):
                for _ in range(6):
                    results.add(run.checkpoint({"messages": lists[number]}))

        threads = [threading.Thread(target=run.bind(save), args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    stopped(url, program)
    assert len(results) == 18
    assert sorted(map(repr, states(url))) == sorted(repr({"messages": one}) for one in lists * 6)


def test_an_async_run_remembers_too(url: str, encoded: list[int]) -> None:
    """With the same code."""
    state = {"messages": history(LONG)}

    async def main() -> None:
        async with holdfast.run("a", store=url) as run:
            for _ in range(4):
                await run.checkpoint(state)

    asyncio.run(main())
    assert encoded == [LONG, LONG, 0, 0]


def test_a_value_left_out_is_named_by_its_place_in_the_whole(url: str) -> None:
    """Though only a part is encoded. And a refusal names the place in the whole, too."""
    state = {"messages": history(LONG)}

    def program(run: holdfast.Run) -> None:
        for _ in range(3):
            run.checkpoint(state)
        state["messages"][299]["client"] = holdfast.ephemeral(object())
        run.checkpoint(state)
        state["messages"][298]["client"] = object()
        with pytest.raises(holdfast.NotStorable, match=r"\$\.messages\[298\]\.client"):
            run.checkpoint(state)

    stopped(url, program)
    with pytest.raises(RuntimeError), holdfast.run("a", store=url) as run:
        run.restore()
        assert run.to_rebuild == ("messages[299].client",)
        raise RuntimeError
