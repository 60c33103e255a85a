"""States and conversations: what a checkpoint writes, what comes back, and where the program stands then."""

import asyncio
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.codec.values import encode_state
from holdfast.engine import store_threads
from holdfast.engine.journal import deferred_intents
from holdfast.engine.journal.inbox_wakeup import InboxWakeup
from holdfast.engine.state import autosave, checkpoints, state_store
from holdfast.limits import BLOB_PAGE_MAX
from holdfast.model.events import Kind
from holdfast.stores.url import open_store


class Crash(Exception):
    pass


@dataclass
class Draft:
    title: str
    client: object = None


def killed(url: str, body: Callable[[holdfast.Run], Any]) -> Any:
    """An attempt that ends in the middle, as far as the journal knows."""
    try:
        with holdfast.run("a", store=url) as run:
            body(run)
            raise Crash
    except Crash:
        return None


def resumed(url: str, body: Callable[[holdfast.Run], Any]) -> Any:
    with holdfast.run("a", store=url) as run:
        return body(run)


def kinds(url: str) -> list[str]:
    return [event.kind for event in holdfast.store(url).events("a")]


def stored(url: str) -> int:
    """The bytes of all blobs."""
    return sum(info.size for info in open_store(url).scan_blobs(limit=BLOB_PAGE_MAX))


def history(turns: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": _noise(turn)} for turn in range(turns)]


def _noise(number: int) -> str:
    """Text that does not compress, so that bytes stored twice are seen."""
    return "".join(sha256(b"%d %d" % (number, part)).hexdigest() for part in range(15))


# -- what is written, and what comes back -----------------------------------------------------------------------


def test_a_restored_state_is_equal_and_nobody_elses(url: str) -> None:
    """Typed as it was, twice made anew; changing the state after the checkpoint changes nothing recorded."""
    state: dict[str, Any] = {"draft": Draft("a"), "seen": {1, 2}, "pair": (1, b"x"), "messages": history(50)}

    def save(run: holdfast.Run) -> None:
        run.checkpoint(state)
        state["messages"].append("too late")

    killed(url, save)
    state["messages"].pop()

    def look(run: holdfast.Run) -> None:
        back = run.restore()
        assert back == state
        back["messages"].clear()
        assert run.state == state

    resumed(url, look)


@pytest.mark.parametrize(
    "odd",
    ["\ud800 alone", 2**70, {"\udfff": 1}, {2**70: 1}, {"deep": [{"x": -(2**70)}]}],
    ids=["text", "int", "key", "int key", "deep"],
)
def test_what_json_cannot_write_comes_back_from_a_state_too(url: str, odd: Any) -> None:
    """Beside much that it can, which is walked the quick way first. Planted: without the second, careful walk the
    encoder's TypeError came out of the checkpoint."""
    state = {"messages": history(100), "odd": odd, "half": [1, odd]}
    killed(url, lambda run: run.checkpoint(state))
    assert resumed(url, lambda run: run.restore()) == state


def test_the_next_attempt_writes_only_what_is_new(url: str) -> None:
    """The stored state is learned, not written again. Planted: without ``build_on`` all of it was stored twice."""
    messages = history(300)
    killed(url, lambda run: run.checkpoint({"messages": messages}))
    before = stored(url)

    def go_on(run: holdfast.Run) -> None:
        state = run.restore()
        state["messages"].append({"role": "assistant", "content": "short"})
        run.checkpoint(state)

    resumed(url, go_on)
    assert stored(url) - before < 4_000
    assert (
        holdfast.store(url).content(holdfast.store(url).events("a")[-3])["state"]["messages"][:300]
        == messages
    )


def test_a_replayed_checkpoint_is_known_by_its_content(url: str) -> None:
    """Whatever was stored before it: the same state at the same place is the same checkpoint, and nothing is written."""

    def body(run: holdfast.Run) -> list[int]:
        return [run.checkpoint({"messages": history(turns)}) for turns in (100, 120, 100)]

    killed(url, body)
    before = stored(url), kinds(url).count(Kind.CHECKPOINT)
    assert resumed(url, body) == [1, 2, 3]
    assert (stored(url), kinds(url).count(Kind.CHECKPOINT)) == before


def test_a_fork_shares_the_state_of_its_origin(url: str) -> None:
    """Its first own checkpoint builds on the inherited one."""
    killed(url, lambda run: run.checkpoint({"messages": history(300)}))
    holdfast.store(url).fork("a@1", as_="b")
    before = stored(url)
    with holdfast.run("b", store=url) as run:
        state = run.restore()
        state["messages"].append({"role": "user", "content": "another way"})
        run.checkpoint(state)
    assert stored(url) - before < 4_000


def test_two_lineages_share_no_pack(url: str) -> None:
    """So that pruning one never has to ask the other. Planted: without the first line they did."""
    for name in ("a", "b"):
        with holdfast.run(name, store=url) as run:
            run.checkpoint({"messages": history(20)})
    roots = [
        event.body
        for name in ("a", "b")
        for event in holdfast.store(url).events(name)
        if event.kind == Kind.CHECKPOINT
    ]
    assert roots[0].split(b'"state"')[1] != roots[1].split(b'"state"')[1]


def test_ephemeral_values_stay_out_and_are_listed(url: str) -> None:
    """A client in the state is not stored; None stands there afterwards, and the run says where."""
    client = object()
    state = {
        "draft": Draft("a", holdfast.ephemeral(client)),
        "tools": ({"db": holdfast.ephemeral(client)}, 1),
        "text": "kept",
    }
    killed(url, lambda run: run.checkpoint(state))

    def look(run: holdfast.Run) -> None:
        back = run.restore()
        assert (back["draft"].client, back["tools"][0]["db"], back["text"]) == (None, None, "kept")
        assert run.to_rebuild == ("draft.client", "tools[0].db")

    resumed(url, look)


def test_an_ephemeral_result_is_refused(url: str) -> None:
    """A result goes to whoever replays: something that belongs to one process cannot be it."""
    with pytest.raises(holdfast.NotStorable, match="ephemeral"), holdfast.run("a", store=url) as run:
        run.step("make", lambda: {"db": holdfast.ephemeral(object())})


def test_a_state_changed_by_another_thread_is_refused(url: str) -> None:
    """A typed error that says what to do; nothing is written, and the run goes on."""

    state: dict[str, Any] = {}

    @dataclass
    class Field:
        value: int

    # A registered codec runs the program's code in the middle of the walk, as another thread would.
    def meddle(field: Field) -> int:
        state[f"new {len(state)}"] = 1
        return field.value

    holdfast.register(Field, encode=meddle, decode=Field)
    state |= {"a": Field(1), "b": 2}
    with holdfast.run("a", store=url) as run:
        with pytest.raises(holdfast.StateChanged, match="changed by another thread") as refused:
            run.checkpoint(state)
        assert "lock" in refused.value.hint
        run.checkpoint({"fine": 1})
    assert kinds(url).count(Kind.CHECKPOINT) == 1


def test_a_state_that_is_part_old_part_new_is_refused(url: str) -> None:
    """No dict grew, only values changed, between the looks at two of them. Planted: without a second look it was saved."""

    @dataclass
    class Account:
        balance: int

    reached, moved, over = threading.Event(), threading.Event(), threading.Event()
    state = {"from": Account(100), "to": Account(0)}

    def read(account: Account) -> int:
        if account is state["to"] and not moved.is_set():
            reached.set()
            assert moved.wait(10)
        return account.balance

    def move() -> None:
        assert reached.wait(10)
        state["from"].balance, state["to"].balance = 0, 100
        moved.set()
        assert over.wait(10)

    holdfast.register(Account, encode=read, decode=Account)
    thread = threading.Thread(target=move)
    thread.start()
    try:
        with holdfast.run("a", store=url) as run:
            with pytest.raises(holdfast.StateChanged, match="looked at twice"):
                run.checkpoint(state)
            run.checkpoint(state)
            assert run.state == {"from": Account(0), "to": Account(100)}
    finally:
        over.set()
        thread.join()
    assert kinds(url).count(Kind.CHECKPOINT) == 1


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The states that were encoded. Threads from before this test do not count as the program's."""
    before = set(threading.enumerate())
    found: list[object] = []

    def encode(state: object, **options: Any) -> Any:
        found.append(state)
        return encode_state(state, **options)

    monkeypatch.setattr(state_store, "encode_state", encode)
    monkeypatch.setattr(state_store, "enumerate_threads", lambda: set(threading.enumerate()) - before)
    monkeypatch.setattr(store_threads, "_pool", None)
    return found


def test_an_async_run_encodes_a_state_once(url: str, looks: list[object]) -> None:
    """Only a thread of the program could change it meanwhile: not one that calls the store or waits for letters."""

    async def main() -> None:
        async with holdfast.run("a", store=url) as run:
            wakeup = InboxWakeup(open_store(url))
            with wakeup.listening("a", wakeup.cursor_of("a"), lambda: None):
                await run.checkpoint({"fine": 1})
        pool = store_threads._threads()
        await asyncio.get_running_loop().run_in_executor(None, pool.shutdown)

    asyncio.run(main())
    assert looks == [{"fine": 1}]


def test_a_run_with_read_steps_encodes_a_state_once(
    url: str, looks: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that writes late intents of reads is ours. Planted: not listed, each state was looked at twice."""
    monkeypatch.setattr(deferred_intents, "_watch", deferred_intents._Watch())
    with holdfast.run("a", store=url) as run:
        run.step("look", len, "abc")
        run.checkpoint({"fine": 1})
        assert any(thread.name == "holdfast-intents" for thread in threading.enumerate())
    assert looks == [{"fine": 1}]


def test_every_thread_of_holdfast_is_known_as_ours_or_as_one_that_runs_the_programs_code() -> None:
    """A thread that is not listed makes each state be encoded twice, for nothing."""
    running = ("holdfast-call-", "holdfast-run-", "holdfast-worker")
    source = Path(holdfast.__file__).parent
    named = re.compile(r'(?:name|name_prefix|THREAD_NAME|daemon)\s*=\s*f?"(holdfast-[a-z_-]*)')
    names = {name for file in source.rglob("*.py") for name in named.findall(file.read_text())}
    assert {"holdfast-intents", "holdfast-flusher", "holdfast-store", "holdfast-ttl"} <= names
    known = {name.rstrip("_") for name in state_store._OURS}
    assert {name for name in names if not name.startswith((*known, *running))} == set()


def test_a_function_with_a_timeout_is_the_programs_whatever_its_name(url: str) -> None:
    """Its thread may change a state, also if the function is named like a part of Holdfast."""

    def heartbeat() -> bool:
        return threading.current_thread().name.startswith(state_store._OURS)

    with holdfast.run("a", store=url) as run:
        assert run.options(timeout_s=60).step("beat", heartbeat) is False


def test_checkpoints_made_side_by_side_all_read_back(url: str) -> None:
    """Threads plant at the same time; each state is whole. Planted: with one set of fresh nodes for all they mixed."""
    results: dict[int, list[dict[str, str]]] = {}

    with holdfast.run("a", store=url) as run:

        def save(number: int) -> None:
            with run.scope(f"thread {number}"):
                for turns in range(5, 50, 5):
                    results[run.checkpoint({"n": number, "messages": history(turns)[number:]})] = history(
                        turns
                    )[number:]

        threads = [threading.Thread(target=run.bind(save), args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    store = holdfast.store(url)
    states = [store.content(e)["state"] for e in store.events("a") if e.kind == Kind.CHECKPOINT]
    assert sorted(map(repr, results.values())) == sorted(repr(state["messages"]) for state in states)


# -- autosave ---------------------------------------------------------------------------------------------------


done: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def square(number: int) -> int:
    done.append(number)
    return number * number


def loop(run: holdfast.Run, upto: int, **options: Any) -> dict[str, Any]:
    """An agent that knows from its state how far it is."""
    state: dict[str, Any] = run.restore({"i": 0, "facts": []})
    run.autosave(lambda: state, **options)
    while state["i"] < upto:
        state["facts"].append(run.step("compare", square, state["i"]))
        state["i"] += 1
    return state


def test_autosave_saves_every_third_step(url: str) -> None:
    """And a restored program goes on from there: no step runs twice, none is skipped."""
    killed(url, lambda run: loop(run, 8))
    saves = [event for event in holdfast.store(url).events("a") if event.kind == Kind.CHECKPOINT]
    assert [holdfast.store(url).content(e)["state"]["i"] for e in saves] == [2, 5]
    state = resumed(url, lambda run: loop(run, 10))
    assert done == list(range(10))
    assert state["facts"] == [i * i for i in range(10)]


def test_an_autosave_is_taken_where_the_state_agrees_with_the_journal(url: str) -> None:
    """Not when a step ends: its result is not in the state yet. Planted: saving after the outcome lost a fact."""
    for upto in range(1, 12):
        done.clear()
        place = url.replace(".db", f"-{upto}.db") if url.startswith("sqlite") else f"{url}_{upto}"
        killed(place, partial(loop, upto=upto, every_steps=1))
        state = resumed(place, partial(loop, upto=12, every_steps=1))
        assert state["facts"] == [i * i for i in range(12)]
        assert done == list(range(12))
        holdfast.store(place).close()


def pay(person: str) -> str:
    done.append(person)
    return f"{person} paid"


def careless(run: holdfast.Run, crash_at: str = "") -> Any:
    """An agent that keeps results in variables over several steps before it puts them into its state."""
    state: dict[str, Any] = run.restore({"next": 0, "receipts": []})
    run.autosave(lambda: state, every_steps=1)
    for person in ["ada", "bob", "eve"][state["next"] :]:
        receipt = run.once("pay", pay, person)
        looks = [run.step("look", square, 3) for _ in range(2)]
        if crash_at == person:
            raise Crash
        state = {"next": state["next"] + 1, "receipts": [*state["receipts"], receipt, *looks]}
    return state


@pytest.mark.parametrize("person", ["ada", "bob", "eve"])
def test_an_outcome_that_is_only_in_a_variable_is_given_again(url: str, person: str) -> None:
    """Nobody is paid twice, though the state was saved after the payment and does not know of it.

    Planted: with every save counting all that was recorded before it as given, the payment was made again.
    """
    with pytest.raises(Crash):
        resumed(url, lambda run: careless(run, person))
    assert Kind.CHECKPOINT in kinds(url)
    state = resumed(url, careless)
    assert state["receipts"] == [x for name in ("ada", "bob", "eve") for x in (f"{name} paid", 9, 9)]
    assert [name for name in done if name != 3] == ["ada", "bob", "eve"]
    assert done.count(3) == 6


def test_what_was_replayed_just_now_may_be_only_in_a_variable_too(url: str) -> None:
    """Planted: with a first look after replay that counts all before it as given, bob was paid twice."""

    def body(run: holdfast.Run, *, crash_at: int) -> list[str]:
        state: dict[str, Any] = run.restore({"first": None})
        if crash_at:
            run.autosave(lambda: state, every_steps=1)
        if state["first"] is None:
            state["first"] = run.once("pay", pay, "ada")
        second = run.once("pay", pay, "bob")
        if crash_at == 0:
            raise Crash
        third = run.step("look", square, 3)
        if crash_at == 1:
            raise Crash
        return [state["first"], second, third]

    for crash_at in (0, 1):
        with pytest.raises(Crash):
            resumed(url, partial(body, crash_at=crash_at))
    assert resumed(url, partial(body, crash_at=2)) == ["ada paid", "bob paid", 9]
    assert done == ["ada", "bob", 3]


def test_what_was_settled_just_now_may_be_only_in_a_variable_too(url: str) -> None:
    """Cut off, verified as done, and not in the state yet when it is saved. Found by the crash matrix: it was paid again."""

    @holdfast.tool(effect="once", settle_s=0, verify=lambda: holdfast.Done("paid"))
    def charge() -> str:
        done.append("charge")
        raise SystemExit

    def body(run: holdfast.Run, *, crash_at: int) -> list[Any]:
        state: dict[str, Any] = run.restore({"receipt": None})
        run.autosave(lambda: state, every_steps=1)
        if state["receipt"] is not None:
            return [state["receipt"]]
        receipt = charge()
        look = run.step("look", square, 3)
        if crash_at == 1:
            raise Crash
        return [receipt, look]

    with pytest.raises(SystemExit):
        resumed(url, partial(body, crash_at=0))
    with pytest.raises(Crash):
        resumed(url, partial(body, crash_at=1))
    assert resumed(url, partial(body, crash_at=2)) == ["paid", 9]
    assert done == ["charge", 3]


def test_the_state_is_saved_before_a_once_effect(url: str) -> None:
    """Also when neither time nor count ask for it; and not twice where nothing happened since."""
    state = {"i": 0}
    with holdfast.run("a", store=url) as run:
        run.autosave(lambda: state, every_s=None, every_steps=None)
        run.step("look", lambda: 1)
        state["i"] = 7
        run.once("pay", lambda: "paid")
    store = holdfast.store(url)
    events = [event for event in store.events("a") if event.kind in {Kind.CHECKPOINT, Kind.STEP_STARTED}]
    assert [event.name for event in events] == ["look", "autosave", "pay"]
    assert store.content(events[1])["state"] == {"i": 7}


def test_a_killed_effect_finds_the_state_that_led_to_it(url: str) -> None:
    """In doubt, restored and asked for again: the same call."""

    @holdfast.tool(effect="once", settle_s=0, verify=holdfast.NotDone)
    def pay() -> str:
        done.append(1)
        if len(done) == 1:
            raise SystemExit
        return "paid"

    def body(run: holdfast.Run) -> str:
        state = run.restore({"seen": None})
        run.autosave(lambda: state)
        if state["seen"] is None:
            state["seen"] = run.step("look", lambda: 1)
        return pay()

    with pytest.raises(SystemExit):
        resumed(url, body)
    assert resumed(url, body) == "paid"
    assert len(done) == 2


def test_an_effect_that_changed_after_an_autosave_is_drift(url: str) -> None:
    """A restored program stands where the state was taken. Planted: without ``after`` it paid the other amount."""

    @holdfast.tool(effect="once", settle_s=0)
    def pay(amount: int) -> None:
        done.append(amount)
        raise SystemExit

    def body(run: holdfast.Run, amount: int) -> None:
        state = run.restore({"seen": None})
        run.autosave(lambda: state)
        if state["seen"] is None:
            state["seen"] = run.step("look", lambda: 1)
        pay(amount)

    with pytest.raises(SystemExit):
        resumed(url, lambda run: body(run, 1))
    with pytest.raises(holdfast.Diverged):
        resumed(url, lambda run: body(run, 2))
    assert done == [1]


def autosaver_of(held: Any) -> autosave.Autosaver:
    """The autosaver that a program has asked for."""
    found = autosave.AUTOSAVING.of(held).saver
    assert found is not None
    return found


class Ticking:
    """A clock for the autosaver alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now


def test_time_alone_asks_for_a_save_at_the_next_step(url: str) -> None:
    """Every so many seconds, whatever the number of steps."""
    clock = Ticking()
    state = {"i": 0}
    with holdfast.run("a", store=url) as run:
        run._held.clock = clock  # type: ignore[assignment]
        run.autosave(lambda: state, every_s=60, every_steps=None)
        for seconds in (10, 49, 2, 59, 61):
            clock.now += seconds
            state["i"] += 1
            run.step("look", lambda n: n, state["i"])
    saves = [e for e in holdfast.store(url).events("a") if e.kind == Kind.CHECKPOINT]
    assert [holdfast.store(url).content(e)["state"]["i"] for e in saves] == [3, 5]


def test_a_long_step_is_saved_from_inside(url: str) -> None:
    """With thread_safe: the state as it is in the middle; restored, the step runs again, nothing before it does."""
    state: dict[str, Any] = {"i": 0, "partial": ""}

    def write(run: holdfast.Run) -> None:
        done.append("write")
        state["partial"] = "in the middle of the third paragraph"
        saver = autosaver_of(run._held)
        assert saver is not None
        assert saver.save_inside(run._held)
        raise Crash

    def body(run: holdfast.Run) -> None:
        nonlocal state
        state = run.restore(state)
        run.autosave(lambda: state, every_s=3600, every_steps=None, thread_safe=True)
        if state["i"] == 0:
            run.step("look", done.append, "look")
            state["i"] = 1
        run.options(key="write").step("write", write, run)

    for _ in range(2):
        with pytest.raises(Crash), holdfast.run("a", store=url) as run:
            body(run)
    assert state["partial"] == "in the middle of the third paragraph"
    assert done == ["look", "write", "write"]


def test_a_state_is_not_taken_between_a_steps_end_and_the_programs_next_move(url: str) -> None:
    """Nothing is in flight there, and nobody knows whether the result is in the state."""
    with holdfast.run("a", store=url) as run:
        run.autosave(dict, every_s=3600, thread_safe=True)
        assert not autosaver_of(run._held).save_inside(run._held)
        run.step("look", lambda: 1)
        assert not autosaver_of(run._held).save_inside(run._held)


def test_a_step_that_ends_while_its_state_is_taken_is_not_saved(url: str) -> None:
    """Part of the state may be older than its end, part newer. Planted: without the second look it was saved."""
    with holdfast.run("a", store=url) as run:
        entered, may_end, ended = threading.Event(), threading.Event(), threading.Event()

        def get_state() -> dict[str, int]:
            if threading.current_thread() is not threading.main_thread():
                may_end.set()
                assert ended.wait(10)
            return {}

        def slow() -> None:
            entered.set()
            assert may_end.wait(10)

        run.autosave(get_state, every_s=3600, every_steps=None, thread_safe=True)
        held = run._held
        saved: list[bool] = []

        def save() -> None:
            assert entered.wait(10)
            saved.append(autosaver_of(held).save_inside(held))

        thread = threading.Thread(target=save)
        thread.start()
        run.options(key="slow").step("slow", slow)
        ended.set()
        thread.join()
        assert saved == [False]


def test_a_save_that_comes_to_the_journal_after_its_step_ended_does_not_swallow_the_outcome(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state knows nothing of it, so it is given again. Planted: without ``upto_seq`` the step ran twice."""
    entered, taken, ended = threading.Event(), threading.Event(), threading.Event()
    draft_of = checkpoints.draft_of

    def late(*args: Any) -> Any:
        taken.set()
        assert ended.wait(10)
        return draft_of(*args)

    monkeypatch.setattr(autosave, "draft_of", late)

    def slow() -> str:
        done.append("slow")
        entered.set()
        assert taken.wait(10)
        return "found"

    def body(run: holdfast.Run) -> None:
        run.autosave(lambda: {"result": None}, every_s=3600, every_steps=None, thread_safe=True)
        held = run._held

        def save() -> None:
            assert entered.wait(10)
            assert autosaver_of(held) is not None
            assert autosaver_of(held).save_inside(held)

        thread = threading.Thread(target=save)
        thread.start()
        run.options(ignore=["entered", "taken"]).step("slow", slow)
        ended.set()
        thread.join()

    killed(url, body)

    def again(run: holdfast.Run) -> str:
        assert run.restore() == {"result": None}
        return run.options(ignore=["entered", "taken"]).step("slow", slow)

    assert resumed(url, again) == "found"
    assert done == ["slow"]


def test_the_thread_saves_by_itself(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real time, real thread: a step that waits for its own save."""
    with holdfast.run("a", store=url) as run:
        run.autosave(lambda: {"partial": 1}, every_s=0.02, every_steps=None, thread_safe=True)
        held = run._held
        saved = threading.Event()

        def settled(*args: Any) -> int:
            point = checkpoints.settle(*args)
            saved.set()
            return point

        monkeypatch.setattr(autosave, "settle", settled)
        run.options(key="slow").step("slow", saved.wait, 10)
        assert saved.is_set()
        assert autosaver_of(held) is not None
    assert Kind.CHECKPOINT in kinds(url)


def test_calls_in_parallel_are_no_place_to_save(url: str) -> None:
    """The results of some are recorded and not yet in the state. Planted: saving there lost them."""
    state: dict[str, Any] = {"facts": []}

    async def main() -> None:
        import asyncio

        async with holdfast.run("a", store=url) as run:
            run.autosave(lambda: state, every_steps=1)
            state["facts"] += await asyncio.gather(*[run.step("look", lambda n: n, n) for n in range(6)])
            await run.step("after", lambda: 1)

    import asyncio

    asyncio.run(main())
    saves = [e for e in holdfast.store(url).events("a") if e.kind == Kind.CHECKPOINT]
    assert [holdfast.store(url).content(e)["state"]["facts"] for e in saves] == [list(range(6))]


def test_autosave_refuses_what_it_cannot_do(url: str) -> None:
    """Zero seconds; and a state that cannot be stored stops before the step, not behind the program's back."""
    with holdfast.run("a", store=url) as run:
        with pytest.raises(holdfast.Misuse, match="every_steps=0"):
            run.autosave(dict, every_steps=0)
        run.autosave(lambda: {"lock": threading.Lock()}, every_steps=1)
        with pytest.raises(holdfast.NotStorable, match="lock"):
            run.step("look", lambda: 1)
        run.autosave(dict, every_steps=1)
        assert run.step("look", lambda: 1) == 1


# -- the conversation -------------------------------------------------------------------------------------------


def test_a_conversation_is_kept_and_restored_as_it_stood(url: str) -> None:
    """With the state, without being part of it; dropped ones stay dropped."""

    def talk(run: holdfast.Run) -> None:
        run.messages.extend([{"n": 1}, {"n": 2}, {"n": (3,)}])
        run.messages.drop(1)
        run.checkpoint({"turn": 1})
        run.messages.append({"n": 4})

    killed(url, talk)

    def go_on(run: holdfast.Run) -> list[Any]:
        assert len(run.messages) == 0
        assert run.restore() == {"turn": 1}
        assert list(run.messages) == [{"n": 2}, {"n": (3,)}]
        run.messages.append({"n": 4})
        run.messages.append({"n": 5})
        assert run.messages[-1] == {"n": 5}
        return run.messages[1:]

    assert resumed(url, go_on) == [{"n": (3,)}, {"n": 4}, {"n": 5}]
    names = [event.name for event in holdfast.store(url).events("a") if event.kind == Kind.MARK]
    assert names == ["messages", "messages dropped", "messages", "messages"]


def test_a_replayed_conversation_is_written_once(url: str) -> None:
    """From the top, the same messages are the same records; what a look gives is a copy."""

    def talk(run: holdfast.Run) -> list[Any]:
        run.messages.append({"role": "user", "content": "x" * 20_000})
        run.messages.append({"role": "user", "content": "hi"})
        run.messages[0]["role"] = "somebody"
        return list(run.messages)

    killed(url, talk)
    assert resumed(url, talk) == [
        {"role": "user", "content": "x" * 20_000},
        {"role": "user", "content": "hi"},
    ]
    assert kinds(url).count(Kind.MARK) == 2


def test_more_than_there_is_cannot_be_dropped(url: str) -> None:
    """Misuse that says how many there are."""
    with holdfast.run("a", store=url) as run:
        run.messages.append("hi")
        with pytest.raises(holdfast.Misuse, match="has 1 messages"):
            run.messages.drop(2)
        run.messages.drop(1)
        assert list(run.messages) == []


def test_a_forks_conversation_is_its_origins_up_to_the_point(url: str) -> None:
    """Then its own."""
    with holdfast.run("a", store=url) as run:
        run.messages.append("one")
        run.checkpoint({})
        run.messages.append("two")
    holdfast.store(url).fork("a@1", as_="b")
    with holdfast.run("b", store=url) as run:
        run.restore()
        run.messages.append("another two")
        assert list(run.messages) == ["one", "another two"]
