"""``holdfast doctor --secrets``: where a store has secrets in clear, without showing them."""

import os
from pathlib import Path

import orjson
import pytest
from tests.support.known_secrets import NAME, places, port_of

import holdfast
from holdfast.codec import secrets
from holdfast.engine.run.store_session import know_secrets
from holdfast.model.markers import KNOWN

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7z" + "Qq77Rr88"


def test_secrets_that_were_recorded_before_they_were_known_are_found(no_secret: None, tmp_path: Path) -> None:
    """In events, in long contents, in facts and letters; each with its place, and none with its value."""
    store = holdfast.store(tmp_path / "s.db")
    with holdfast.run("r", store=store, goal="with late-Secret-42") as run:
        run.step("short", lambda: {"deep": ["Bearer late-Secret-42"]})
        run.step("long", lambda: ["late-Secret-42"] * 10_000)
        run.step("token", lambda: TOKEN)
        run.remember("the key is late-Secret-42")
    assert [one.verdict for one in store.examine_secrets()] == ["warning"]
    holdfast.secret("late-Secret-42", name="LATE")
    found = store.examine_secrets()
    told = "\n".join(one.text for one in found)
    assert "late-Secret-42" not in told
    assert TOKEN not in told
    for place in ("$.goal", "$.value.deep[0]", "content of event", "record facts"):
        assert any(place in one.text and "LATE" in one.text for one in found), (place, told)


def test_a_store_that_hid_its_secrets_has_none_in_clear(secret: str, tmp_path: Path) -> None:
    """References and masks are no findings."""
    store = holdfast.store(tmp_path / "s.db")
    with holdfast.run("r", store=store, goal=f"use {secret}") as run:
        run.step("a", str, secret)
        run.checkpoint({"k": secret})
    assert store.examine_secrets() == []


def test_a_new_token_is_kept_with_one_warning(
    secret: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A tool that makes a key returns it, in every replay; the log and what is shown mask it."""
    for _ in range(2):
        with pytest.raises(RuntimeError), holdfast.run("r", store=tmp_path / "s.db") as run:
            for _ in range(2):
                assert run.step(f"make {tmp_path.name}", lambda: TOKEN) == TOKEN
            raise RuntimeError
    assert sum("stored in clear" in line for line in caplog.messages) == 1
    assert TOKEN not in caplog.text
    assert TOKEN not in holdfast.store(tmp_path / "s.db").context("r").text


def test_a_new_token_is_refused_where_the_policy_says_so(
    secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is recorded as done, and the error says what to do; a known secret is no new token."""
    monkeypatch.setenv("HOLDFAST_SECRETS", "refuse")
    with pytest.raises(holdfast.NotStorable, match="ghp_"), holdfast.run("r", store=tmp_path / "s.db") as run:
        run.step("make", lambda: TOKEN)
    monkeypatch.setenv("NEW_TOKEN", TOKEN)
    with holdfast.run("r2", store=tmp_path / "s.db") as run:
        assert run.step("make", lambda: TOKEN) == TOKEN
    monkeypatch.setenv("HOLDFAST_SECRETS", "perhaps")
    with pytest.raises(holdfast.BadOption, match="perhaps"):
        holdfast.run("r3", store=tmp_path / "s.db").open()
    monkeypatch.delenv("HOLDFAST_SECRETS")
    secrets.know_environment()


class RefusedError(Exception):
    """What a client raises."""


def refused(key: str) -> None:
    error = RefusedError(f"401: {key}")
    error.headers = {"authorization": key}  # type: ignore[attr-defined]
    error.add_note(f"sent with {key}")
    raise error from OSError(5, key)


def test_an_unknown_key_in_a_text_is_masked(secret: str, tmp_path: Path) -> None:
    """A service repeats the key that it refuses: it is in no failure, thought, fact, goal or question.

    Seen to fail: in all of them.
    """

    def program() -> None:
        with holdfast.run("r", store=tmp_path / "s.db", goal=f"use {TOKEN}") as run:
            run.think(f"use {TOKEN}")
            run.plan([f"use {TOKEN}"])
            run.decide(f"use {TOKEN}", because=TOKEN)
            with pytest.raises(RefusedError) as failed:
                run.step("call", refused, holdfast.ephemeral(TOKEN))
            told.append(str(failed.value))
            run.remember(f"the key is {TOKEN}")
            run.ask(f"May I use {TOKEN}?", wait_s=0)

    told: list[str] = []
    for _ in range(2):
        with pytest.raises(holdfast.AwaitingAnswer):
            program()
    assert told == [f"401: {TOKEN}", "401: <secret ghp_…>"]
    assert places(TOKEN, tmp_path, store=port_of(holdfast.store(tmp_path / "s.db"))) == []


def test_an_encrypted_store_seals_a_new_token(
    secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is neither refused nor warned about: it is not in clear.

    Seen to fail: the log said that it is stored in clear, and ``refuse`` refused it.
    """
    monkeypatch.setenv("HOLDFAST_SECRETS", "refuse")
    store = holdfast.store(tmp_path / "s.db", key=bytes(range(32)))
    for _ in range(2):
        with pytest.raises(RuntimeError), holdfast.run("r", store=store) as run:
            assert run.step("make", lambda: TOKEN) == TOKEN
            raise RuntimeError
    assert "in clear" not in caplog.text
    assert places(TOKEN, tmp_path) == []
    monkeypatch.delenv("HOLDFAST_SECRETS")
    secrets.know_environment()


@pytest.mark.parametrize(
    ("name", "value"),
    [("PASSWORD", "postgres"), ("API_KEY_FILE", "aB3$efgh9X"), ("SSH_KEY", "/home/ada/.ssh/id"), ("TOKEN", "short1"),
     ("MY_SECRET_NAME", "aB3$efgh9X"), ("PWD", "/srv/aB3$9"), ("SECRET_KEY", "my-secret-name"), ("KEY", "1234567890")],
)  # fmt: skip
def test_words_paths_and_numbers_are_no_secrets(no_secret: None, name: str, value: str) -> None:
    """A false alarm would riddle every record with references."""
    secrets.know_environment({name: value})
    assert not KNOWN


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "github_token", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "TOKEN_2", "SMTP_PASS", "API_KEYS",
     "SECRET_KEY_BASE", "AUTH", "MYSQL_PWD", "GH_PAT", "GOOGLE_CREDENTIALS"],
)  # fmt: skip
def test_variables_of_credentials_are_secrets(
    no_secret: None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their names, whatever the case; unless they are named as no secret.

    Seen to fail: ``SMTP_PASS`` and ``API_KEYS`` were none; ``AUTH`` was one only beside another.
    """
    monkeypatch.setattr(os, "environ", {name: "aB3$efgh9X"})
    know_secrets()  # which looks at names first
    assert orjson.dumps("aB3$efgh9X")[1:-1] in KNOWN
    secrets.know_environment({name: "aB3$efgh9X", "HOLDFAST_NOT_SECRET": f"OTHER,{name}"})
    assert not KNOWN
    assert name != NAME
