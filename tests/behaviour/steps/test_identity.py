"""What makes a call the same call: scope, name, arguments by name, and the n-th success; or its key alone."""

import functools
import socket
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.behaviour.conftest import Counter

import holdfast


class Crash(Exception):
    pass


calls: list[object] = []
"""What ran; global, so that no function captures it: a captured list that grows would be another argument each time."""
numbers = iter(range(1000))


def record(value: object) -> object:
    calls.append(value)
    return value


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


def crash(url: str, body: object) -> object:
    """Run the body and fail, so that the next entry replays it."""
    out = None
    with pytest.raises(Crash), holdfast.run("a", store=url) as run:
        out = body(run)  # type: ignore[operator]
        raise Crash
    return out


def test_arguments_are_part_of_the_identity(url: str, counter: Counter) -> None:
    """Another argument is another call. (Planted: arguments left out of the key; this test failed.)"""
    for _ in range(2):
        assert crash(url, lambda run: [run.step("s", counter, v) for v in ("x", "y")]) == ["x", "y"]
    assert counter.calls == ["x", "y"]


def test_arguments_in_another_order_are_the_same_calls(url: str, counter: Counter) -> None:
    """Each recorded call answers for its own arguments. Planted: without them in the key, the first call answered for the second."""
    assert crash(url, lambda run: [run.step("s", counter, v) for v in ("x", "y")]) == ["x", "y"]
    assert crash(url, lambda run: [run.step("s", counter, v) for v in ("y", "z", "x")]) == ["y", "z", "x"]
    assert counter.calls == ["x", "y", "z"]


def test_positional_and_keyword_arguments_are_the_same(url: str) -> None:
    """Arguments are bound to parameter names, defaults included."""

    def f(a: int, b: int = 2, *, c: int = 3) -> int:
        calls.append(1)
        return a + b + c

    with holdfast.run("a", store=url) as run:
        run.step("s", f, 1)
    for args, kwargs in (((1, 2), {}), ((1,), {"b": 2}), ((), {"a": 1, "c": 3})):
        with holdfast.run("a", store=url) as run:
            assert run.step("s", f, *args, **kwargs) == 6
    assert len(calls) == 1


def test_types_of_arguments_count(url: str, counter: Counter) -> None:
    """1, 1.0, True, a list and a tuple are different arguments."""
    values = [1, 1.0, True, [1], (1,), "1"]
    for _ in range(2):
        crash(url, lambda run: [run.step("s", counter, v) for v in values])
    assert counter.calls == values


def test_the_nth_equal_call_is_its_own(url: str) -> None:
    """The same call three times is three calls; each replays its own outcome, in order."""

    def draw() -> int:
        return next(numbers)

    first = crash(url, lambda run: [run.step("draw", draw) for _ in range(3)])
    again = crash(url, lambda run: [run.step("draw", draw) for _ in range(4)])
    assert isinstance(first, list)
    assert isinstance(again, list)
    assert again[:3] == first
    assert len(set(again)) == 4


def test_names_and_scopes_separate_calls(url: str, counter: Counter) -> None:
    """The same call under another name or in another scope is another call."""

    def body(run: holdfast.Run) -> None:
        run.step("s", counter, 1)
        run.step("t", counter, 1)
        with run.scope("inner"):
            run.step("s", counter, 1)
            with run.scope("deeper"):
                run.step("s", counter, 1)

    for _ in range(2):
        crash(url, body)
    assert len(counter.calls) == 4


def test_enclosing_step_is_part_of_the_identity(url: str) -> None:
    """An inner call belongs to the step around it."""

    def body(run: holdfast.Run) -> None:
        def outer(which: int) -> None:
            run.step("inner", calls.append, 1)

        for which in (1, 2):
            run.step("outer", outer, which)

    for _ in range(2):
        crash(url, body)
    assert len(calls) == 2


def test_self_is_left_out(url: str) -> None:
    """A method's object is not part of the call."""

    class Client:
        def __init__(self) -> None:
            self.socket = socket.socket()
            self.calls = 0

        def get(self, what: str) -> str:
            self.calls += 1
            return what

    for expected in (1, 0):
        client = Client()
        with client.socket:
            assert crash(url, lambda run, c=client: run.step("get", c.get, "x")) == "x"
        assert client.calls == expected


def test_captured_values_count(url: str) -> None:
    """A closure's captured values are arguments: another value is another call."""

    def ask(run: holdfast.Run, country: str) -> str:
        return str(run.step("compare", lambda: record(country)))

    for _ in range(2):
        assert crash(url, lambda run: [ask(run, c) for c in ("DE", "FR")]) == ["DE", "FR"]
    assert calls == ["DE", "FR"]


def test_captured_functions_count_by_name_and_by_what_they_capture(url: str) -> None:
    """A captured helper function is fine; what it captures counts in turn."""

    def make(n: int) -> Callable[[], object]:
        def helper() -> int:
            return n

        return lambda: record(helper())

    for _ in range(2):
        assert crash(url, lambda run: [run.step("s", make(n)) for n in (1, 2)]) == [1, 2]
    assert len(calls) == 2


def test_captured_things_that_cannot_be_stored_are_refused(url: str) -> None:
    """A captured socket cannot be part of an identity; the path names it, and a key is the way out."""
    with socket.socket() as conn, holdfast.run("a", store=url) as run:
        with pytest.raises(holdfast.NotStorable, match=r"closure:conn") as refused:
            run.step("s", lambda: conn.fileno() and 1)
        assert "key" in refused.value.hint
        assert run.options(key="s-1").step("s", lambda: conn.fileno() and 1) == 1


def test_a_tool_made_inside_a_function_can_leave_its_client_out(url: str) -> None:
    """``ignore=`` covers captured names too, so that tools can be made around a client."""
    with socket.socket() as client:

        @holdfast.tool(effect="read", ignore=["client"])
        def get(what: str) -> int:
            calls.append(what)
            return client.fileno()

        for _ in range(2):
            crash(url, lambda run: get("x"))
    assert calls == ["x"]


def test_unstorable_arguments_are_refused_before_anything_is_written(url: str) -> None:
    """The error names the path to the argument; no intent is left behind."""
    with socket.socket() as conn, holdfast.run("a", store=url) as run:
        before = len(holdfast.store(url).events("a"))
        with pytest.raises(holdfast.NotStorable, match=r"\$\.value\.deep\[1\]"):
            run.step("s", Counter().__call__, {"deep": [1, conn]})
        assert len(holdfast.store(url).events("a")) == before


def test_ignored_and_ephemeral_arguments_do_not_count(url: str) -> None:
    """``ignore=`` and ``holdfast.ephemeral`` keep an argument out of identity and journal; the function gets it."""

    def f(a: int, client: object) -> int:
        calls.append(client)
        return a

    for client in (object(), object()):
        with pytest.raises(Crash), holdfast.run("a", store=url) as run:
            assert run.step("s", f, 1, holdfast.ephemeral(client)) == 1
            assert run.options(ignore="client").step("t", f, 1, client) == 1
            raise Crash
    assert len(calls) == 2
    assert type(calls[0]) is object


def test_a_key_is_the_whole_identity(url: str, counter: Counter) -> None:
    """Neither name, arguments nor scope matter beside a key; once it succeeded, it is answered."""
    with holdfast.run("a", store=url) as run:
        assert run.options(key="k").step("s", counter, 1) == 1
        assert run.options(key="k").step("other", counter, 2) == 1
        with run.scope("x"):
            assert run.options(key="k").step("s", counter, 3) == 1
    assert counter.calls == [1]


def test_partial_arguments_count(url: str) -> None:
    """functools.partial is seen through."""

    def f(a: int, b: int) -> int:
        calls.append((a, b))
        return a * b

    for _ in range(2):
        crash(url, lambda run: [run.step("s", functools.partial(f, a), 2) for a in (1, 2)])
    assert calls == [(1, 2), (2, 2)]


def test_a_call_that_does_not_fit_its_function_is_refused_before_it_is_recorded(url: str) -> None:
    """A TypeError for wrong arguments leaves no intent, so that a once tool is not in doubt for a typo."""

    def f(a: int) -> int:
        return a

    with holdfast.run("a", store=url) as run:
        head = holdfast.store(url).get("a").head
        for args, kwargs in (((), {}), ((1, 2), {}), ((), {"b": 1}), ((1,), {"a": 1})):
            with pytest.raises(TypeError):
                run.once("f", f, *args, **kwargs)
        assert holdfast.store(url).get("a").head == head


@dataclass
class Query:
    text: str


def test_dataclass_arguments_count_by_value(url: str, counter: Counter) -> None:
    """Equal dataclasses are equal arguments."""
    for _ in range(2):
        crash(url, lambda run: [run.step("s", counter, Query(t)) for t in ("x", "y")])
    assert len(counter.calls) == 2


def test_bad_step_names_are_refused(url: str) -> None:
    """Empty, too long and unprintable names are named."""
    with holdfast.run("a", store=url) as run:
        for name in ("", "x" * 201, "a\x00"):
            with pytest.raises(holdfast.BadName, match="step name"):
                run.step(name, lambda: 1)
