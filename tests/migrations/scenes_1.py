"""What each process did that wrote the golden stores of format 1; ran on the code of format 1, and never again.

``write_everything.py`` runs each scene in a process of its own: those that end with a kill leave runs in the middle.
"""

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.migrations.programs_1 import (
    Unfinished,
    asking,
    bounded,
    child_agent,
    circling,
    diary,
    die,
    doubtful,
    drifting,
    failures,
    files,
    forked,
    friend,
    giver,
    hollowed,
    killed,
    looping,
    mailbox,
    modelling,
    napper,
    ours,
    parent_agent,
    raised,
    rememberer,
    sleeper,
    square,
    steps,
    taker,
    talk,
    upper,
    values,
    wrapped,
)
from tests.migrations.values_1 import VALUES

import holdfast
from holdfast import Keep, Retention

SCENES: list[tuple[str, Callable[[str], None], int]] = []


def scene(code: int = 0) -> Callable[[Callable[[str], None]], Callable[[str], None]]:
    """A scene, and what its process ends with."""

    def note(act: Callable[[str], None]) -> Callable[[str], None]:
        SCENES.append((act.__name__, act, code))
        return act

    return note


def play(
    url: str, run_id: str, body: Callable[[holdfast.Run], Any], *, finishes: bool = True, **options: Any
) -> None:
    """Enter a run with this program; what stops it stays in the journal."""
    try:
        with holdfast.run(run_id, store=url, **options) as run:
            result = body(run)
            if not finishes:
                raise Unfinished
            run.finish(result)
    except (Unfinished, holdfast.StopSignal) as stop:
        print(f"{run_id}: {type(stop).__name__}")


KILLED = -signal.SIGKILL


@scene()
def play_values(url: str) -> None:
    play(url, "values", values, finishes=False, goal="hold a value of each type", inputs={"n": (1, 2)})
    play(url, "ours", ours, finishes=False)
    play(url, "failures", failures, finishes=False)


@scene()
def play_steps(url: str) -> None:
    play(url, "steps", steps, goal="one mark of each", inputs={"n": 1})
    play(url, "steps", lambda run: run.step("upper", upper, "reopened"), if_finished="reopen")


@scene(KILLED)
def play_killed(url: str) -> None:
    play(url, "killed", killed, goal="go on in the middle")


@scene(KILLED)
def play_doubtful(url: str) -> None:
    play(url, "doubtful", doubtful)


@scene(KILLED)
def play_settled(url: str) -> None:
    play(url, "settled", doubtful)


@scene(KILLED)
def play_abandoned(url: str) -> None:
    play(url, "abandoned", doubtful)


@scene(KILLED)
def play_resolved(url: str) -> None:
    play(url, "resolved", doubtful)


@scene(KILLED)
def play_late(url: str) -> None:
    play(url, "late", doubtful)


@scene(KILLED)
def play_diary(url: str) -> None:
    play(url, "diary", diary)


@scene(KILLED)
def play_talk(url: str) -> None:
    play(url, "talk", talk)


@scene(KILLED)
def play_modelling(url: str) -> None:
    play(url, "modelling", modelling, budget={"tokens": 200, "warn_at": 0.3})


@scene()
def play_wrapped(url: str) -> None:
    from tests.support.model_server import Provider

    with Provider() as provider:
        play(
            url,
            "wrapped",
            lambda run: wrapped(run, provider.base_url),
            finishes=False,
            premises={"model": "ignore"},
        )


@scene(KILLED)
def play_files(url: str) -> None:
    Path("rates.csv").write_text("GR,6.1\n")
    play(url, "files", files, workspace=".")


@scene(KILLED)
def play_cancelling(url: str) -> None:
    """A letter that its holder did not live to read."""
    with holdfast.run("cancelling", store=url) as run:
        run.step("upper", upper, "before")
        holdfast.store(url).cancel("cancelling", by="ada", reason="enough")
        die()


@scene()
def play_after_kills(url: str) -> None:
    """What the next processes found and did."""
    store = holdfast.store(url)
    play(url, "doubtful", doubtful)
    play(url, "settled", doubtful)
    store.resolve("settled", "cut", "done", value=VALUES["decimal"], by="ada")
    play(url, "settled", doubtful)
    play(url, "abandoned", doubtful)
    store.resolve("abandoned", "cut", "abandon", by="ada")
    play(url, "abandoned", lambda run: run.step("upper", upper, "instead"))
    play(url, "resolved", doubtful)
    store.resolve("resolved", "cut", "failed", message="the bank says no", by="ada")
    play(url, "late", doubtful)
    from holdfast.engine.journal import inbox

    key = store.doubts("late")[0].key
    body = {"value": {"$": "tuple", "v": ["late", 1]}, "ms": 1.5}
    inbox.post(
        store._port,
        "late", f"late-{key}", {"kind": "outcome", "key": key, "how": "done", "body": body}, at=store.now(),
    )  # fmt: skip


@scene(KILLED)
def play_talk_again(url: str) -> None:
    play(url, "talk", talk)


@scene()
def play_circles(url: str) -> None:
    play(url, "raised", raised)
    play(url, "drifting", drifting, finishes=False)
    play(url, "drifting", drifting, finishes=False, on_drift="warn")
    play(url, "looping", looping)
    play(url, "circling", circling)
    play(url, "cancelled", lambda run: run.step("upper", upper, "before"), finishes=False)
    holdfast.store(url).cancel("cancelled", by="ada", reason="enough")


@scene()
def play_waiting(url: str) -> None:
    store = holdfast.store(url)
    play(url, "sleeper", sleeper)
    play(url, "napper", napper)
    play(url, "asking", asking)
    play(url, "answered", asking)
    store.answer("answered", {"good": True, "why": "it is"}, by="ada", reason="I read it")
    play(url, "answered", asking)
    store.answer("answered", False, by="bob")
    Path("relied.csv").write_text("GR,6.1\n")
    play(url, "relying", lambda run: run.depends_on("relied.csv"), finishes=False)
    Path("relied.csv").write_text("GR,3.4\n")
    play(url, "relying", lambda run: run.depends_on("relied.csv"), finishes=False)
    store.accept_premise("relying", "file:relied.csv", by="ada")


@scene()
def play_together(url: str) -> None:
    store = holdfast.store(url)
    play(url, "mailbox", lambda run: run.receive())  # it waits
    play(url, "friend", friend)
    play(url, "mailbox", mailbox)
    play(url, "later friend", lambda run: run.promise("one that nobody has read", to="mailbox"))
    child_agent.submit("queued", 4, store=url)
    parent_agent.submit("parent", 5, store=url)
    with holdfast.worker(parent_agent, store=url) as worker:
        assert worker.wait_idle(30)
    with holdfast.worker(child_agent, store=url) as worker:
        while holdfast.store(url).get("parent/kid").status != "finished":
            time.sleep(0.02)
        worker.drain()
    store.submit("golden-unknown", "queued for nobody", {"n": 1})


@scene()
def play_handoffs(url: str) -> None:
    store = holdfast.store(url)
    play(url, "giver", giver, goal="Write to Ada and Bob", inputs={"n": 1})
    document = store.handoff("giver", "night shift", seal=True)
    store.accept(document, as_="taker")
    play(url, "taker", taker)
    play(url, "keeper", giver)
    store.handoff("keeper", "nobody", seal=True)
    store.unseal("keeper")
    play(url, "handing", lambda run: run.handoff("somebody", seal=True), finishes=False)


@scene()
def play_forks(url: str) -> None:
    store = holdfast.store(url)
    play(url, "trunk", forked, goal="be forked")
    store.fork("trunk@1", as_="branch", override={"upper": "BECAUSE"})
    play(url, "branch", forked, finishes=False)
    store.fork("branch@2", as_="twig")
    store.rewind("trunk@1")
    play(url, "diary-fork", bounded)
    store.fork("diary-fork@4", as_="state-fork")
    store.pin("diary-fork@2")
    store.pin("trunk")


@scene()
def play_pruned(url: str) -> None:
    store = holdfast.store(url)
    keep = Retention(
        reasoning=Keep(last=0), checkpoints=Keep(last=1), refetchable=Keep(last=0), compact_events=5
    )
    play(url, "bounded", bounded, retention=None)
    store.prune("bounded", policy=keep)
    play(url, "hollowed", hollowed)
    store.prune("hollowed", policy=keep)
    _stand_for_others(url)


def _stand_for_others(url: str) -> None:
    """An event of the kind that only stands for others: no program of format 1 writes it, and all of them read it."""
    from holdfast.model.events import Event, Kind, checksum
    from holdfast.model.store_rows import Append, RunRow
    from holdfast.stores.url import open_store

    port = open_store(url)
    row = RunRow("pruned", "b" * 32, 1_800_000_000.0, "interrupted", b"{}")
    assert port.create_run(row)
    lease = port.acquire("pruned", at=1_800_000_000.0, lease_s=1.0).lease

    def event(seq: int, kind: str, body: bytes) -> Event:
        place = (seq, 1_800_000_000.0 + seq, kind, "", "", lease.fence)
        return Event(*place, body, checksum("pruned", *place, body))

    events = (
        event(1, Kind.RUN_STARTED, b'{"goal":"be pruned","agent":null,"workspace":null,"inputs":null}'),
        event(4, Kind.PRUNED, b'{"from_seq":2}'),
    )
    (outcome,) = port.append([Append("pruned", lease.fence, 0, events)])
    assert type(outcome).__name__ == "Appended", outcome
    port.release("pruned", fence=lease.fence)


@scene()
def play_memory(url: str) -> None:
    store = holdfast.store(url)
    play(url, "rememberer", rememberer, finishes=False)
    memory = store.memory
    first = memory.remember("The harbour opens at nine", tags=["time"], scope="harbour", importance=0.9)
    memory.remember("The harbour opens at ten", scope="harbour", tags=["time"])
    memory.edit(first.id, text="The harbour opened at nine", scope="harbour")
    memory.remember("To be forgotten", key="gone")
    memory.forget("gone")
    memory.remember(
        "A value of each kind",
        value={name: VALUES[name] for name in ("decimal", "tuple", "dataclass")},
        key="kinds",
    )
    store.search("harbour")


@scene()
def play_chains(url: str) -> None:
    from langgraph.checkpoint.base import empty_checkpoint

    from holdfast.adapters.langgraph import HoldfastSaver

    saver = HoldfastSaver(url)
    config: Any = {"configurable": {"thread_id": "thread 1", "checkpoint_ns": ""}}
    for number in range(3):
        checkpoint = empty_checkpoint()
        checkpoint["id"] = f"1f0b0000-0000-6000-8000-00000000000{number}"
        checkpoint["channel_values"] = {"lines": ["said"] * number, "x": (1, 2)}
        config = saver.put(config, checkpoint, {"source": "loop", "step": number}, {"lines": number})
    saver.put_writes(config, [("lines", ["pending"])], "task")


@scene()
def play_moved(url: str) -> None:
    """Exports: a run that came by one, a run that went with one, and a snapshot of a journal that counts as long here."""
    from holdfast.engine.journal import load_view

    store = holdfast.store(url)
    store.export("looping", "looping.holdfast")
    store.import_("looping.holdfast", as_="imported")
    play(url, "moved away", lambda run: run.step("upper", upper, "before"), finishes=False)
    store.export("moved away", "moved.holdfast", move=True)
    load_view.SNAPSHOT_EVENTS_MIN = 5  # type: ignore[attr-defined]
    play(url, "long", lambda run: [run.step("square", square, n) for n in range(5)], finishes=False)
    play(url, "long", lambda run: [run.step("square", square, n) for n in range(5)], finishes=False)


@scene(KILLED)
def play_importing(url: str) -> None:
    """An import that was cut off."""
    store, other = holdfast.store(url), "memory://other"
    play(other, "importing", lambda run: run.step("upper", upper, "elsewhere"), finishes=False)
    holdfast.store(other).export("importing", "importing.holdfast", move=True)

    def cut_off(_: Any) -> None:
        die()

    store._port.append = cut_off  # type: ignore[assignment,method-assign]
    store.import_("importing.holdfast")


if __name__ == "__main__":
    sys.executable, sys.orig_argv[:] = (
        "/usr/bin/python3",
        ["python3", "-m", "tests.migrations.scenes_1", sys.argv[1]],
    )
    for name, act, _ in SCENES:
        if name == sys.argv[1]:
            act(sys.argv[2])
            holdfast.store(sys.argv[2]).close()
