"""What people, models and other programs see: masks, also of what an earlier version recorded in clear."""

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.known_secrets import NAME, places

import holdfast
from holdfast.cli.app import app
from holdfast.cli.relaunch import launch_of
from holdfast.codec.filled_secrets import filled
from holdfast.engine.journal import inbox
from holdfast.mcp.replies import refusal
from holdfast.model.event_fields import contents_of
from holdfast.model.secret_text import mask_of
from holdfast.model.store_rows import inbox_space

MASK = mask_of(NAME)


def last_attempt(store: holdfast.Store) -> dict[str, Any]:
    return contents_of([one for one in store.events("r") if one.kind == "attempt.started"][-1].body)


def test_a_command_line_is_masked_and_can_be_started_again(
    secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has the mask and the name; who starts the command again has the value."""
    script = tmp_path / "agent.py"
    script.touch()
    monkeypatch.setattr(sys, "orig_argv", ["python", str(script), f"--key={secret}", "--plain"])
    store = holdfast.store(tmp_path / "s.db")
    with pytest.raises(RuntimeError), holdfast.run("r", store=store):
        raise RuntimeError
    assert last_attempt(store)["argv"][2] == f"--key={MASK}"
    assert places(secret, tmp_path) == []
    launch = launch_of("r", last_attempt(store), {})
    assert launch.argv[2] == f"--key={MASK}"
    assert filled(launch.argv, launch.hidden)[1:] == (str(script), f"--key={secret}", "--plain")
    monkeypatch.delenv(NAME)
    holdfast.store(tmp_path / "s2.db")  # looks at the environment again
    with pytest.raises(holdfast.SecretMissing, match=NAME):
        filled(launch.argv, launch.hidden)


@pytest.mark.parametrize(
    "command",
    [["show", "r"], ["show", "r", "--all"], ["show", "r", "--json"], ["log", "r"], ["context", "r"],
     ["doctor", "--secrets"], ["runs"], ["search", "Bearer"]],
)  # fmt: skip
def test_commands_mask_what_was_recorded_in_clear(
    secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """A run of an earlier version, which kept secrets in clear, shows none of them. Nor do references of a later one."""
    store = holdfast.store(tmp_path / "s.db")
    monkeypatch.setenv("HOLDFAST_NOT_SECRET", NAME)
    with pytest.raises(RuntimeError), holdfast.run("r", store=store, goal=f"use {secret}") as run:
        run.step("clear", lambda: f"Bearer {secret}")
        raise RuntimeError
    monkeypatch.delenv("HOLDFAST_NOT_SECRET")
    with pytest.raises(RuntimeError), holdfast.run("r", store=store) as run:
        run.step("clear", lambda: f"Bearer {secret}")
        run.step("hidden", lambda: {"header": f"Bearer {secret}"})
        run.checkpoint({"key": secret})
        raise RuntimeError
    told = CliRunner().invoke(app, [*command, "--store", store.url])
    assert secret not in told.output
    assert not isinstance(told.exception, Exception), told.output


def test_errors_for_a_model_are_masked(secret: str) -> None:
    """An error that has a secret in it, as the MCP server answers it."""
    holdfast.secret(secret, name=NAME)
    answer = repr(refusal(holdfast.Misuse(problem=f"cannot use {secret}", advice=f"not {secret}")))
    assert secret not in answer
    assert "secret ACME_API_KEY" in answer


def test_the_log_masks_errors(secret: str, caplog: pytest.LogCaptureFixture) -> None:
    """Messages, arguments and tracebacks of our logger."""
    from holdfast.engine.log import log

    holdfast.secret(secret, name=NAME)
    try:
        raise ValueError(f"with {secret}")
    except ValueError:
        log().warning("failed with %s", secret, exc_info=True)
    assert secret not in caplog.text
    assert MASK in caplog.text


def test_the_inspector_masks(secret: str) -> None:
    """Every text in a page, and every answer of its API."""
    ui = pytest.importorskip("holdfast.ui.html")
    holdfast.secret(secret, name=NAME)
    page = ui.environment().from_string("<p>{{ text }}</p>").render(text=f"Bearer {secret}")
    assert secret not in page
    assert "secret ACME_API_KEY" in page


@pytest.mark.parametrize(
    "command", [["show", "r", "--all"], ["show", "r", "--json"], ["log", "r"], ["context", "r"]]
)
def test_commands_mask_what_looks_like_a_key(no_secret: None, tmp_path: Path, command: list[str]) -> None:
    """A key that a tool made is in no environment: it is stored, and never shown whole.

    Planted: shapes are not looked for where text is shown. No other test noticed.
    """
    made = "ghp_aB3dE6gH9jK2mN5pQ8sT1vW4xY7zQq77Rr88"
    store = holdfast.store(tmp_path / "s.db")
    with pytest.raises(RuntimeError), holdfast.run("r", store=store) as run:
        assert run.step("make a key", lambda: f"key {made}") == f"key {made}"
        raise RuntimeError(made)
    shown = CliRunner().invoke(app, [*command, "--store", str(tmp_path / "s.db")])
    assert shown.exit_code == 0, shown.output
    assert made not in shown.output


def test_a_letter_to_a_run_is_masked(secret: str, tmp_path: Path) -> None:
    """Whatever another process posts for the holder; also what its sender has not masked already.

    Planted: ``_written`` keeps it as it is. No other test noticed.
    """
    store = holdfast.store(tmp_path / "s.db")
    inbox.post(store._port, "r", "letter", {"kind": "outcome", "by": f"a person with {secret}"}, at=1.0)
    (record,) = store._port.scan_records(inbox_space("r"), limit=9)
    assert MASK in record.body.decode()
    assert places(secret, tmp_path) == []
