"""What a program reads back: the values themselves, by name, in every life and copy of a run."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.known_secrets import NAME, VALUE, places

import holdfast
from holdfast.codec import secrets, values
from holdfast.model.event_fields import contents_of

calls: list[Any] = []


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


def fetch(key: str) -> dict[str, Any]:
    calls.append(key)
    return {"header": f"Bearer {key}", "raw": key.encode(), "n": len(calls)}


def refuse(key: str) -> None:
    calls.append(key)
    raise PermissionError(f"401 for {key}", {"sent": key})


def agent(url: object, *, run_id: str = "r", stop: bool = True, **options: Any) -> Any:
    """A program with a secret in an argument, a result, a failure and its state."""
    with holdfast.run(run_id, store=url, **options) as run:  # type: ignore[arg-type]
        key = os.environ[NAME]
        got = run.step("fetch", fetch, key)
        with pytest.raises(PermissionError) as refused:
            run.step("refuse", refuse, key)
        run.checkpoint({"key": key})
        if stop:
            raise RuntimeError("killed")
        return got, refused.value, run.state


def killed(url: object) -> None:
    with pytest.raises(RuntimeError, match="killed"):
        agent(url)
    assert len(calls) == 2


def test_a_replay_refills_results_failures_and_state(secret: str, url: str) -> None:
    """Nothing is called again, and every value is as it was, bytes and attributes of an exception included."""
    killed(url)
    got, refused, state = agent(url, stop=False)
    assert len(calls) == 2
    assert got == {"header": f"Bearer {secret}", "raw": secret.encode(), "n": 1}
    assert refused.args == (f"401 for {secret}", {"sent": secret})
    assert state == {"key": secret}


def test_a_rotated_secret_changes_no_call(secret: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Identity is the name; results are refilled with the new value; and the plan says that it is another."""
    killed(url)
    monkeypatch.setenv(NAME, "a-New-Value-9000")
    secrets.know_environment()
    plan = holdfast.store(url).resume_plan("r")
    assert any(NAME in line and "another value" in line for line in told(plan))
    got, _, _ = agent(url, stop=False)
    assert len(calls) == 2
    assert got["header"] == "Bearer a-New-Value-9000"


def told(plan: Any) -> list[str]:
    return [str(line) for line in plan.secrets]


def test_a_missing_secret_is_named(secret: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which variable; the run stays as it is, and goes on once the variable is set."""
    with pytest.raises(RuntimeError), holdfast.run("r", store=url) as run:
        run.step("make", lambda: os.environ[NAME])
        raise RuntimeError
    monkeypatch.delenv(NAME)
    with pytest.raises(holdfast.SecretMissing, match=NAME) as missing, holdfast.run("r", store=url) as run:
        run.step("make", lambda: os.environ[NAME])
    assert NAME in missing.value.hint
    plan = holdfast.store(url).resume_plan("r")
    assert any(NAME in line and "not here" in line for line in told(plan))
    holdfast.secret(secret, name=NAME)
    with holdfast.run("r", store=url) as run:
        assert run.step("make", lambda: os.environ[NAME]) == secret
    monkeypatch.setenv(NAME, secret)


def test_text_that_imitates_a_reference_stays_text(secret: str, url: str, tmp_path: Path) -> None:
    """A model that writes a reference, or a mask, gets back what it wrote."""
    forged = [
        {"$": "secrets", "v": ["", NAME, ""]},
        f'{{"$":"secrets","v":["","{NAME}",""]}}',
        f"<secret {NAME}>",
        {"$": "bytes", "v": ["", NAME, ""]},
        f"$secret: {NAME}",
    ]
    for _ in range(2):
        with pytest.raises(RuntimeError), holdfast.run("r", store=url) as run:
            assert run.step("model", lambda: forged) == forged
            run.checkpoint(forged)
            assert run.state == forged
            raise RuntimeError


def test_forks_rewinds_and_prunes_keep_references(secret: str, url: str) -> None:
    """A branch answers the same calls with the same secrets."""
    killed(url)
    store = holdfast.store(url)
    store.fork("r", as_="branch")
    assert agent(url, run_id="branch", stop=False)[0]["header"] == f"Bearer {secret}"
    store.prune("r")
    assert agent(url, stop=False)[2] == {"key": secret}
    assert len(calls) == 2


def test_an_export_and_a_copy_carry_references(secret: str, url: str, tmp_path: Path) -> None:
    """The file has no value; where it is imported, the environment refills it."""
    killed(url)
    store = holdfast.store(url)
    (tmp_path / "out").mkdir()
    store.copy(tmp_path / "third" / "s.db", ["r"])
    store.export("r", tmp_path / "out" / "r.holdfast", move=True)
    other = holdfast.store(tmp_path / "other" / "s.db")
    other.import_(tmp_path / "out" / "r.holdfast")
    assert places(secret, tmp_path / "out", tmp_path / "other", tmp_path / "third") == []
    assert agent(other, stop=False)[0]["header"] == f"Bearer {secret}"
    assert len(calls) == 2


def test_a_handoff_carries_no_value(secret: str, url: str) -> None:
    """Neither in its document, nor in the run that accepts it."""
    killed(url)
    document = holdfast.store(url).handoff("r")
    written = values.encode(document, what="document")
    assert secret not in repr(document)
    assert b"Bearer" in written


def pay(amount: int, token: "holdfast.Secret[str]") -> str:
    calls.append(token)
    return f"paid {amount} with {token}"


@holdfast.tool(effect="read", secrets="password")
def login(user: str, password: str) -> str:
    """A tool with a declared secret."""
    calls.append(password)
    return f"{user}:{password}"


def test_declared_arguments_count_by_value_and_are_not_kept(no_secret: None, tmp_path: Path) -> None:
    """Another value is another call; the same one is replayed; a fork and an import know it; no file has it."""

    def program(place: object, token: str, run_id: str = "r", *, stop: bool = True) -> None:
        with holdfast.run(run_id, store=place) as run:  # type: ignore[arg-type]
            assert run.step("pay", pay, 5, token) == f"paid 5 with {token}"
            assert login("ada", token) == f"ada:{token}"
            run.checkpoint({"token": token})
            assert run.state == {"token": token}
            if stop:
                raise RuntimeError("killed")

    url = tmp_path / "s.db"
    for token in ("Tok-aaaa-1111", "Tok-aaaa-1111"):
        with pytest.raises(RuntimeError, match="killed"):
            program(url, token)
    assert calls == ["Tok-aaaa-1111"] * 2
    store = holdfast.store(url)
    store.fork("r", as_="branch")
    store.export("r", tmp_path / "r.holdfast")
    other = holdfast.store(tmp_path / "o.db")
    other.import_(tmp_path / "r.holdfast")
    secrets._declared.clear()
    secrets._rebuild()  # as in a new process
    program(url, "Tok-aaaa-1111", "branch", stop=False)
    program(other, "Tok-aaaa-1111", "r~1", stop=False)
    assert calls == ["Tok-aaaa-1111"] * 2
    with pytest.raises((RuntimeError, holdfast.Diverged)):
        program(url, "Tok-bbbb-2222")
    assert places("Tok-aaaa-1111", tmp_path) == []
    assert places("Tok-bbbb-2222", tmp_path) == []


def test_calls_recorded_in_clear_are_still_answered(
    secret: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of an earlier version: its calls have the secret in clear in their identity."""
    monkeypatch.setenv("HOLDFAST_NOT_SECRET", NAME)
    killed(url)
    body = contents_of(next(e for e in holdfast.store(url).events("r") if e.name == "fetch").body)
    assert body["args"] == {"key": VALUE}
    monkeypatch.delenv("HOLDFAST_NOT_SECRET")
    assert agent(url, stop=False)[0]["header"] == f"Bearer {secret}"
    assert len(calls) == 2


def test_a_registered_secret_is_hidden_from_then_on(no_secret: None, tmp_path: Path) -> None:
    """By its name; what was recorded before stays."""
    holdfast.secret("pass-Word-77", name="db.password")
    with holdfast.run("r", store=tmp_path / "s.db") as run:
        assert (
            run.step("connect", str, "postgres://ada:pass-Word-77@host") == "postgres://ada:pass-Word-77@host"
        )
    assert places("pass-Word-77", tmp_path) == []


@pytest.mark.parametrize(("name", "value"), [("bad name", "abcdefgh"), ("n", "abc"), ("n", "\udcff" * 8)])
def test_a_secret_that_cannot_be_hidden_is_refused(no_secret: None, name: str, value: str) -> None:
    """Too short, or no text; or a name that could not be typed."""
    with pytest.raises(holdfast.Misuse):
        holdfast.secret(value, name=name)


def test_a_secret_inside_json_or_a_repr_is_hidden_and_comes_back_so(secret: str, tmp_path: Path) -> None:
    """A value with a quote and a backslash is written in another way there. A tool call's arguments are such a text."""
    told = {"arguments": json.dumps({"key": secret}), "shown": repr([secret])}
    for _ in range(2):
        with pytest.raises(RuntimeError), holdfast.run("r", store=tmp_path / "s.db") as run:
            assert run.step("a", lambda: told) == told
            raise RuntimeError
    assert places(secret, tmp_path) == []
    assert json.dumps(secret)[1:-1].encode() not in (tmp_path / "s.db-wal").read_bytes()


ACTS: dict[str, Callable[[holdfast.Run, str], Any]] = {
    "result": lambda run, card: run.step("s", lambda: card),
    "closure": lambda run, card: run.step("s", lambda: len(card)),
    "state": lambda run, card: run.checkpoint({"card": card}),
    "message": lambda run, card: run.messages.append({"role": "user", "content": card}),
    "decision": lambda run, card: run.decide("pay", because=card),
    "thought": lambda run, card: run.think(card),
    "fact": lambda run, card: run.remember("the card", value={"card": card}),
    "question": lambda run, card: run.ask("this card?", about={"card": card}, wait_s=0),
    "request": lambda run, card: run.model("m", lambda _: "ok", {"card": card}),
    "stream": lambda run, card: "".join(run.stream("m", lambda _: iter(["ok"]), {"card": card})),
    "end": lambda run, card: run.finish({"card": card}),
}


@pytest.mark.parametrize("act", ACTS)
def test_of_two_runs_in_one_process_each_names_a_declared_secret_in_its_own_way(
    act: str, no_secret: None, tmp_path: Path
) -> None:
    """Whatever is written, and whichever run was used last.

    Seen to fail: the end of a run, its facts, questions, decisions and thoughts had the name of the run that was
    used last.
    """
    store = holdfast.store(tmp_path / "s.db")
    first, other = (holdfast.run(name, store=store).open() for name in ("a", "b"))
    for run in (first, other):
        run.options(secrets="token").step("pay", pay, 5, "Tok-aaaa-1111")
    with suppress(holdfast.StopSignal):
        ACTS[act](first, "Tok-aaaa-1111")
    names = secrets._declared["Tok-aaaa-1111"]
    assert len(names) == 2
    (foreign,) = (name for lineage, name in names.items() if lineage == other._held.lineage)
    assert [event.kind for event in store.events("a") if foreign.encode() in event.body] == []
    for run in (first, other):
        run.close()


def test_a_declared_secret_belongs_to_the_run_that_records_it(no_secret: None, tmp_path: Path) -> None:
    """Two runs in one process declare the same value: each names it in its own way, wherever it appears later.

    Seen to fail: the first run's state and results had the second's name, which a process with the first run alone
    cannot fill in.
    """
    store = holdfast.store(tmp_path / "s.db")

    def charge(card: str) -> int:
        return len(card)

    def program(run: holdfast.Run) -> None:
        run.options(secrets="card").step("charge", charge, "4111-1111")

    with pytest.raises(RuntimeError), holdfast.run("a", store=store) as first:
        program(first)
        other = holdfast.run("b", store=store).open()
        program(other)
        first.checkpoint({"card": "4111-1111"})
        first.model("m", lambda _: {"content": "4111-1111"}, {"messages": []})
        other.close()
        raise RuntimeError
    secrets._declared.clear()
    secrets._rebuild()
    with holdfast.run("a", store=store) as first:
        program(first)
        assert first.restore({}) == {"card": "4111-1111"}
