"""A program that has just entered a run, and has no descriptor left: every verb of a run, each in a process of its own.

It imports next to nothing, so that a verb has to load whatever it needs. Called with a directory and ``blocking`` or
``awaiting``; prints one line a verb: its name, what it came to without descriptors, what it came to again with some, how often its
effect happened, and what is wrong with the rest of the run. Fields are divided by tabs.
"""

import os
import resource
import sys
from collections.abc import Callable
from typing import Any

import holdfast

_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)
Verb = Callable[[Any, "Effects"], Any]


class Effects:
    """What the verb under test did to the world."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.count = 0

    def small(self, *_: Any) -> str:
        self.count += 1
        return "done"

    def large(self, *_: Any) -> str:
        self.count += 1
        return "".join(map(str, range(50_000)))

    def typed(self, *_: Any) -> Any:
        from decimal import Decimal  # the user's own, so loaded before the shortage: see _prepare
        from pathlib import PurePath

        self.count += 1
        return {"price": Decimal("1.5"), "path": PurePath("a"), "set": {1, 2}, "bytes": b"x"}

    def failing(self, *_: Any) -> None:
        self.count += 1
        raise ValueError("no")

    async def awaited(self, *_: Any) -> str:
        self.count += 1
        return "done"

    def texts(self, *_: Any) -> Any:
        self.count += 1
        return iter(["so ", "far"])

    async def texts_awaited(self, *_: Any) -> Any:
        self.count += 1
        yield "so "
        yield "far"

    def file(self) -> str:
        return os.path.join(self.place, "notes.txt")


def _write(run: Any, effects: Effects) -> None:
    with run.open(effects.file(), "w") as file:
        file.write("x" * 100_000)


async def _write_awaited(run: Any, effects: Effects) -> None:
    async with run.open(effects.file(), "w") as file:
        file.write("x" * 100_000)


async def _read_stream(run: Any, effects: Effects) -> str:
    return "".join([text async for text in await run.stream("stream", effects.texts_awaited, {"q": 1})])


def _autosaved(run: Any, effects: Effects) -> Any:
    run.autosave(lambda: {"n": 1}, every_steps=1)
    return run.step("autosaved", effects.small)


async def _autosaved_awaited(run: Any, effects: Effects) -> Any:
    run.autosave(lambda: {"n": 1}, every_steps=1)
    return await run.step("autosaved", effects.small)


def _promised(run: Any, settle: str) -> Any:
    found = run.promises.made[0] if hasattr(run.promises, "made") else run.promises[0][0]
    return run.keep(found) if settle == "keep" else run.break_promise(found, because="no")


VERBS: dict[str, Verb] = {
    "step": lambda run, e: run.options(key="k").step("step", e.small),
    "step large": lambda run, e: run.options(key="k").step("step", e.large),
    "step typed": lambda run, e: run.options(key="k").step("step", e.typed),
    "step failing": lambda run, e: run.options(key="k").step("step", e.failing),
    "step retried": lambda run, e: run.options(key="k", retries=1).step("step", e.failing),
    "step timed": lambda run, e: run.options(key="k", timeout_s=60.0).step("step", e.small),
    "once": lambda run, e: run.options(key="k").once("once", e.small),
    "once large": lambda run, e: run.options(key="k").once("once", e.large),
    "once typed": lambda run, e: run.options(key="k").once("once", e.typed),
    "once failing": lambda run, e: run.options(key="k").once("once", e.failing),
    "once harmless": lambda run, e: run.options(key="k", harmless=ValueError).once("once", e.failing),
    "once timed": lambda run, e: run.options(key="k", timeout_s=60.0).once("once", e.small),
    "tool": lambda run, e: holdfast.tool(effect="once", name="tool")(e.small)(),
    "tool approved": lambda run, e: holdfast.tool(effect="once", name="tool", approve=True)(e.small)(),
    "checkpoint": lambda run, e: run.checkpoint({"n": 1}),
    "checkpoint large": lambda run, e: run.checkpoint({str(n): "x" * 100 for n in range(1_000)}, label="l"),
    "restore": lambda run, e: run.restore({}),
    "plan": lambda run, e: run.plan(["a", "b"]),
    "think": lambda run, e: run.think("so"),
    "decide": lambda run, e: run.decide("a", because="b"),
    "discover": lambda run, e: run.discover("a"),
    "say": lambda run, e: run.say("a", to="b"),
    "patched": lambda run, e: run.patched("p"),
    "now": lambda run, e: run.now(),
    "uuid": lambda run, e: run.uuid(),
    "random": lambda run, e: run.random(),
    "model": lambda run, e: run.model("model", e.small, {"q": 1}, model="gpt-4o", provider="openai"),
    "stream": lambda run, e: "".join(run.stream("stream", e.texts, {"q": 1})),
    "ask": lambda run, e: run.ask("really?", returns=bool),
    "sleep": lambda run, e: run.sleep(0.0),
    "sleep_until": lambda run, e: run.sleep_until(1.0),
    "child": lambda run, e: run.child("kid", "agent", queue=True),
    "depends_on": lambda run, e: run.depends_on(__file__),
    "depends_on directory": lambda run, e: run.depends_on(e.place),
    "depends_on endpoint": lambda run, e: run.depends_on("http://127.0.0.1:9"),
    "artifact": lambda run, e: run.artifact(os.path.join(e.place, "made.txt")),
    "open": _write,
    "context": lambda run, e: run.context(),
    "remember": lambda run, e: run.remember("the sky is blue"),
    "recall": lambda run, e: run.recall("sky"),
    "handoff": lambda run, e: run.handoff("b"),
    "promise": lambda run, e: run.promise("a", to="b"),
    "keep": lambda run, e: _promised(run, "keep"),
    "break_promise": lambda run, e: _promised(run, "break"),
    "send": lambda run, e: run.send("other", {"n": 1}),
    "receive": lambda run, e: run.receive(),
    "resume_plan": lambda run, e: run.resume_plan(),
    "messages.append": lambda run, e: run.messages.append({"role": "user", "content": "a"}),
    "messages.append signed": lambda run, e: run.messages.append(
        {"role": "assistant", "content": "a"}, provider="openai", model="m"
    ),
    "messages.extend": lambda run, e: run.messages.extend([{"role": "user", "content": "a"}]),
    "messages.drop": lambda run, e: run.messages.drop(0),
    "messages.ready": lambda run, e: run.messages.ready(),
    "messages.mend": lambda run, e: run.messages.mend(),
    "autosave": _autosaved,
    "finish": lambda run, e: run.finish("done"),
    "finish remembered": lambda run, e: run.finish("done", remember=True),
    "close": lambda run, e: run.close(),
}
_AWAITING: dict[str, Verb] = {
    "step awaited": lambda run, e: run.options(key="k").step("step", e.awaited),
    "once awaited": lambda run, e: run.options(key="k").once("once", e.awaited),
    "stream": _read_stream,
    "open": _write_awaited,
    "autosave": _autosaved_awaited,
}


def _prepare(place: str) -> None:
    with open(os.path.join(place, "made.txt"), "w") as file:
        file.write("made")
    import decimal  # noqa: F401 - the modules of the user's values are the user's
    import pathlib  # noqa: F401


def _opened(place: str) -> Any:
    return holdfast.run("r", store=f"sqlite:///{place}/x.db", workspace=place)


async def _tried(verb: Verb, run: Any, effects: Effects) -> str:
    """What it came to: ``ok``, the name of Holdfast's error, or the story of another."""
    try:
        given = verb(run, effects)
        if hasattr(given, "__await__"):
            given = await given
    except (holdfast.HoldfastError, holdfast.StopSignal) as error:
        return type(error).__name__
    except ValueError as error:
        if str(error) == "no":
            return "ok"
        return _story(error)
    except BaseException as error:
        return _story(error)
    return "ok"


def _story(error: BaseException) -> str:
    _free()
    import traceback

    return "raw " + "".join(traceback.format_exception(error)[-14:]).replace("\n", " | ").replace("\t", " ")


def _exhaust(how: str) -> None:
    """``full``: the table is full. ``limit``: not even a descriptor that is closed can be had again."""
    if how == "limit":
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, _LIMIT[1]))
        return
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, _LIMIT[1]))
    try:
        while True:
            _filled.append(os.dup(0))
    except OSError:
        return


_filled: list[int] = []


def _free() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, _LIMIT)
    while _filled:
        os.close(_filled.pop())


async def _walk(
    verb: Verb, run: Any, effects: Effects, shortage: str, wait: Callable[[Any], Any]
) -> tuple[str, str, str]:
    """The verb without descriptors, then with; and whether the run is what it was in between."""

    def acknowledged() -> str:
        return "kept"

    await wait(run.options(key="before").step("before", acknowledged))
    await wait(run.promise("p", to="x"))
    _exhaust(shortage)
    first = await _tried(verb, run, effects)
    _free()
    again = await _tried(verb, run, effects)
    try:
        await wait(run.options(key="after").step("after", acknowledged))
    except (holdfast.HandleClosed, holdfast.RunFinished, holdfast.RunSealed):
        pass  # by this very verb
    except (holdfast.HoldfastError, holdfast.StopSignal) as error:
        return first, again, f"a step afterwards: {type(error).__name__}: {error}".replace("\n", " ")
    return first, again, ""


async def _blocking(value: Any) -> Any:
    return value


async def _awaiting(value: Any) -> Any:
    return await value


def _finish(coroutine: Any) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a blocking verb has suspended")


def _replayed(place: str) -> str:
    """The same program in a later attempt: what was acknowledged is answered, and not done again."""
    done: list[str] = []

    def acknowledged() -> str:
        done.append("before")
        return "again"

    with holdfast.run("r", store=f"sqlite:///{place}/x.db", workspace=place) as run:
        run.options(key="before").step("before", acknowledged)
        run.close()
    return f"done again: {done}" if done else ""


def _one(verb: Verb, place: str, how: str, shortage: str) -> None:
    effects = Effects(place)
    _prepare(place)
    holdfast.run("other", store=f"sqlite:///{place}/x.db").open().close()
    if how == "blocking":
        run = _opened(place).open()
        first, again, wrong = _finish(_walk(verb, run, effects, shortage, _blocking))
        run.close()
    else:
        import asyncio

        async def main() -> tuple[str, str, str]:
            async with _opened(place) as run:
                try:
                    return await _walk(verb, run, effects, shortage, _awaiting)
                finally:
                    await run.close()

        first, again, wrong = asyncio.run(main())
    count = effects.count
    print(first, again, count, wrong or _replayed(place), sep="\t", flush=True)


def main(place: str, how: str, shortage: str) -> None:
    import logging

    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    _prepare(place)
    with _opened(place) as run:  # so that each child has loaded what it takes to enter a run, and no more
        run.step("before", str)
    holdfast.tool  # noqa: B018 - programs have their tools before they run
    verbs = VERBS if how == "blocking" else {**VERBS, **_AWAITING}
    for number, (name, verb) in enumerate(verbs.items()):
        own = os.path.join(place, str(number))
        os.mkdir(own)
        print(name, end="\t", flush=True)
        pid = os.fork()
        if pid == 0:
            try:
                _one(verb, own, how, shortage)
            except BaseException as error:
                print(_story(error), "", 0, "", sep="\t", flush=True)
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
