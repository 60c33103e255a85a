"""Effects: once means once. What is in doubt is verified, settled by a person, told, or stops the run."""

import asyncio
import threading
from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest

import holdfast
from holdfast import Done, NotDone, Unknown
from holdfast.model.events import Kind

world: list[str] = []
"""The outside world: what really happened."""
keys: list[str] = []
tries: list[int] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    world.clear()
    keys.clear()
    tries.clear()


class Crash(Exception):
    pass


class Declined(Exception):
    """A refusal that certainly did nothing."""


def die(_: Any = None) -> None:
    """A cut that leaves the intent without outcome, as a kill does, without killing the test."""
    raise KeyboardInterrupt


def attempt(url: str, body: Callable[[holdfast.Run], Any]) -> Any:
    out = None
    try:
        with holdfast.run("a", store=url) as run:
            out = body(run)
            raise Crash
    except Crash:
        pass
    return out


def cut_off(url: str, tool: Any, *args: Any) -> None:
    """An attempt that is cut off inside the tool."""
    with pytest.raises(KeyboardInterrupt):
        attempt(url, lambda run: tool(*args))


def make_tool(
    verdict: Callable[[], Any] | None, *, happens: bool = True, cut: bool = True, **options: Any
) -> Any:
    """A once tool: it acts (or not), then is cut off the first time."""

    def verify(name: str, *, idempotency_key: str) -> Any:
        keys.append(idempotency_key)
        return verdict() if verdict else None

    @holdfast.tool(verify=verify if verdict else None, settle_s=0, ignore=["cut", "happens"], **options)
    def create_contact(name: str, *, idempotency_key: str = holdfast.KEY) -> dict[str, str]:
        keys.append(idempotency_key)
        tries.append(1)
        if happens or len(tries) > 1:
            world.append(name)
        if cut and len(tries) == 1:
            die()
        return {"name": name}

    return create_contact


def test_a_tool_called_inside_a_run_is_a_step(url: str) -> None:
    """Its call is recorded and answered like any step; once is the default effect."""
    tool = make_tool(None, cut=False)
    assert tool.call_options.effect == "once"
    for _ in range(2):
        assert attempt(url, lambda run: tool("Ada")) == {"name": "Ada"}
    assert world == ["Ada"]


def test_outside_of_any_run_it_is_the_plain_function() -> None:
    """No run, no journal: it just runs, with a fresh idempotency key each time."""
    tool = make_tool(None, cut=False)
    tool("Ada")
    tool("Ada")
    assert world == ["Ada", "Ada"]
    assert len(set(keys)) == 2
    assert tool.fn("Bob", idempotency_key="mine") == {"name": "Bob"}


def test_cut_off_and_verified_done_is_not_repeated(url: str) -> None:
    """verify says Done: its value is the outcome, recorded, and the function does not run again."""
    tool = make_tool(lambda: Done({"name": "verified"}))
    cut_off(url, tool, "Ada")
    assert attempt(url, lambda run: tool("Ada")) == {"name": "verified"}
    assert attempt(url, lambda run: tool("Ada")) == {"name": "verified"}
    assert world == ["Ada"]


def test_cut_off_and_verified_not_done_runs_again_with_the_same_key(url: str) -> None:
    """verify says NotDone: the call runs again under the key that was minted at the first intent."""
    tool = make_tool(NotDone, happens=False)
    cut_off(url, tool, "Ada")
    assert attempt(url, lambda run: tool("Ada")) == {"name": "Ada"}
    assert world == ["Ada"]
    assert len(set(keys)) == 1


@pytest.mark.parametrize("verdict", [Unknown, None, lambda: "yes", lambda: 1 / 0])
def test_without_a_verdict_the_run_stops_and_asks(url: str, verdict: Any) -> None:
    """Unknown, no verifier, no verdict or a failing verifier: StepInDoubt, with the next command to type."""
    tool = make_tool(verdict)
    cut_off(url, tool, "Ada")
    assert holdfast.store(url).get("a").status == "in_doubt"
    with pytest.raises(holdfast.StepInDoubt, match="'create_contact' of run a was started at") as stop:
        attempt(url, lambda run: tool("Ada"))
    assert "holdfast resolve a create_contact" in stop.value.hint
    assert world == ["Ada"]


def test_anything_raised_out_of_a_once_tool_is_in_doubt(url: str) -> None:
    """A timeout may have arrived: the run stops instead of guessing."""

    @holdfast.tool
    def pay() -> None:
        world.append("paid")
        raise TimeoutError("no answer")

    with pytest.raises(holdfast.StepInDoubt, match="raised TimeoutError: no answer") as stop:
        attempt(url, lambda run: pay())
    assert isinstance(stop.value.__cause__, TimeoutError)
    assert world == ["paid"]


def test_a_harmless_exception_is_an_ordinary_failure(url: str) -> None:
    """What is declared harmless certainly did nothing: it is raised, recorded, and may be tried again."""

    @holdfast.tool(harmless=(Declined,))
    def pay() -> str:
        world.append("tried")
        if len(world) == 1:
            raise Declined
        return "ok"

    with pytest.raises(Declined):
        attempt(url, lambda run: pay())
    assert attempt(url, lambda run: pay()) == "ok"


def test_an_exception_verified_done_returns_the_value(url: str) -> None:
    """The connection broke after it happened: verify finds it, the program gets its value."""

    @holdfast.tool(verify=lambda: Done("found"), settle_s=0)
    def pay() -> str:
        raise ConnectionError

    assert attempt(url, lambda run: pay()) == "found"


def test_an_exception_verified_not_done_is_the_failure_it_was(url: str) -> None:
    """It certainly did not happen: the program gets its own exception, and may call again with the same key."""

    @holdfast.tool(verify=lambda idempotency_key: NotDone(), settle_s=0)
    def pay(*, idempotency_key: str = holdfast.KEY) -> str:
        keys.append(idempotency_key)
        if len(keys) == 1:
            raise ConnectionError
        return "ok"

    def body(run: holdfast.Run) -> str:
        with pytest.raises(ConnectionError):
            pay()
        return pay()

    assert attempt(url, body) == attempt(url, body) == "ok"
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_not_done_waits_until_the_world_had_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NotDone counts only after settle_s: a request on its way can arrive after the first look."""
    verdicts = [NotDone(), Done("late")]
    waits: list[float] = []

    def verify() -> Any:
        return verdicts.pop(0)

    async def sleep(self: object, clock: object, seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("holdfast.engine.sync_async.BlockingRuntime.sleep", sleep)

    @holdfast.tool(verify=verify, settle_s=60)
    def pay() -> str:
        raise ConnectionError

    assert attempt(url, lambda run: pay()) == "late"
    assert len(waits) == 1
    assert 59 < waits[0] <= 60


def test_in_doubt_tell_raises_an_ordinary_error_for_the_model(url: str) -> None:
    """in_doubt="tell": the caller learns that nobody knows, as an error it can handle; and again on replay."""
    tool = make_tool(None, in_doubt="tell")
    cut_off(url, tool, "Ada")

    def body(run: holdfast.Run) -> str:
        with pytest.raises(holdfast.EffectUnknown, match="not known whether it happened") as told:
            tool("Ada")
        run.think("went on")
        return str(told.value)

    assert attempt(url, body) == attempt(url, body)
    assert world == ["Ada"]


def test_in_doubt_retry_repeats_with_the_same_key(url: str) -> None:
    """in_doubt="retry": the tool's author declared that repeating under the same key is fine."""
    tool = make_tool(None, in_doubt="retry")
    cut_off(url, tool, "Ada")
    assert attempt(url, lambda run: tool("Ada")) == {"name": "Ada"}
    assert world == ["Ada", "Ada"]
    assert len(set(keys)) == 1


def test_resolve_done_gives_the_value(url: str) -> None:
    """A person says what happened; the next attempt takes it in and goes on."""
    tool = make_tool(None)
    cut_off(url, tool, "Ada")
    doubt = holdfast.store(url).resolve("a", "create_contact", "done", value={"name": "by hand"}, by="eve")
    assert doubt.pending == "done"
    assert attempt(url, lambda run: tool("Ada")) == {"name": "by hand"}
    settled = [event for event in holdfast.store(url).events("a") if event.kind == Kind.STEP_SETTLED]
    assert len(settled) == 1
    assert b'"by":"eve"' in settled[0].body
    assert world == ["Ada"]


def test_resolve_retry_lets_it_run_again(url: str) -> None:
    """A person says it did not happen."""
    tool = make_tool(None, happens=False)
    cut_off(url, tool, "Ada")
    holdfast.store(url).resolve("a", "create_contact", "retry")
    assert attempt(url, lambda run: tool("Ada")) == {"name": "Ada"}
    assert len(set(keys)) == 1


def test_resolve_failed_raises_in_the_program(url: str) -> None:
    """A person says it failed, and why; the program gets that as the call's failure."""
    tool = make_tool(None)
    cut_off(url, tool, "Ada")
    holdfast.store(url).resolve("a", "create_contact", "failed", message="card expired")
    with pytest.raises(RuntimeError, match="card expired"):
        attempt(url, lambda run: tool("Ada"))


def test_resolve_abandon_accepts_a_removed_call(url: str) -> None:
    """A program that no longer makes a call in doubt cannot finish until somebody accepts that."""
    tool = make_tool(None)
    cut_off(url, tool, "Ada")
    with (
        pytest.raises(holdfast.StepInDoubt, match="without asking for it again"),
        holdfast.run("a", store=url),
    ):
        pass
    holdfast.store(url).resolve("a", "create_contact", "abandon")
    with holdfast.run("a", store=url):
        pass
    assert holdfast.store(url).get("a").status == "finished"


def test_a_second_resolution_is_refused(url: str) -> None:
    """The first answer wins."""
    tool = make_tool(None)
    cut_off(url, tool, "Ada")
    holdfast.store(url).resolve("a", "create_contact", "retry")
    with pytest.raises(holdfast.AlreadyResolved, match="waits in its inbox"):
        holdfast.store(url).resolve("a", "create_contact", "done")


def test_resolving_what_is_not_in_doubt_is_refused(url: str) -> None:
    """An unknown step names what there is; a settled one says so."""
    tool = make_tool(None, cut=False)
    attempt(url, lambda run: tool("Ada"))
    with pytest.raises(holdfast.UnknownStep, match="it has: none"):
        holdfast.store(url).resolve("a", "nothing", "retry")
    with pytest.raises(holdfast.AlreadyResolved, match="its outcome is recorded"):
        holdfast.store(url).resolve("a", "create_contact", "retry")
    with pytest.raises(holdfast.UnknownRun):
        holdfast.store(url).resolve("b", "create_contact", "retry")


def test_doubts_are_listed_with_their_reason(url: str) -> None:
    """The store tells what is in doubt, since when and why, and what was already said about it."""
    tool = make_tool(None)
    cut_off(url, tool, "Ada")
    (doubt,) = holdfast.store(url).doubts("a")
    assert (doubt.step, doubt.reason, doubt.pending) == (
        "create_contact",
        "was cut off by KeyboardInterrupt",
        None,
    )
    holdfast.store(url).resolve("a", doubt.key, "retry")
    assert holdfast.store(url).doubts("a")[0].pending == "retry"


def test_an_object_that_can_be_called_gets_its_key(url: str) -> None:
    """As a tool and in ``run.once``. Seen before: the service got the text ``holdfast.KEY`` as the key of every payment."""

    class Bank:
        def __init__(self) -> None:
            self.keys: list[str] = []

        def __call__(self, to: str, *, idempotency_key: str = holdfast.KEY) -> str:
            self.keys.append(idempotency_key)
            return to

    bank = Bank()
    pay = holdfast.tool(effect="once", name="pay")(bank)
    assert [*signature(pay).parameters] == ["to"]
    with holdfast.run("r", store=url) as run:
        pay("ada")
        run.once("pay", bank, "eve")
    assert len({*bank.keys} - {holdfast.KEY}) == 2


def test_an_abandoned_effect_that_the_program_makes_again_is_in_doubt_again(url: str) -> None:
    """A person can settle it then. Seen before: ``StepInDoubt`` for ever, while ``resolve`` said that nothing is in doubt."""
    calls: list[str] = []

    @holdfast.tool(effect="once", settle_s=0, ignore=("calls",))
    def pay(to: str) -> str:
        calls.append(to)
        raise ConnectionError("the line broke")

    def attempt() -> object:
        given: list[str] = []
        with holdfast.run("r", store=url):
            given.append(pay("ada"))
        return given[0]

    store = holdfast.store(url)
    for _ in range(2):
        with pytest.raises(holdfast.StepInDoubt, match="ConnectionError"):
            attempt()
        store.resolve("r", "pay", "abandon")
    for _ in range(2):
        with pytest.raises(
            holdfast.StepInDoubt, match="broke; it was abandoned, and the program makes it again\n"
        ):
            attempt()
    assert [doubt.step for doubt in store.doubts("r")] == ["pay"]
    store.resolve("r", "pay", "done", value="on the bill")
    assert attempt() == "on the bill"
    assert calls == ["ada"]


def test_the_idempotency_key_is_stable_secret_and_unique(url: str) -> None:
    """Each call has its own key, the same in every repeat, hidden from the signature frameworks read."""
    import inspect

    tool = make_tool(None, cut=False)
    assert list(inspect.signature(tool).parameters) == ["name"]
    assert "idempotency_key" not in tool.__annotations__
    attempt(url, lambda run: [tool("Ada"), tool("Ada"), tool("Bob")])
    assert len(set(keys)) == 3


def test_another_run_has_other_keys(url: str) -> None:
    """The key comes from the run's random birth: the same call in another run has another."""
    tool = make_tool(None, cut=False)
    for run in ("x", "y"):
        with holdfast.run(run, store=url):
            tool("Ada")
    assert len(set(keys)) == 2


def test_idempotent_steps_run_again_with_the_same_key(url: str) -> None:
    """Cut off, an idempotent step is simply repeated under its key."""

    def put(*, idempotency_key: str = holdfast.KEY) -> str:
        keys.append(idempotency_key)
        if len(keys) == 1:
            die()
        return "ok"

    body: Callable[[holdfast.Run], str] = lambda run: run.options(idempotent=True).step("put", put)  # noqa: E731
    with pytest.raises(KeyboardInterrupt):
        attempt(url, body)
    assert attempt(url, body) == "ok"
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_once_tools_are_leaves(url: str) -> None:
    """A step inside a once effect is refused: half of it could be answered and half in doubt."""

    def outer(run: holdfast.Run) -> None:
        run.step("inner", lambda: 1)

    with pytest.raises(holdfast.StepInDoubt) as stop, holdfast.run("a", store=url) as run:
        run.once("outer", lambda: outer(run))
    assert isinstance(stop.value.__cause__, holdfast.Misuse)
    assert "leaf" in stop.value.__cause__.hint


def test_run_once_makes_a_plain_function_once(url: str) -> None:
    """run.once is a tool call without a decorator."""

    def pay() -> None:
        world.append("paid")
        die()

    with pytest.raises(KeyboardInterrupt):
        attempt(url, lambda run: run.once("pay", pay))
    with pytest.raises(holdfast.StepInDoubt):
        attempt(url, lambda run: run.once("pay", pay))
    assert world == ["paid"]


def test_a_once_call_stays_once_even_if_it_is_declared_read_later(url: str) -> None:
    """What was recorded as once is not repeated because the program changed its mind."""
    with pytest.raises(KeyboardInterrupt):
        attempt(url, lambda run: run.once("pay", die, 1))
    with pytest.raises(holdfast.StepInDoubt):
        attempt(url, lambda run: run.step("pay", die, 1))


def test_many_tools_at_once(url: str) -> None:
    """holdfast.tools makes tools of a list or a dict; what is not named is once."""

    def search(q: str) -> str:
        return q

    def send(m: str) -> str:
        return m

    as_list = holdfast.tools([search, send], effects={"search": "read"})
    assert [t.call_options.effect for t in as_list] == ["read", "once"]
    as_dict = holdfast.tools({"find": search}, effects={"find": "idempotent"})
    assert as_dict["find"].call_options.effect == "idempotent"
    with holdfast.run("a", store=url):
        assert as_list[1]("x") == "x"
    with pytest.raises(holdfast.Misuse, match="nothere"):
        holdfast.tools([search], effects={"nothere": "read"})


def test_bad_treatment_is_refused_where_it_is_declared() -> None:
    """An effect or policy that does not exist is named with the choices."""
    with pytest.raises(holdfast.BadOption, match="effect='twice'"):
        holdfast.tool(effect="twice")  # type: ignore[call-overload]
    with pytest.raises(holdfast.BadOption, match="in_doubt"):
        holdfast.tool(in_doubt="guess")  # type: ignore[call-overload]
    with pytest.raises(holdfast.Misuse, match="timeout_s"):
        holdfast.tool(timeout_s=-1)


def test_a_tool_in_a_thread_without_context_is_refused(url: str) -> None:
    """Contexts do not reach new threads: the tool says so instead of acting outside of the journal."""
    from threading import Thread

    tool = make_tool(None, cut=False)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            tool("Ada")
        except holdfast.NoCurrentRun as error:
            errors.append(error)

    with holdfast.run("a", store=url) as run:
        thread = Thread(target=work)
        thread.start()
        thread.join()
        bound = Thread(target=run.bind(work))
        bound.start()
        bound.join()
    assert len(errors) == 1
    assert "run.bind" in str(errors[0].__notes__)
    assert world == ["Ada"]


def test_async_cancellation_of_a_once_tool_is_in_doubt(url: str) -> None:
    """Cancelled in the middle: nobody knows; the next attempt stops and asks."""

    @holdfast.tool
    async def pay() -> None:
        world.append("paid")
        await asyncio.sleep(600)

    async def cut_off() -> None:
        async with holdfast.run("a", store=url):
            paying = asyncio.create_task(pay())
            while not world:  # noqa: ASYNC110 - an event would be a part of the call
                await asyncio.sleep(0.01)
            paying.cancel()
            await paying

    async def main() -> None:
        async with holdfast.run("a", store=url):
            await pay()

    with pytest.raises((asyncio.CancelledError, holdfast.StepInDoubt)):
        asyncio.run(cut_off())
    assert holdfast.store(url).doubts("a")[0].reason == "was cut off by CancelledError"
    with pytest.raises(holdfast.StepInDoubt):
        asyncio.run(main())
    assert world == ["paid"]


def test_swallowed_doubt_cannot_finish_the_run(url: str) -> None:
    """A program that goes on after its effect was cut off is stopped at the end, not finished."""

    async def main() -> None:
        async with holdfast.run("a", store=url) as run:
            begun = asyncio.Event()

            async def pay() -> None:
                begun.set()
                await asyncio.sleep(600)

            task = asyncio.create_task(run.options(key="pay").once("pay", pay))
            await begun.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with pytest.raises(holdfast.StepInDoubt, match="ended without asking for it again"):
        asyncio.run(main())


def test_a_swallowed_stop_does_not_let_the_effect_run_again(url: str) -> None:
    """A framework that catches even BaseException and calls the tool again gets the same stop, not a second effect."""

    @holdfast.tool
    def pay() -> None:
        world.append("paid")
        raise TimeoutError

    with pytest.raises(holdfast.StepInDoubt), holdfast.run("a", store=url):
        for _ in range(3):
            with pytest.raises(holdfast.StepInDoubt):
                pay()
    assert world == ["paid"]


def test_a_timeout_of_a_once_step_is_in_doubt_and_its_late_end_is_recorded(url: str) -> None:
    """Past its timeout a thread still runs: the caller is stopped, the effect is followed to its end."""
    from threading import Event

    release = Event()
    holder = {"release": release}

    def pay() -> str:
        holder_of[0]["release"].wait(60)
        world.append("paid")
        return "late"

    holder_of = [holder]
    globals()["holder_of"] = holder_of
    with pytest.raises(holdfast.StepInDoubt, match="still running"), holdfast.run("a", store=url) as run:
        try:
            run.options(timeout_s=0.05, key="pay").once("pay", pay)
        finally:
            release.set()
    assert attempt(url, lambda run: run.options(key="pay").once("pay", pay)) == "late"
    assert world == ["paid"]


def test_a_read_step_past_its_timeout_fails(url: str) -> None:
    """timeout_s is a failure like another: StepTimeout, replayed if the program went past it."""
    is_over = threading.Event()

    def slow() -> None:
        is_over.wait(60)

    def body(run: holdfast.Run) -> str:
        with pytest.raises(holdfast.StepTimeout, match=r"ran past its timeout of 0\.05 s") as late:
            run.options(timeout_s=0.05, key="slow").step("slow", slow)
        is_over.set()
        run.think("went on")
        return type(late.value).__name__

    assert attempt(url, body) == attempt(url, body) == "StepTimeout"
