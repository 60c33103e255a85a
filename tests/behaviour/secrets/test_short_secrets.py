"""A secret that is a word, or a few digits: Holdfast's own words, hashes and keys stay what they are.

Seen to fail: a secret ``state`` made every checkpoint an AssertionError, and ``1234`` was masked in hashes, keys and
places of calls, which are then others.
"""

import re
from contextlib import suppress
from pathlib import Path

import pytest

import holdfast
from holdfast.codec import secrets

WORDS = (
    "read",
    "once",
    "done",
    "state",
    "step",
    "model",
    "text",
    "kind",
    "finished",
    "bool",
    "parked",
    "plan",
    "value",
)
CALLS: list[str] = []


def look(number: int) -> str:
    CALLS.append("look")
    return "x" * 100 * number


def pay(number: int) -> int:
    CALLS.append("pay")
    return number


def program(store: holdfast.Store, workspace: Path, run_id: str = "r") -> None:
    with holdfast.run(run_id, store=store, workspace=workspace) as run:
        for number in range(8):
            run.step("look", look, number)
            run.once("pay", pay, number)
            run.checkpoint({"k": [f"y{number}" * 5_000]})
        (workspace / "f.txt").write_text("k" * 1_000)
        run.artifact("f.txt")
        run.model("ask", lambda _: {"content": "x"}, {"messages": [{"role": "user", "content": "y"}]})
        "".join(run.stream("say", lambda _: iter(["a", "b"]), {"messages": []}))
        with suppress(ValueError):
            run.step("fail", lambda: int("x"))
        run.promise("report", to="Ada")
        run.ask("Go on?", returns=bool, wait_s=0)


@pytest.mark.parametrize(
    "values", [WORDS, [f"{n:02x}{255 - n:02x}" for n in range(256)]], ids=["words", "digits"]
)
def test_short_secrets_change_no_record_of_holdfast(
    no_secret: None, tmp_path: Path, values: list[str]
) -> None:
    """The run is replayed, exported, and entered by a process that does not know them."""
    for number, value in enumerate(values):
        holdfast.secret(value, name=f"pin{number}")
    store = holdfast.store(tmp_path / "s.db")
    (tmp_path / "w").mkdir()
    CALLS.clear()
    for _ in range(2):
        with suppress(holdfast.AwaitingAnswer):
            program(store, tmp_path / "w")
    assert CALLS == ["look", "pay"] * 8
    masked = [
        event
        for event in store.events("r")
        if re.search(rb"[0-9a-f]<secret|<secret pin\d+>[0-9a-f]", event.body)
    ]
    assert not [event for event in masked if event.kind.startswith(("premise", "artifact", "checkpoint"))]
    store.export("r", tmp_path / "r.holdfast")
    secrets._registered.clear()
    secrets._rebuild()
    other = holdfast.store(tmp_path / "o.db")
    other.import_(tmp_path / "r.holdfast")
    with suppress(holdfast.AwaitingAnswer, holdfast.SecretMissing):
        program(other, tmp_path / "w", "r~1")
    assert CALLS == ["look", "pay"] * 8


def test_a_few_digits_are_hidden_in_texts(no_secret: None, tmp_path: Path) -> None:
    """Wherever they are in what the program says."""
    holdfast.secret("1234", name="pin")
    with holdfast.run("r", store=tmp_path / "s.db") as run:
        run.think("the PIN is 1234, the hash 00ff1234aa55")
    (thought,) = (event for event in holdfast.store(tmp_path / "s.db").events("r") if event.name == "thought")
    assert b"the PIN is <secret pin>, the hash 00ff<secret pin>aa55" in thought.body
