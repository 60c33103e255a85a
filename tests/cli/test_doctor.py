"""``holdfast doctor``: a checklist that is honest about the disk, the file and the dead."""

import json
import re
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import apsw
import pytest

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

    from holdfast.api.store.store import Store


@pytest.fixture(autouse=True)
def _on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the tests run, the store lies on an ordinary disk."""
    monkeypatch.setattr("holdfast.stores.sqlite.repair.doctor.filesystem_at", lambda path: "ext4")


def test_a_sound_store_is_a_list_of_oks(own_shop: "Shop") -> None:
    """Version, settings, disk, syncs, structure, every event, leases: each a line, exit code 0."""
    with holdfast.run("fine", store=own_shop.store) as run:
        run.step("a", lambda: 1)
    answer = own_shop("doctor")
    assert answer.code == 0
    assert measured(answer.out) == dedent("""\
        store  URL

        ok  sqlite              SQLite N through apsw N
        ok  settings (synced)   synchronous=N, journal_mode=wal, fullfsync=N, busy_timeout=N and N more as needed
        ok  settings (flushed)  synchronous=N, journal_mode=wal, fullfsync=N, busy_timeout=N and N more as needed
        ok  file system         ext4
        ok  free space          N MB free
        ok  sync                N ms for an fsync (median of N)
        ok  wal                 N MB, N pages of it not yet folded into the file
        ok  structure           every page and index is in order
        ok  events              every event is what was appended
        ok  runs                every run's row is what was written
        ok  records             every record is what was written
        ok  addresses           every address has the form of one
        ok  heads               no journal is shorter than what was acknowledged of it
        ok  leases              N runs held, none by a dead process
        ok  blobs               N of N read and hashed (N MB), and those that N of N runs refer to are there

        N ok, N warnings, N failures
        """)


def measured(text: str) -> str:
    """The text with every number replaced."""
    return re.sub(r"\b\d[\d.,]*\b", "N", text.replace("ext4", "EXT")).replace("EXT", "ext4")


def test_a_dead_holder_is_a_warning(shop: "Shop") -> None:
    """A run whose process is gone is no damage; the advice is to start it again."""
    answer = shop("doctor")
    assert answer.code == 0
    assert (
        "warning  leases              run nightly was held by process 4242 on host, which is dead; last sign of "
        "life 6 min 0 s ago (start its program again: it resumes at once)\n" in answer.out
    )
    assert answer.out.endswith("14 ok, 1 warning, 0 failures\n")


def test_a_flipped_bit_is_a_failure_with_exit_code_1(own_shop: "Shop") -> None:
    """Every damaged event is named; many alike are summed up for the eye and complete in JSON."""
    with holdfast.run("hurt", store=own_shop.store) as run:
        for number in range(12):
            run.step("a", abs, number)
    connection = apsw.Connection(str(own_shop.path))
    connection.set_busy_timeout(10_000)
    connection.execute("UPDATE events SET fence = fence + 1 WHERE seq <= 14")
    connection.close()
    answer = own_shop("doctor")
    assert answer.code == 1
    assert "failure  events              event 1 of run hurt fails its checksum\n" in answer.out
    assert (
        "failure  events              and 5 more like these; --json lists all (restore from a copy"
        in answer.out
    )
    assert answer.out.endswith("14 ok, 0 warnings, 15 failures\n")
    report = json.loads(own_shop("doctor", "--json").out)
    assert report["sound"] is False
    assert sum(finding["verdict"] == "failure" for finding in report["findings"]) == 15


@pytest.mark.parametrize("kind", ["tmpfs", "overlay"])
def test_storage_that_does_not_last_is_a_warning(
    own_shop: "Shop", kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory and a container's own layer keep SQLite's promises, but not for long: said plainly, exit code 0."""
    monkeypatch.setattr("holdfast.stores.sqlite.repair.doctor.filesystem_at", lambda path: kind)
    answer = own_shop("doctor")
    assert answer.code == 0
    assert re.search(
        rf"^warning  file system +{kind} .*: not durable storage \(keep the store on a disk",
        answer.out,
        re.MULTILINE,
    )


def test_a_network_file_system_is_refused(own_shop: "Shop", monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks and syncs over a network do not keep the promises: the store is not even opened."""
    own_shop.store.close()
    monkeypatch.setattr("holdfast.stores.sqlite.create.filesystem_at", lambda path: "nfs4")
    answer = own_shop("doctor")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "error: store STORE: it lies on a nfs4 file system\n"
        "hint: keep the file on a local disk, or use a server store\n"
    )


# -- conversations ----------------------------------------------------------------------------------------------

USER = {"role": "user", "content": "Look it up."}
ASKS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q":"debt"}'}}
    ],
}


def broken(store: "Store | str", run: str, *, restores: bool = True) -> None:
    """A run that somebody wrote who did not know the rules: a call without a result, in the middle; then it failed."""
    with pytest.raises(RuntimeError), holdfast.run(run, store=store) as handle:
        if restores:
            handle.restore()
        handle.messages.extend([USER, ASKS, USER])
        handle.step("find", lambda q: f"three books on {q}", "debt")
        handle.messages.append({"role": "tool", "tool_call_id": "c0", "content": "of nothing"})
        handle.checkpoint({"turn": 1})
        raise RuntimeError("enough")


def begun_with(store: "Store | str", run: str) -> list[object]:
    with pytest.raises(RuntimeError), holdfast.run(run, store=store) as handle:
        handle.restore()
        found = list(handle.messages)
        raise RuntimeError("enough")
    return found


MENDED = [USER, ASKS, {"role": "tool", "tool_call_id": "c1", "content": "three books on debt"}, USER]


def test_a_broken_conversation_is_a_warning_and_can_be_mended(own_shop: "Shop") -> None:
    """It names the run and the message; ``--fix`` adds one event, and the program begins with what a provider takes.

    Planted: the repair bound to its own event, which no restored program ever reached.
    """
    broken(own_shop.store, "talk")
    assert (
        "warning  conversations       run talk, message 1: call c1 (find) has no result and 1 more "
        "(`holdfast doctor --fix` repairs what can be repaired)\n" in own_shop("doctor").out
    )
    before = own_shop.store.events("talk")
    answer = own_shop("doctor", "--fix")
    assert answer.code == 0
    assert (
        "ok  conversations       run talk was repaired: message 1: call c1 (find) had no result: three books on debt; "
        "message 3: a result: call c0 is not in the conversation\n" in answer.out
    )
    events = own_shop.store.events("talk")
    assert events[: len(before)] == before
    assert [(event.kind, event.name) for event in events[len(before) :]] == [("mark", "messages mended")]
    assert "ok  conversations       1 conversation, all valid for providers\n" in own_shop("doctor").out
    assert own_shop("doctor", "--fix", "--json").out.count('"fixed": []') == 1
    assert begun_with(own_shop.store, "talk") == MENDED
    assert "messages mended" in own_shop("log", "talk").out


def test_what_was_imported_can_be_mended(own_shop: "Shop", tmp_path: Path) -> None:
    """A fork that nobody has entered yet is mended like any other run; its origin stays as it came."""
    broken(own_shop.store, "talk")
    file = str(tmp_path / "talk.holdfast")
    assert own_shop("export", "talk", "-o", file).code == 0
    assert own_shop("erase", "talk", "--yes").code == 0
    assert own_shop("import", file).code == 0
    report = json.loads(own_shop("doctor", "--fix", "--json").out)
    assert [one["run"] for one in report["fixed"]] == ["talk~1"]
    own = own_shop.store.events("talk~1", after_seq=own_shop.store.get("talk").head)
    assert [event.kind for event in own] == ["run.forked", "mark"]
    assert begun_with(own_shop.store, "talk~1") == MENDED
    assert json.loads(own_shop("doctor", "--fix", "--json").out)["fixed"] == []
    assert own_shop.store.ailments("talk")


def test_live_runs_are_left_to_their_holders(own_shop: "Shop") -> None:
    """One in the middle of a turn is no broken one, and whoever tries to mend it is refused."""
    with holdfast.run("talk", store=own_shop.store) as run:
        run.restore()
        run.messages.extend([USER, ASKS])
        run.checkpoint({})
        assert "conversations" not in own_shop("doctor", "--fix").out
        with pytest.raises(holdfast.RunHeld):
            own_shop.store.mend("talk")


def test_messages_that_nobody_understands_are_not_judged(own_shop: "Shop") -> None:
    """Whatever a program keeps in its conversation is its own affair, unless it is a conversation with a model."""
    with pytest.raises(RuntimeError), holdfast.run("notes", store=own_shop.store) as run:
        run.messages.extend(["one", {"n": 2}, ["three"]])
        raise RuntimeError
    assert "warning  conversations" not in own_shop("doctor").out


def test_what_cannot_be_mended_stays_a_warning(own_shop: "Shop") -> None:
    """A message that nobody can understand among others: the rest is mended, and it is named."""
    with pytest.raises(RuntimeError), holdfast.run("talk", store=own_shop.store) as run:
        run.restore()
        run.messages.extend([USER, ASKS, {"role": "wizard", "content": "!"}])
        run.checkpoint({})
        raise RuntimeError
    answer = own_shop("doctor", "--fix")
    assert "run talk, message 3: its role is 'wizard': it cannot be repaired" in answer.out
    assert own_shop.store.ailments("talk") == ["message 3: its role is 'wizard'"]


def test_a_program_that_replays_comes_to_the_mended_conversation(own_shop: "Shop") -> None:
    """From its top it says what it said, and from there on the conversation is the mended one; a later state has it too."""
    broken(own_shop.store, "talk", restores=False)
    assert len(json.loads(own_shop("doctor", "--fix", "--json").out)["fixed"]) == 1

    def replay(*, more: bool) -> list[object]:
        with pytest.raises(RuntimeError), holdfast.run("talk", store=own_shop.store) as handle:
            handle.messages.extend([USER, ASKS, USER])
            handle.step("find", lambda q: f"three books on {q}", "debt")
            assert len(handle.messages) == 3
            handle.messages.append({"role": "tool", "tool_call_id": "c0", "content": "of nothing"})
            found = list(handle.messages)
            handle.checkpoint({"turn": 1})
            if more:
                handle.messages.append(USER)
                handle.checkpoint({"turn": 2})
            raise RuntimeError
        return found

    assert replay(more=False) == MENDED
    assert replay(more=True) == MENDED
    assert begun_with(own_shop.store, "talk") == [*MENDED, USER]


def test_the_last_turn_of_a_program_that_replays_is_its_own(own_shop: "Shop") -> None:
    """It makes its calls anew, so their results are not put there for it."""
    with pytest.raises(RuntimeError), holdfast.run("talk", store=own_shop.store) as run:
        run.messages.extend([USER, ASKS])
        raise RuntimeError
    assert json.loads(own_shop("doctor", "--fix", "--json").out)["fixed"] == []
