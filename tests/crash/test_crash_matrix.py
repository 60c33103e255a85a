"""The kit itself, as a user has it: it strikes where it says, and a program that is not crash-proof does not pass."""

import importlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import holdfast
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.port import StorePort
from holdfast.testing.child_process import Start
from holdfast.testing.crash_matrix import Case, CrashMatrix, Kill, KillingStore, killing_store
from holdfast.testing.killing_store import UNCOUNTED, WHENS, When
from holdfast.testing.relay_store import Relay

STARTS: list[Start] = ["fork", "spawn"]


class Noting(Relay):
    """Notes which calls came through."""

    def __init__(self, port: StorePort, noted: list[str]) -> None:
        super().__init__(port)
        self._noted = noted

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self._noted.append(verb.__name__)
        return super().pass_on(verb, *args, **kwargs)


@pytest.fixture
def noted() -> Iterator[list[str]]:
    """What happened, in order; a strike with SIGUSR1 is noted instead of ending the process."""
    happened: list[str] = []

    def strike(signum: int, frame: FrameType | None) -> None:
        happened.append("strike")

    before = signal.signal(signal.SIGUSR1, strike)
    yield happened
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    ("when", "order"), [("before", ["strike", "find_run"]), ("after", ["find_run", "strike"])]
)
def test_strikes_at_the_chosen_call(noted: list[str], when: When, order: list[str]) -> None:
    """Calls count from 0; the strike falls before the chosen one, or when it is over."""
    store = KillingStore(Noting(MemoryStore("kit"), noted), at=1, when=when, signum=signal.SIGUSR1)
    store.list_runs(limit=1)
    store.find_run("nobody")
    store.probe("nobody")
    assert noted == ["list_runs", *order, "probe"]


def test_beats_do_not_count(noted: list[str]) -> None:
    """What the background thread does by the clock leaves the count alone, or the k-th call would be another each time."""
    store = KillingStore(Noting(MemoryStore("kit"), noted), at=1, signum=signal.SIGUSR1)
    store.find_run("nobody")
    store.renew({}, at=0.0)
    store.sync()
    store.note_call("nobody", b"a call", fence=1, after_seq=1)
    store.find_call_note("nobody")
    store.find_run("nobody")
    assert noted == ["find_run", "renew", "sync", "note_call", "find_call_note", "strike", "find_run"]
    assert {"renew", "sync", "note_call", "find_call_note"} == UNCOUNTED


def test_with_a_verb_only_its_calls_count(noted: list[str]) -> None:
    """``verb=`` names a place by what the program does there, however many other calls come before it."""
    store = KillingStore(Noting(MemoryStore("kit"), noted), at=1, verb="probe", signum=signal.SIGUSR1)
    store.probe("nobody")
    store.find_run("nobody")
    store.probe("nobody")
    assert noted == ["probe", "find_run", "strike", "probe"]
    assert str(Kill(1, verb="probe")) == "SIGKILL before probe 1"


def test_a_relay_has_every_verb() -> None:
    """Nothing of the port goes past the seam."""
    verbs = {name for name in vars(StorePort) if not name.startswith("_")}
    assert verbs <= set(vars(Relay))
    assert len(verbs) > 15


def test_works_with_the_plain_handle(tmp_path: Path) -> None:
    """``holdfast.Store`` takes any port, so a run works on a killing store without anything else."""
    handle = killing_store(tmp_path / "kit.db")
    with holdfast.run("run", store=handle) as run:
        assert run.step("one", lambda: 1) == 1
    assert handle.get("run").status == "finished"
    handle.close()


# -- children ---------------------------------------------------------------------------------------------------


def script(directory: Path, text: str) -> Path:
    path = directory / "script.py"
    path.write_text(text)
    return path


ENDS = {
    "print('hello')": 0,
    "import sys; sys.exit(5)": 5,
    "import sys; sys.exit('words')": 1,
    "raise ValueError('hello')": 1,
    "raise KeyboardInterrupt": -signal.SIGINT,
    "import os; os.kill(os.getpid(), 9)": -signal.SIGKILL,
    "import os; os.kill(os.getpid(), 15)": -signal.SIGTERM,
    "import sys; assert sys.modules['__main__'].__dict__ is globals()": 0,
    "import sys, pathlib; assert pathlib.Path(__file__).parent == pathlib.Path(sys.path[0])": 0,
    "import sys; assert sys.argv[1:] == ['an', 'argument']": 0,
    "import os, pathlib; assert os.environ['HOLDFAST_URL'].endswith(str(pathlib.Path('holdfast.db').absolute()))": 0,
}


@pytest.mark.parametrize("start", STARTS)
def test_children_end_as_scripts_do(crash_matrix: CrashMatrix, tmp_path: Path, start: Start) -> None:
    """Forked or spawned, a child is what ``python script.py`` would be: main module, arguments, exit code, output."""
    for text, code in ENDS.items():
        ended = crash_matrix.case(script(tmp_path, text), "an", "argument", start=start).run()
        assert ended.code == code, f"{text}: {ended}"
        if "hello" in text:
            assert "hello" in ended.output


@pytest.mark.parametrize("start", STARTS)
def test_a_child_that_hangs_is_ended(tmp_path: Path, start: Start) -> None:
    """Past its time a child is ended and told of; the next one is not disturbed."""
    with CrashMatrix(tmp_path / "matrix", timeout_s=2.0) as matrix:
        hanging = matrix.case(script(tmp_path, "import time; time.sleep(1000)"), start=start)
        with pytest.raises(TimeoutError, match=r"script\.py did not end within 2 s"):
            hanging.run()
        matrix._timeout_s = 600.0  # a busy machine may need more than 2 s to start a process
        assert matrix.case(script(tmp_path, "pass"), start=start).run().code == 0


AGENT = """
import holdfast
with holdfast.run("run") as run:
    run.finish(run.step("one", lambda: 1))
"""


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("when", WHENS)
def test_a_case_by_hand(crash_matrix: CrashMatrix, tmp_path: Path, start: Start, when: When) -> None:
    """One kill, one recovery: the verb that was struck, the number of calls, and the store to look into."""
    case = crash_matrix.case(script(tmp_path, AGENT), start=start)
    assert case.run(Kill(2, when)).code == -signal.SIGKILL
    assert (case.struck, case.calls) == ("acquire", 3)
    assert case.run().code == 0
    assert case.struck is None
    assert case.calls > 5
    assert case.store.get("run").status == "finished"
    case.close()


# -- what must not pass -----------------------------------------------------------------------------------------


def test_a_program_that_stays_in_doubt_does_not_pass(crash_matrix: CrashMatrix, tmp_path: Path) -> None:
    """A once effect without a verifier, and nobody to ask: the matrix says where it was killed and what it printed."""
    text = AGENT.replace("step", "once")
    with pytest.raises(
        AssertionError, match=r"(?s)SIGKILL .* port call .*did not recover, and settle= is.*StepInDoubt"
    ):
        crash_matrix.walk(script(tmp_path, text), start="fork")


def test_a_program_with_another_result_does_not_pass(crash_matrix: CrashMatrix, tmp_path: Path) -> None:
    """A result that tells how often the program was started is not the undisturbed one."""
    text = AGENT.replace("run.finish(", "run.finish(run.attempt + ")
    with pytest.raises(AssertionError, match="ended otherwise"):
        crash_matrix.walk(script(tmp_path, text), start="fork")
    assert crash_matrix.walk(script(tmp_path, text), start="fork", same_result=False).kills > 20


def test_a_program_that_repeats_its_effect_does_not_pass(crash_matrix: CrashMatrix, tmp_path: Path) -> None:
    """An effect declared as a mere read happens twice; the user's own check finds it, and is told the case."""
    text = AGENT.replace("lambda: 1", "lambda: open('ledger', 'a').write('x')")

    def check(case: Case) -> None:
        assert (case.directory / "ledger").read_text() == "x"

    with pytest.raises(AssertionError) as failed:
        crash_matrix.walk(script(tmp_path, text), start="fork", check=check)
    assert "the case: SIGKILL " in failed.value.__notes__[0]


def test_a_script_without_a_run_does_not_pass(crash_matrix: CrashMatrix, tmp_path: Path) -> None:
    """Nothing recorded, nothing proven."""
    with pytest.raises(AssertionError, match="left no run"):
        crash_matrix.walk(script(tmp_path, "pass"), start="fork")


def test_the_plugin_costs_nothing() -> None:
    """Pytest loads the plugin in every session where Holdfast is installed: it brings nothing heavy along."""
    code = (
        "import sys; import pytest; import holdfast.testing.pytest_plugin; "
        "print(sorted({'apsw', 'asyncio', 'multiprocessing', 'holdfast.testing.crash_matrix'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert printed.stdout.strip() == "[]"


BANK = """
import holdfast
from pathlib import Path

def is_paid(amount, idempotency_key):
    paid = Path("paid.txt").read_text() if Path("paid.txt").exists() else ""
    return holdfast.Done("ok") if idempotency_key in paid else holdfast.NotDone()

@holdfast.tool(effect="once", verify=is_paid, settle_s=0)
def pay(amount: int, *, idempotency_key: str = holdfast.KEY) -> str:
    with open("paid.txt", "a") as bank:
        bank.write(f"{idempotency_key} {amount}\\n")
    return "ok"

@holdfast.agent("payer")
def payer(order: str) -> str:
    return pay(len(order))
"""


def test_lines_with_idempotency_keys_are_counted(
    crash_matrix: CrashMatrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys of each case are others: its run is another one. Seen to fail: the first kill was told as an effect lost."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "payer_of_keys.py").write_text(BANK)
    payer = importlib.import_module("payer_of_keys").payer
    assert crash_matrix(payer, "order-1", effects="paid.txt", start="fork", every=3).kills > 3
