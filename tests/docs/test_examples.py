"""The programs in ``examples/`` run offline as they stand, and one of them survives a real ``kill -9``."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.model_server import ProviderProcess, Reply, ToolCall, faults
from tests.support.receiver import receiving

EXAMPLES = Path(__file__).parents[2] / "examples"
RAY = Path(__file__).parents[1] / "long" / "ray" / "test_ray.py"
"""What needs Ray is tested in an environment of its own."""
KILLED = Path(__file__).with_name("test_killed_examples.py")
DEADLINE_S = 60.0
SHARED = {"desk", "anthropic_desk"}
"""Not programs: what those of examples/frameworks share."""


def run_example(name: str, cwd: Path, *arguments: str, expect: int = 0) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def environment() -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return mine | {"PACE_S": "0.3"}


def test_every_example_is_tested_here() -> None:
    """A program that is added to examples/ and not run by a test is a program that rots."""
    on_frameworks = (Path(__file__).parents[1] / "adapters").glob("*/test_example.py")
    here = "".join(path.read_text() for path in (Path(__file__), KILLED, RAY, *on_frameworks))
    untested = [
        path.name
        for path in EXAMPLES.rglob("*.py")
        if f'"{path.name}"' not in here and path.stem not in SHARED
    ]
    assert not untested


def test_the_crash_matrix_tells_a_naive_payment_from_a_careful_one(tmp_path: Path) -> None:
    """Both tests of the example pass: one agent pays once wherever it is killed, the matrix catches the other."""
    told = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(EXAMPLES / "test_payments.py"),
    ]
    done = subprocess.run(told, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_survive_goes_on_after_sigkill(tmp_path: Path) -> None:
    """Killed after its third look, it looks at the rest and never again at what it had finished.

    Planted: with HeldRun.next_outcome answering None, every finished look is repeated, and this fails.
    """
    undisturbed = run_example("survive.py", tmp_path_of(tmp_path, "undisturbed")).stdout.splitlines()
    looks = [line for line in undisturbed if line.startswith("looking")]
    assert len(looks) == 6

    place = tmp_path_of(tmp_path, "killed")
    seen = kill_after_looks(place, 3)
    assert len(seen) < len(looks), "it was killed too late to prove anything"
    after = run_example("survive.py", place).stdout.splitlines()
    again = [line for line in after if line.startswith("looking")]
    assert (
        seen[:-1] + again == looks or seen + again == looks
    )  # the last look before the kill was cut off, or not
    assert after[-1] == undisturbed[-1].replace("1 attempt(s)", "2 attempt(s)")


def tmp_path_of(tmp_path: Path, name: str) -> Path:
    made = tmp_path / name
    made.mkdir()
    return made


def kill_after_looks(place: Path, count: int) -> list[str]:
    """Start survive.py, kill it with SIGKILL in the middle of its look number ``count``; what it printed."""
    output = place / "output"
    with (
        output.open("wb") as file,
        subprocess.Popen(
            [sys.executable, str(EXAMPLES / "survive.py")], cwd=place, stdout=file, env=environment()
        ) as child,
    ):
        deadline = time.monotonic() + DEADLINE_S
        while output.read_text().count("looking") < count:
            assert child.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.01)
        child.kill()
    assert child.returncode == -9
    return output.read_text().splitlines()


def test_survive_answers_from_the_journal_once_it_is_finished(tmp_path: Path) -> None:
    """Run a third time, it looks at nothing and says the same."""
    first = run_example("survive.py", tmp_path).stdout.splitlines()
    assert run_example("survive.py", tmp_path).stdout.splitlines() == first[-1:]


def test_async_agent_asks_each_question_once(tmp_path: Path) -> None:
    """Three questions side by side; the second time they are answered from the journal."""
    first = run_example("async_agent.py", tmp_path).stdout.splitlines()
    assert sum(line.startswith("asking:") for line in first) == 3
    second = run_example("async_agent.py", tmp_path).stdout.splitlines()
    assert second == [line for line in first if not line.startswith("asking:")]


def test_tools_books_each_payment_once(tmp_path: Path) -> None:
    """One effect in doubt is settled by verify, the other by a person; neither happens twice."""
    said = run_example("tools.py", tmp_path).stdout
    assert "the run is in_doubt" in said
    assert "in doubt: pay_in_cash raised ConnectionError: the line broke" in said
    assert "the run is finished" in said
    assert "the bank has booked 2 payments" in said
    assert len((tmp_path / "bank.jsonl").read_text().splitlines()) == 2


def test_the_night_shift_pays_nothing_twice(tmp_path: Path) -> None:
    """Two programs, two stores: one payment answered, one found at the bank, one made; the promise is kept."""
    assert "the day shift is in_doubt, and hands over" in run_example("handoff_giver.py", tmp_path).stdout
    said = run_example("handoff_taker.py", tmp_path).stdout.splitlines()
    assert said == [
        said[0],
        "receipt of rent",
        "receipt of baker, found at the bank",
        "receipt of gas",
        "kept: tell the baker when it is paid",
        "the bank has booked 3 payments",
    ]
    assert said[0].startswith("not carried over: promise day:")


@pytest.mark.parametrize("inputs", ['{"ledger": "march", "pages": 3}'])
def test_agent_entry_has_a_command_line(tmp_path: Path, inputs: str) -> None:
    """The same id and inputs give the recorded result; other inputs are refused, bad JSON is misuse."""
    first = run_example("agent_entry.py", tmp_path, "books", "--inputs", inputs)
    assert first.stdout == "march: 1506\n"
    assert run_example("agent_entry.py", tmp_path, "books", "--inputs", inputs).stdout == first.stdout
    other = run_example("agent_entry.py", tmp_path, "books", "--inputs", '{"ledger": "april"}', expect=1)
    assert "error:" in other.stderr
    assert "hint:" in other.stderr
    run_example("agent_entry.py", tmp_path, "books", "--inputs", "{", expect=2)


def test_the_chat_loop_pays_once_whenever_it_is_killed(tmp_path: Path) -> None:
    """Killed while the model answers after the payment: what it had said is not asked for again, and nobody is paid twice."""
    said = [
        Reply(text="", calls=(ToolCall("look_up", '{"name": "Ada"}'),)),
        Reply(text="", calls=(ToolCall("pay", '{"name": "Ada", "amount": 5}'),)),
        Reply(text="Ada is paid.", fault=faults.stall(60)),
        Reply(text="Ada is paid."),
    ]
    with ProviderProcess(tmp_path, replies=said) as provider:
        given = {**environment(), "OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "none"}
        program = [sys.executable, str(EXAMPLES / "chat_loop.py")]
        with subprocess.Popen(program, cwd=tmp_path, env=given) as process:
            deadline = time.monotonic() + DEADLINE_S
            while len(provider.exchanges) < 3 and time.monotonic() < deadline:
                time.sleep(0.02)
            process.kill()
        done = subprocess.run(
            program, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        assert (done.returncode, done.stdout) == (0, "Ada is paid.\n"), done.stderr
        assert (tmp_path / "ledger.txt").read_text() == "Ada 5\n"
        assert len([one for one in provider.exchanges if one.path.endswith("/chat/completions")]) == 4


def test_a_hook_function_is_called(tmp_path: Path) -> None:
    """First with the question and the command that answers it, then with the end."""
    asked = run_example("hook_function.py", tmp_path).stdout.splitlines()
    assert asked == [
        "[needs-person] run payments asks: Pay 5 euro? (yes or no)",
        "  holdfast answer payments q1 yes",
    ]
    answer = [str(Path(sys.executable).parent / "holdfast"), "answer", "payments", "q1", "yes"]
    subprocess.run(answer, cwd=tmp_path, env=environment(), check=True, stdout=subprocess.DEVNULL)
    assert run_example("hook_function.py", tmp_path).stdout.splitlines() == [
        "paid 5",
        "[finished] run payments is finished",
    ]


def agent_that_asks(place: Path) -> None:
    """A run in that directory's store that waits for an approval."""
    program = place / "agent.py"
    program.write_text(
        "import holdfast\n"
        "with holdfast.run('deploy', stops='suppress') as run:\n"
        "    run.ask('Deploy to production?', returns=bool, about={'build': 7})\n"
    )
    subprocess.run(
        [sys.executable, str(program)], cwd=place, env=environment(), check=True, timeout=DEADLINE_S
    )


def holdfast_command(place: Path, *words: str, **more: str) -> str:
    """A command line in that directory; what it printed."""
    line = [str(Path(sys.executable).parent / "holdfast"), *words]
    done = subprocess.run(
        line,
        cwd=place,
        env=environment() | more,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_notice_becomes_a_mail(tmp_path: Path) -> None:
    """The mail has the question and the command that answers it."""
    words = [sys.executable, str(EXAMPLES / "hook_mail.py"), str(tmp_path / "outbox")]
    line = " ".join(words)
    holdfast_command(tmp_path, "hooks", "add", "--command", line, "--on", "needs-person")
    agent_that_asks(tmp_path)
    holdfast_command(tmp_path, "hooks", "deliver")  # if the machine was too busy for its process
    (mail,) = (tmp_path / "outbox").glob("*.eml")
    text = mail.read_text()
    assert "Subject: [needs-person] deploy" in text
    assert "Deploy to production? (yes or no)" in text
    assert "holdfast answer deploy q1 yes" in text


def test_a_notice_reaches_a_channel(tmp_path: Path) -> None:
    """A signed webhook, a receiver that checks it, and a fake of Slack: one message, with the command to type."""
    with receiving() as slack:
        secret = {"HOOK_SECRET": "a long random text", "SLACK_URL": slack.url}
        with subprocess.Popen(
            [sys.executable, str(EXAMPLES / "hook_receiver.py")],
            env=environment() | secret,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            holdfast_command(tmp_path, "hooks", "add", address, "--secret-env", "HOOK_SECRET")
            agent_that_asks(tmp_path)  # its process has no secret: it sends nothing, and leaves it
            assert slack.requests == []
            said = holdfast_command(tmp_path, "hooks", "deliver", **secret)
            assert said == "1 notice delivered\n"
            process.kill()
        (message,) = slack.requests
        assert message.notice["text"].startswith("run deploy asks: Deploy to production? (yes or no)")
        assert "holdfast answer deploy q1 yes" in message.notice["text"]
