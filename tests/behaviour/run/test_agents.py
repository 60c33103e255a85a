"""Functions as entry points: inputs, results without entering the body, the command line and its exit codes."""

import asyncio
import sys
from pathlib import Path

import pytest
from tests.support import forked

import holdfast

entered: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    entered.clear()


@holdfast.agent("auditor")
def audit(run: holdfast.Run, company: str, year: int = 2026) -> str:
    entered.append(company)
    return run.step("read", str.upper, f"{company} {year}")


@holdfast.agent("plain")
def plain(company: str) -> str:
    entered.append(holdfast.current().id)
    return company


@holdfast.agent("async")
async def audit_async(run: holdfast.AsyncRun, company: str) -> str:
    entered.append(company)
    return await run.step("read", str.upper, company)


def test_arguments_are_the_inputs_and_the_result_is_kept(url: str) -> None:
    """A finished run's result comes back without entering the body."""
    assert audit.run("acme", "acme", store=url) == "ACME 2026"
    assert audit.run("acme", company="acme", year=2026, store=url) == "ACME 2026"
    assert entered == ["acme"]


def test_other_arguments_under_the_same_id_are_refused(url: str) -> None:
    """The arguments are the run's inputs; others are another run."""
    audit.run("acme", company="acme", store=url)
    with pytest.raises(holdfast.InputsChanged, match="year"):
        audit.run("acme", company="acme", year=2025, store=url)


def test_wrong_arguments_are_refused_before_anything_is_written(url: str) -> None:
    """A missing input names the agent and what it takes."""
    with pytest.raises(holdfast.Misuse, match="auditor"):
        audit.run("acme", store=url)
    assert holdfast.store(url).runs() == []


def test_an_agent_without_a_run_parameter_finds_it(url: str) -> None:
    """``holdfast.current()`` is the run inside an agent, too."""
    assert plain.run("acme", "x", store=url) == "x"
    assert entered == ["acme"]


def test_called_directly_it_is_the_plain_function(url: str) -> None:
    """The decorator does not get in the way of tests and other callers."""
    with holdfast.run("a", store=url) as run:
        assert audit(run, "acme") == "ACME 2026"


def test_async_agents_are_awaited(url: str) -> None:
    """An ``async def`` agent works the same, awaited."""

    async def main() -> list[str]:
        return [await audit_async.run("a", "acme", store=url), await audit_async.run("a", "acme", store=url)]

    assert asyncio.run(main()) == ["ACME", "ACME"]
    assert entered == ["acme"]


def test_submit_queues_and_run_takes_it_from_there(url: str) -> None:
    """A submitted run is written down with its inputs, and starts when somebody runs it."""
    assert audit.submit("acme", company="acme", store=url)
    assert not audit.submit("acme", company="acme", store=url)
    assert holdfast.store(url).get("acme").status == "queued"
    with pytest.raises(holdfast.InputsChanged):
        audit.submit("acme", company="other", store=url)
    assert entered == []
    assert audit.run("acme", company="acme", store=url) == "ACME 2026"
    assert entered == ["acme"]


SCRIPT = """
import holdfast

@holdfast.agent("payer")
def pay(run: holdfast.Run, to: str = "ada", cut: bool = False) -> str:
    \"\"\"Pays somebody.\"\"\"
    def act() -> str:
        if cut:
            raise ConnectionError("cut")
        return f"paid {to}"
    return run.options(ignore="cut").once("pay", act)

if __name__ == "__main__":
    pay.main()
"""


@pytest.mark.slow
def test_main_gives_a_command_line_with_exit_codes(tmp_path: Path) -> None:
    """0 done, 1 refused, 2 misuse, 3 in doubt; errors as ``error:`` and ``hint:`` on stderr, without a traceback."""
    script = tmp_path / "payer.py"
    script.write_text(SCRIPT, encoding="utf-8")

    def call(*args: str) -> tuple[int, str, str]:
        done = forked.run(
            [sys.executable, str(script), *args, "--store", str(tmp_path / "s.db")],
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout, done.stderr

    assert call("one") == (0, "paid ada\n", "")
    code, _, errors = call("one", "--inputs", '{"to": "bob"}')
    assert code == 1
    assert errors.startswith("error: run one was started with other inputs")
    code, _, errors = call("two", "--inputs", '{"cut": true}')
    assert code == 3
    settle, go_on = errors.splitlines()[1:]
    assert settle.startswith("  settle it: ")
    assert " resolve two --store sqlite:///" in settle
    assert go_on.endswith(f"two --inputs '{{\"cut\": true}}' --store {tmp_path}/s.db")
    assert "Traceback" not in errors
    assert call("x", "--inputs", "{")[0] == 2
    assert call("x", "--inputs", '{"nothere": 1}')[0] == 2
    assert call("bad@name")[0] == 2
    assert "Pays somebody." in call("--help")[1]
