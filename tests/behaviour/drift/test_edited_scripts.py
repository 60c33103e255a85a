"""Scripts as people write them, edited between two starts, on SQLite and PostgreSQL: every effect happens once.

Each docstring ends with what users reported before the guard. Each start is a process of its own; effects are
lines in a file beside the script. Rules in detail are tested where they belong (``test_ledger_guard.py`` and others).
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest
from tests.support.fork_server import Forked, fork_server

import holdfast

pytestmark = pytest.mark.parametrize(
    "shared_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
DEADLINE_S = 60
PAUSED = 3
TOOLS = """\
import asyncio, os, signal, sys, time
import holdfast

def do(what):
    with open("world.txt", "a") as world:
        print(what, file=world)
    return f"receipt for {what}"

def die():
    os.kill(os.getpid(), signal.SIGKILL)

"""


class Script:
    """A script and the world that it acts on."""

    def __init__(self, place: Path, url: str) -> None:
        self.place, self.url = place, url
        self.file = place / "agent.py"
        self.output = place / "output.txt"
        self.store = holdfast.store(url)
        self.said = ""

    def write(self, text: str) -> "Script":
        """Edit the script."""
        self.file.write_text(TOOLS + dedent(text))
        return self

    def begin(self, *words: str) -> Forked:
        """Start it."""
        environ = {**os.environ, "HOLDFAST_URL": self.url}
        with open(os.devnull) as nothing, self.output.open("w") as output:
            return fork_server().start(
                [str(self.file), *words],
                cwd=self.place,
                env=environ,
                stdin=nothing.fileno(),
                stdout=output.fileno(),
            )

    def __call__(self, *words: str) -> int:
        """Start it and wait for its end; its exit code."""
        process = self.begin(*words)
        try:
            return process.wait(DEADLINE_S)
        finally:
            process.kill()
            self.said = self.output.read_text()

    def resolve(self, *words: str) -> int:
        """Type ``holdfast resolve`` with these words; its exit code."""
        command = self.place / "resolve.py"
        command.write_text("from holdfast.cli import main\n\nmain()\n")
        with open(os.devnull, "r+") as nothing:
            process = fork_server().start(
                [str(command), "resolve", *words, "--store", self.url],
                cwd=self.place,
                env=os.environ,
                stdin=nothing.fileno(),
                stdout=nothing.fileno(),
            )
        try:
            return process.wait(DEADLINE_S)
        finally:
            process.kill()

    @property
    def world(self) -> list[str]:
        """What was done, in order."""
        file = self.place / "world.txt"
        return file.read_text().splitlines() if file.exists() else []

    def decide(self, how: str, run: str = "r") -> None:
        """Say what the only stopped call is."""
        (stopped,) = [one for one in self.store.stopped_calls(run) if one.pending is None]
        self.store.resolve(run, stopped.effects[0].id, how)  # type: ignore[arg-type]


@pytest.fixture
def script(tmp_path: Path, shared_url: str) -> Script:
    return Script(tmp_path, shared_url)


def test_a_read_before_it_is_renamed_and_a_type_changes(script: Script) -> None:
    """The recorded payment answers. Paid twice, without a message."""
    text = """
        with holdfast.run("r") as run:
            run.step("look", str, 1)
            print(run.once("pay", do, 1))
            {end}
    """
    script.write(text.format(end="die()"))()
    script.write(text.format(end="").replace('"look"', '"fetch"').replace("do, 1", "do, 1.0"))
    assert script() == 0
    assert script.said == "receipt for 1\n"
    assert script.world == ["1"]


@pytest.mark.parametrize("edited", [
    'run.once("charge", do, "Ada")',
    '(run.scope("bills").__enter__(), run.once("pay", do, "Ada"))[1]',
], ids=["renamed", "in a scope"])  # fmt: skip
def test_an_effect_under_another_identity(script: Script, edited: str) -> None:
    """The run stops, exits with 3 and names the recorded effect; ``same`` lets that answer. Made again, nothing reported."""
    text = """
        with holdfast.run("r") as run:
            print({call})
            {end}
    """
    script.write(text.format(call='run.once("pay", do, "Ada")', end="die()"))()
    script.write(text.format(call=edited, end=""))
    assert script() == PAUSED
    assert "pay(what='Ada')" in script.said
    script.decide("same")
    assert script() == 0
    assert script.said == "receipt for Ada\n"
    assert script.world == ["Ada"]


@pytest.mark.parametrize("child", ["run.child", "with"])
@pytest.mark.parametrize(("words", "world"), [
    (["d3@r/one", "--same"], ["Ada"]),
    (["d3@r/one", "--new"], ["Ada", "Ada"]),
    (["d3@r/one", "--abandon"], ["Ada", "Ada"]),
    (["--all", "--abandon"], ["Ada", "Ada"]),
    (["--same"], ["Ada"]),
], ids=" ".join)  # fmt: skip
def test_a_child_is_renamed(script: Script, child: str, words: list[str], world: list[str]) -> None:
    """The run stops and names the effect of the old child; the commands that it prints decide. Made again, nothing reported."""
    text = """
        @holdfast.agent("shop")
        def shop(run):
            print(run.once("pay", do, "Ada"))
            {end}

        with holdfast.run("r") as run:
            {call}
    """
    call = {
        "run.child": 'run.child("one", shop)',
        "with": 'with holdfast.run("one") as inner: shop.fn(inner)',
    }[child]
    script.write(text.format(call=call, end="die()"))()
    script.write(text.format(call=call.replace("one", "uno"), end=""))
    assert script() == PAUSED
    assert "d3@r/one" in script.said
    assert script.resolve("r/uno", *words) == 0
    assert script() == 0
    assert script.said.splitlines()[-1] == "receipt for Ada"
    assert script.world == world


def test_a_list_at_module_level_grows_at_the_front(script: Script) -> None:
    """Zoe is a question, and paid when she is called new. She got Ada's receipt, and Bob was paid twice."""
    text = """
        with holdfast.run("r") as run:
            for who in {people}:
                print(run.once("pay", lambda: do(who)))
            {end}
    """
    script.write(text.format(people=["Ada", "Bob"], end="die()"))()
    script.write(text.format(people=["Zoe", "Ada", "Bob"], end=""))
    assert script() == PAUSED
    script.decide("new")
    assert script() == 0
    assert script.said.split() == "receipt for Zoe receipt for Ada receipt for Bob".split()
    assert script.world == ["Ada", "Bob", "Zoe"]


CHILDREN = """
    with holdfast.run(sys.argv[1]) as run:
        for who in ["Ada", "Bob"]:
            with holdfast.run(who) as child:
                child.once("publish", do, who)
        {end}
"""


def test_a_run_whose_children_published_is_handed_over(script: Script) -> None:
    """The document carries their effects, and the taker's children publish nothing. It carried none, and all was published again."""
    script.write(CHILDREN.format(end="die()"))("giver")
    document = script.store.handoff("giver", to="taker", seal=True)
    script.store.accept(document, as_="taker")
    script.write(CHILDREN.format(end=""))
    assert script("taker") == 0, script.said
    assert script.world == ["Ada", "Bob"]


def test_a_run_with_children_is_forked_moved_and_erased(script: Script, tmp_path: Path) -> None:
    """Nothing is published again, and nothing is left behind. Children were not part of a fork, a move or an erase."""
    script.write(CHILDREN.format(end="die()"))("r")
    script.store.fork("r", as_="f")
    script.write(CHILDREN.format(end=""))
    assert script("f") == 0, script.said
    script.store.export("r", tmp_path / "r.tar", move=True)
    there = Script(tmp_path, f"sqlite:///{tmp_path / 'there.db'}")
    there.store.import_(tmp_path / "r.tar")
    assert there("r") == 0, there.said
    assert script.world == ["Ada", "Bob"]
    assert set(there.store.erase("r").children) == {"r/Ada", "r/Bob"}
    assert list(there.store.runs()) == []
    there.store.close()


def test_a_notebook_cell_is_run_twice(script: Script) -> None:
    """The same id is the same run, and another id is no child of it. It opened ``cell/cell`` and published twice."""
    script.write("""
        for _ in range(2):
            run = holdfast.run("cell").open()
            run.once("publish", do, "x")
        other = holdfast.run("other").open()
        other.close()
        run.close()
    """)
    assert script() == 0, script.said
    assert sorted(info.run for info in script.store.runs()) == ["cell", "other"]
    assert script.world == ["x"]


@pytest.mark.parametrize("call", ["run.finish(1)", 'run.step("pay", do, "x")'])
def test_a_call_without_await(script: Script, call: str) -> None:
    """The block refuses to finish and names the line. It was recorded as finished with null."""
    script.write(f"""
        async def main():
            async with holdfast.run("r") as run:
                {call}
        asyncio.run(main())
    """)
    assert script() == 1
    assert "NeverAwaited" in script.said
    assert "agent.py" in script.said
    assert script.store.get("r").status != "finished"


def test_a_step_changes_what_it_was_given(script: Script) -> None:
    """It is named, with what to do. A replay had silently another state."""
    script.write("""
        found = []
        with holdfast.run("r") as run:
            run.step("add", lambda to: to.append(1), found)
    """)
    assert script() == 0
    assert "'add'" in script.said
    assert "changes 'to', and a replay will not" in script.said


def test_a_script_is_started_from_another_directory(
    script: Script, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A new store is named, and so is the one near the script. It was made silently, and everything ran again."""
    script.write('with holdfast.run("r") as run:\n    run.once("pay", do, "x")\n')
    environ = {name: value for name, value in os.environ.items() if name != "HOLDFAST_URL"}
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    said = []
    for place in (script.place, elsewhere):
        command = [sys.executable, str(script.file)]
        done = subprocess.run(
            command, cwd=place, env=environ, capture_output=True, text=True, timeout=DEADLINE_S, check=True
        )
        said.append(done.stderr)
    assert str(script.place / ".holdfast") in said[0]
    assert str(elsewhere / ".holdfast") in said[1]
    assert str(script.place / ".holdfast") in said[1]


def test_a_parameter_with_a_default_is_added(script: Script) -> None:
    """It is the same call. It stopped, and the only way on paid again."""
    text = """
        {tool}
        with holdfast.run("r") as run:
            print(run.once("pay", pay, "Ada"))
            {end}
    """
    script.write(text.format(tool="def pay(who): return do(who)", end="die()"))()
    script.write(text.format(tool="def pay(who, urgent=False): return do(who)", end=""))
    assert script() == 0, script.said
    assert script.world == ["Ada"]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM")
def test_sigterm_inside_a_once_tool(script: Script) -> None:
    """The call ends and is recorded; nothing is in doubt. Every deploy needed a person."""
    script.write("""
        def slow(what):
            open("begun", "w").close()
            while not os.path.exists("terminated"):
                time.sleep(0.01)
            return do(what)
        with holdfast.run("r") as run:
            run.once("pay", slow, "x")
            time.sleep(30)
    """)
    process = script.begin()
    deadline = time.monotonic() + DEADLINE_S
    while not (script.place / "begun").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGTERM)
    (script.place / "terminated").touch()
    process.wait(DEADLINE_S)
    assert script.store.doubts("r") == []
    script.write('with holdfast.run("r") as run:\n    print(run.once("pay", do, "x"))\n')
    assert script() == 0, script.said
    assert script.world == ["x"]


@pytest.mark.parametrize("pause", [
    'run.ask("Really?", returns=bool)',
    "run.sleep(3600, wait_s=0)",
    'holdfast.tool(approve=True)(do)("x")',
], ids=["question", "sleep", "approval"])  # fmt: skip
def test_a_planned_pause(script: Script, pause: str) -> None:
    """Two or three lines, and exit code 3. It was a traceback of 25 lines and exit code 1."""
    script.write(f'with holdfast.run("r") as run:\n    {pause}\n')
    assert script() == PAUSED
    assert "Traceback" not in script.said
    assert 1 <= len(script.said.splitlines()) <= 5
    assert script.world == []


@pytest.mark.parametrize("way", ["tasks", "threads"])
def test_unchanged_workers_that_share_a_first_step(script: Script, way: str) -> None:
    """Killed anywhere and started again, nothing is stopped or doubled. It stopped with ``Diverged``, though nothing changed."""
    script.write("""
        from concurrent.futures import ThreadPoolExecutor
        from threading import Lock
        made = []

        def count(who):  # no effect is under way then, which would be in doubt
            made.append(who)
            if len(made) == int(sys.argv[2]):
                die()

        async def tasks():
            async with holdfast.run("r") as run:
                lock = asyncio.Lock()
                async def worker(who):
                    await run.step("login", str, "shared")
                    async with lock:
                        await run.once("pay", do, who)
                        count(who)
                await asyncio.gather(*(worker(who) for who in "abcd"))

        def threads():
            with holdfast.run("r") as run, ThreadPoolExecutor(2) as pool:
                lock = Lock()
                def worker(who):
                    run.step("login", str, "shared")
                    with lock:
                        run.once("pay", do, who)
                        count(who)
                list(pool.map(run.bind(worker), "abcd"))

        asyncio.run(tasks()) if sys.argv[1] == "tasks" else threads()
    """)
    for kill_after in (1, 2, 3):
        assert script(way, str(kill_after)) == -signal.SIGKILL, script.said
    assert script(way, "0") == 0, script.said
    assert sorted(script.world) == list("abcd")
