"""Data that a function reads from its module: it identifies lambdas, and is compared for module-level functions."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.engine.steps import module_data
from holdfast.errors import EffectUnclaimed
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind

paid: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    paid.clear()


class Crash(Exception):
    """The program ends here, as if it was killed."""


PROGRAM = """
import holdfast

def pay(name):
    paid.append(name)
    return "receipt for " + name

def job():
    return pay(who)

{before}
receipts = []
with holdfast.run(run_id, store=url{options}) as run:
    for who in people:
        receipts.append({call})
    {after}
"""


class Script:
    """A program at module level, as a user writes it: each call of it is one attempt."""

    def __init__(self, url: str, place: Path) -> None:
        self.url = url
        self.file = str(place / "agent.py")

    def __call__(
        self,
        people: list[str],
        call: str,
        *,
        run: str = "a",
        before: str = "",
        options: str = "",
        finish: bool = False,
    ) -> list[Any]:
        after = "pass" if finish else "raise Crash"
        text = PROGRAM.format(call=call, before=before, options=options, after=after)
        names: dict[str, Any] = {
            "__name__": "agent",
            "url": self.url,
            "run_id": run,
            "people": people,
            "paid": paid,
            "Crash": Crash,
        }
        with suppress(Crash):
            exec(compile(text, self.file, "exec"), names)
        receipts: list[Any] = names["receipts"]
        return receipts


@pytest.fixture
def script(url: str, tmp_path: Path) -> Script:
    return Script(url, tmp_path)


def intents(url: str, name: str) -> list[dict[str, Any]]:
    events = holdfast.store(url).events("a")
    return [contents_of(e.body) for e in events if e.kind == Kind.STEP_STARTED and e.name == name]


def receipts_of(*names: str) -> list[str]:
    return [f"receipt for {name}" for name in names]


LAMBDA = 'run.once("pay", lambda: pay(who))'
FUNCTION = 'run.once("pay", job)'
WITHOUT_DATA = 'run.options(ignore="who").once("pay", lambda: pay(who))'


# -- lambdas and inner functions: the data is part of the identity -----------------------------------------------------


def test_a_list_that_grows_at_the_front_stops_before_anything_is_paid(script: Script, url: str) -> None:
    """Zoe is new: she does not get Ada's receipt, and nobody is paid twice. Said to be new, she is paid."""
    assert script(["Ada", "Bob"], LAMBDA) == receipts_of("Ada", "Bob")
    with pytest.raises(EffectUnclaimed) as stop:
        script(["Zoe", "Ada", "Bob"], LAMBDA)
    assert "Zoe" in str(stop.value)
    assert "Ada" in str(stop.value)
    assert paid == ["Ada", "Bob"]
    holdfast.store(url).resolve("a", f"d{stop.value.seq}", "new")
    for _ in range(2):
        assert script(["Zoe", "Ada", "Bob"], LAMBDA) == receipts_of("Zoe", "Ada", "Bob")
    assert paid == ["Ada", "Bob", "Zoe"]


def test_a_list_that_grows_at_the_end_just_goes_on(script: Script) -> None:
    """The recorded ones answer, the new one is made."""
    script(["Ada"], LAMBDA)
    assert script(["Ada", "Bob"], LAMBDA) == receipts_of("Ada", "Bob")
    assert paid == ["Ada", "Bob"]


def test_an_inner_function_counts_its_data_too(script: Script) -> None:
    """``def`` inside a function is like a lambda; a name read by a comprehension inside it counts as well."""
    before = "def make():\n    def inner():\n        return [pay(who) for _ in (1,)][0]\n    return inner"
    call = 'run.step("pay", make())'
    script(["Ada", "Bob"], call, before=before)
    assert script(["Bob", "Ada", "Bob"], call, before=before) == receipts_of("Bob", "Ada", "Bob")
    assert paid == ["Ada", "Bob", "Bob"]


def test_the_recorded_arguments_name_the_data(script: Script, url: str) -> None:
    """A person who looks at the record sees which data made the call what it is."""
    script(["Ada"], LAMBDA)
    assert [one["args"] for one in intents(url, "pay")] == [{"global:who": "Ada"}]


def test_large_data_counts_by_its_hash(script: Script, url: str) -> None:
    """A long prompt in a constant is not written with every call."""
    script(["x" * 100_000, "y" * 100_000], LAMBDA)
    (first, second) = [one["args"]["global:who"] for one in intents(url, "pay")]
    assert len(first) < 100
    assert first != second
    assert script(["x" * 100_000, "y" * 100_000], LAMBDA)[0] == "receipt for " + "x" * 100_000
    assert len(paid) == 2


def test_a_journal_from_before_keeps_its_keys(
    script: Script, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded without module data: the records answer in order, also failures, and what follows is new."""
    before = (
        "def flaky():\n"
        "    paid.append(who)\n"
        "    if paid.count(who) == 1:\n"
        "        raise ValueError(who)\n"
        "    return who\n"
        "def tried(run):\n"
        "    for _ in range(2):\n"
        "        try:\n"
        '            return run.step("try", lambda: flaky() + who)\n'
        "        except ValueError as error:\n"
        "            problem = str(error)\n"
    )
    call = f'[{LAMBDA}, tried(run), run.step("plain", lambda: 1)]'
    with monkeypatch.context() as patch:
        patch.setattr(module_data, "data_of", lambda _fn, _ignore: None)
        first = script(["Ada", "Bob"], call, before=before)
    assert all("global:who" not in one["args"] for one in intents(url, "pay"))
    assert first == [["receipt for Ada", "AdaAda", 1], ["receipt for Bob", "BobBob", 1]]
    for _ in range(2):
        assert script(["Ada", "Bob"], call, before=before) == first
    assert paid == ["Ada", "Ada", "Bob", "Bob"]  # the payment counts as a first try
    for _ in range(2):
        assert script(["Ada", "Bob", "Cem"], call, before=before) == [
            *first,
            ["receipt for Cem", "CemCem", 1],
        ]
    assert paid[4:] == ["Cem", "Cem"]


def test_a_record_of_this_version_is_never_taken_for_an_older_one(script: Script) -> None:
    """A lambda without data and one with it under one name: the record of the first does not answer the second."""
    script(["Ada"], 'run.step("pay", lambda: "none")')
    assert script(["Ada"], 'run.step("pay", lambda: pay(who))') == receipts_of("Ada")


# -- module-level functions: the identity is by arguments, the data is compared ------------------------------------------


def test_a_function_whose_data_differs_stops_and_shows_both(script: Script, url: str) -> None:
    """The same call by its arguments, and another person to pay: nothing is paid, and both are shown."""
    script(["Ada", "Bob"], FUNCTION)
    with pytest.raises(EffectUnclaimed) as stop:
        script(["Zoe", "Ada", "Bob"], FUNCTION)
    assert "who='Zoe'" in str(stop.value)
    assert "who='Ada'" in str(stop.value)
    assert f"resolve a d{stop.value.seq} --same" in stop.value.hint
    (stopped,) = holdfast.store(url).stopped_calls("a")
    assert stopped.arguments == {"global:who": "Zoe"}
    assert [effect.arguments for effect in stopped.effects] == [{"global:who": "Ada"}]
    assert paid == ["Ada", "Bob"]


def test_a_call_that_is_new_is_made_and_the_others_answer(script: Script, url: str) -> None:
    """``new``: Zoe is paid under an identity of her own; Ada and Bob get their receipts, in every attempt."""
    script(["Ada", "Bob"], FUNCTION)
    with pytest.raises(EffectUnclaimed) as stop:
        script(["Zoe", "Ada", "Bob"], FUNCTION)
    holdfast.store(url).resolve("a", f"d{stop.value.seq}", "new")
    for _ in range(3):
        assert script(["Zoe", "Ada", "Bob"], FUNCTION) == receipts_of("Zoe", "Ada", "Bob")
    assert paid == ["Ada", "Bob", "Zoe"]


def test_one_decision_for_a_constant_that_was_edited(script: Script, url: str) -> None:
    """``same``: the change of the constant is accepted, for all recorded calls that it concerns."""
    call = 'run.once("send", send, who)'

    def program(base: str) -> list[Any]:
        before = f'BASE = "{base}"\ndef send(name):\n    return pay(name) + " by " + BASE'
        return script(["Ada", "Bob", "Cem"], call, before=before)

    first = program("v1")
    with pytest.raises(EffectUnclaimed) as stop:
        program("v2")
    holdfast.store(url).resolve("a", f"d{stop.value.seq}", "same")
    for _ in range(2):
        assert program("v2") == first
    with pytest.raises(EffectUnclaimed):  # another change is another question
        program("v3")
    assert paid == ["Ada", "Bob", "Cem"]


def test_the_recorded_effect_is_set_aside(script: Script, url: str) -> None:
    """``abandon``: the call is made with the data of now."""
    script(["Ada"], FUNCTION)
    with pytest.raises(EffectUnclaimed) as stop:
        script(["Zoe"], FUNCTION)
    holdfast.store(url).resolve("a", f"d{stop.value.seq}", "abandon")
    for _ in range(2):
        assert script(["Zoe"], FUNCTION) == receipts_of("Zoe")
    assert paid == ["Ada", "Zoe"]


def test_an_effect_in_doubt_with_other_data_is_a_question_too(url: str, script: Script) -> None:
    """It is not known whether Ada was paid: Zoe's call neither repeats it nor is taken for it."""
    before = "def cut():\n    paid.append(who)\n    raise KeyboardInterrupt"
    with pytest.raises(KeyboardInterrupt):
        script(["Ada"], 'run.once("pay", cut)', before=before)
    with pytest.raises(EffectUnclaimed, match="in doubt"):
        script(["Zoe"], 'run.once("pay", cut)', before=before)
    assert paid == ["Ada"]


def test_a_read_warns_once_and_is_answered(
    script: Script, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A constant that was edited on purpose: recorded reads answer, and one line says what changed."""
    call = 'run.step("look", look, who)'

    def program(rate: int) -> list[Any]:
        return script(["Ada", "Bob"], call, before=f"RATE = {rate}\ndef look(name):\n    return name, RATE")

    program(1)
    for expected in (1, 0):
        caplog.clear()
        assert program(2) == [("Ada", 1), ("Bob", 1)]
        told = [one.getMessage() for one in caplog.records if "RATE" in one.getMessage()]
        assert len(told) == expected
    (drifted,) = [e for e in holdfast.store(url).events("a") if e.kind == Kind.DRIFTED]
    assert "RATE" in contents_of(drifted.body)["diff"]


def test_on_drift_warn_answers_and_says_so(script: Script, caplog: pytest.LogCaptureFixture) -> None:
    """The program takes the responsibility: the recorded effect answers, and the change is logged."""
    script(["Ada"], FUNCTION)
    assert script(["Zoe"], FUNCTION, options=', on_drift="warn"') == receipts_of("Ada")
    assert any("who" in one.getMessage() for one in caplog.records)
    assert paid == ["Ada"]


def test_a_finished_run_is_replayed_whatever_the_data_is(script: Script) -> None:
    """Nothing can be made again in a finished run: its records answer."""
    script(["Ada"], FUNCTION, finish=True)
    assert script(["Zoe"], FUNCTION, finish=True) == receipts_of("Ada")


def test_the_record_has_a_hash_and_a_short_text_of_the_data(script: Script, url: str) -> None:
    """Large data is recorded as its hash and its beginning, and only for functions that read some."""
    script(["x" * 10_000], f'[{FUNCTION}, run.step("bare", pay, "Ada")]')
    (intent,) = intents(url, "pay")
    assert intent["reads"].keys() == intent["module_data"].keys() == {"who"}
    assert len(json.dumps(intent["module_data"])) < 200
    (bare,) = intents(url, "bare")
    assert "reads" not in bare
    assert "module_data" not in bare


def test_a_journal_without_data_is_not_compared(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded by an earlier version: the call is found by its arguments, as ever."""
    with monkeypatch.context() as patch:
        patch.setattr(module_data, "data_of", lambda _fn, _ignore: None)
        script(["Ada"], FUNCTION)
    assert script(["Zoe"], FUNCTION) == receipts_of("Ada")


@pytest.mark.parametrize("call", [WITHOUT_DATA, 'run.options(ignore=["who"]).once("pay", job)'])
def test_ignored_names_do_not_count(script: Script, call: str) -> None:
    """``ignore=`` leaves names of the module out, as it does arguments."""
    script(["Ada"], call)
    assert script(["Zoe"], call) == receipts_of("Ada")
    assert paid == ["Ada"]


@pytest.mark.parametrize("call", ["lambda: pay(who)", "job"])
def test_a_key_is_the_whole_identity(script: Script, call: str) -> None:
    """Beside a key, data of the module plays no part."""
    call = f'run.options(key="k").once("pay", {call})'
    script(["Ada"], call)
    assert script(["Zoe"], call) == receipts_of("Ada")


# -- the innocent ---------------------------------------------------------------------------------------------------

INNOCENT = {
    "a counter that the function assigns": (
        "n = 0\ndef count():\n    global n\n    n += 1\n    return n",
        'run.once("s", count)',
    ),
    "a counter in a lambda's helper": (
        "n = 0\ndef count():\n    global n\n    n += 1\n    return n",
        'run.once("s", lambda: (count(), n)[0])',
    ),
    "a counter that another step counts": (
        "n = 0\ndef count():\n    global n\n    n += 1\n    return n\ndef report():\n    return f'{n} so far'",
        '(run.step("count", count), run.once("s", report))[1]',
    ),
    "a cache": ("cache = {}", 'run.once("s", lambda: cache.setdefault("x", len(cache)))'),
    "a list that grows": ("seen = []", 'run.once("s", lambda: seen.append(1) or len(seen))'),
    "a client": (
        "class Client:\n    def get(self):\n        return 1\nclient = Client()",
        'run.once("s", lambda: client.get())',
    ),
    "a client made when it is first needed": (
        "client = None\ndef connect():\n    global client\n    client = client or object()\n    return client",
        'run.once("s", lambda: bool(client or connect()))',
    ),
    "functions, classes and modules": (
        "import math\nclass Shape:\n    pass\ndef helper():\n    return 1",
        'run.once("s", lambda: (math.pi, Shape.__name__, helper())[2])',
    ),
    "names of attributes": ("import types\ntotal = object()\nbox = types.SimpleNamespace(who=1)", 'run.once("s", lambda: box.who)'),
    "credentials": ("import os\nAPI_KEY = os.urandom(8).hex()", 'run.once("s", lambda: len(API_KEY))'),
    "an address with a password": (
        "import os\nDATABASE = f'postgresql://me:{os.urandom(8).hex()}@db/x'",
        'run.once("s", lambda: len(DATABASE))',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "call"), INNOCENT.values(), ids=list(INNOCENT))
def test_the_innocent_go_on_working(script: Script, before: str, call: str) -> None:
    """State, clients, code and credentials are no data: the recorded call answers, and nothing stops."""
    # The loop variable is not read by any of them.
    first = script(["Ada", "Bob"], call, before=before)
    assert script(["Bob", "Ada"], call, before=before) == first


def test_functions_of_libraries_read_no_data(url: str) -> None:
    """A constant of an installed package or of Python is that package's own affair: only the package premise says it changed."""
    import json as library

    with holdfast.run("a", store=url) as run:
        run.step("dump", library.dumps, {"a": 1})
    assert "reads" not in intents(url, "dump")[0]


KINDS = {
    "text": ("'a'", "'b'"), "a number": ("1", "2"), "a type": ("1", "'1'"), "none": ("None", "0"),
    "bytes": ("b'a'", "b'b'"), "a tuple": ("(1, ('a',))", "(1, ('b',))"),
    "a frozenset": ("frozenset({1})", "frozenset({2})"),
    "a date": ("__import__('datetime').date(2026, 1, 1)", "__import__('datetime').date(2026, 1, 2)"),
    "a decimal": ("__import__('decimal').Decimal('1.0')", "__import__('decimal').Decimal('1.00')"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), KINDS.values(), ids=list(KINDS))
def test_what_data_is(url: str, script: Script, before: str, after: str) -> None:
    """Text, numbers, None, bytes, dates, and tuples and frozensets of such: another value is another call."""
    call = 'run.step("s", lambda: (VALUE, len(paid))[1])'
    script(["Ada"], call, before=f"VALUE = {before}")
    script(["Ada"], call, before=f"VALUE = {after}")
    assert len(intents(url, "s")) == 2


def test_the_analysis_is_made_once_per_function(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """A function's code is analysed when it is first called, and not again."""
    analysed: list[Any] = []
    real: Callable[..., Any] = module_data._analyse

    def counting(fn: Any) -> Any:
        analysed.append(fn)
        return real(fn)

    monkeypatch.setattr(module_data, "_analyse", counting)
    monkeypatch.setattr(module_data, "_reads", {})

    def work(n: int) -> int:
        return n

    with holdfast.run("a", store=url) as run:
        for n in range(5):
            run.step("s", work, n)
    assert len(analysed) == 1


async def _in_tasks(url: str) -> list[Any]:
    async with holdfast.run("a", store=url) as run:
        calls = [run.once("pay", _pay_someone), run.step("look", lambda: someone)]
        found = await asyncio.gather(*calls)
    return list(found)


def _pay_someone() -> str:
    paid.append(someone)
    return someone


someone = "Ada"


def test_an_async_run_compares_too(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In tasks side by side: equal data is answered, other data stops, and no store call holds the loop."""

    async def crashed() -> None:
        with pytest.raises(Crash):
            async with holdfast.run("a", store=url) as run:
                await run.once("pay", _pay_someone)
                raise Crash

    asyncio.run(crashed())
    monkeypatch.setattr("tests.behaviour.steps.test_module_data.someone", "Zoe")
    with pytest.raises(EffectUnclaimed):
        asyncio.run(_in_tasks(url))
    monkeypatch.undo()
    assert asyncio.run(_in_tasks(url)) == ["Ada", "Ada"]
    assert paid == ["Ada"]


def test_threads_answer_and_compare(script: Script) -> None:
    """Calls of a pool of threads are compared like those of the root task."""
    before = "from concurrent.futures import ThreadPoolExecutor\nRATE = {}\ndef look(n):\n    return n * RATE"
    call = 'list(ThreadPoolExecutor(4).map(lambda n: run.once("look", look, n), range(8)))'
    first = script(["x"], call, before=before.format(2))
    assert script(["x"], call, before=before.format(2)) == first
    with pytest.raises(EffectUnclaimed):
        script(["x"], call, before=before.format(3))


def test_an_imported_run_compares_with_what_it_brought(script: Script, url: str, tmp_path: Path) -> None:
    """The data is part of the events: an export takes it along."""
    script(["Ada"], FUNCTION)
    holdfast.store(url).export("a", tmp_path / "a.tar", move=True)
    place = f"sqlite:///{tmp_path}/other.db"
    holdfast.store(place).import_(tmp_path / "a.tar")
    script.url = place
    assert script(["Ada"], FUNCTION) == receipts_of("Ada")
    with pytest.raises(EffectUnclaimed):
        script(["Zoe"], FUNCTION)
    holdfast.store(place).close()
    assert paid == ["Ada"]


# -- handoffs ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hand_over(script: Script, url: str, tmp_path: Path) -> Callable[[list[str], str], holdfast.Store]:
    """Runs a script that pays these people, and hands its run over to a run of the same name in another store."""

    def given(people: list[str], call: str) -> holdfast.Store:
        script(people, call)
        document = json.loads(json.dumps(holdfast.store(url).handoff("a", to="b", seal=True)))
        script.url = f"sqlite:///{tmp_path}/taker.db"
        store = holdfast.store(script.url)
        store.accept(document, as_="a")
        paid.clear()
        return store

    return given


Handed = Callable[[list[str], str], holdfast.Store]


def test_a_taker_gives_nobody_the_receipt_of_another(script: Script, hand_over: Handed) -> None:
    """A lambda's data tells its calls apart after a handoff, too: Zoe is paid, Ada and Bob have been."""
    hand_over(["Ada", "Bob"], LAMBDA).close()
    assert script(["Zoe", "Bob", "Ada"], LAMBDA) == receipts_of("Zoe", "Bob", "Ada")
    assert paid == ["Zoe"]


def test_a_taker_asks_before_an_effect_with_other_data(script: Script, hand_over: Handed) -> None:
    """A function at module level: the call with the same data is answered, and for one with other data a person is asked.
    If it is made then, it has an idempotency key of its own.
    """
    store = hand_over(["Ada", "Bob"], FUNCTION)
    assert script(["Bob"], FUNCTION) == receipts_of("Bob")
    with pytest.raises(holdfast.StepInDoubt, match=r"who='Ada' \(now 'Zoe'\)"):
        script(["Bob", "Zoe"], FUNCTION)
    assert paid == []
    store.resolve("a", "pay", "retry")
    assert script(["Bob", "Zoe"], FUNCTION) == receipts_of("Bob", "Zoe")
    assert paid == ["Zoe"]
    events = [contents_of(e.body) for e in store.events("a") if e.kind == Kind.STEP_STARTED]
    assert len({one["idempotency_key"] for one in events}) == 2
    store.close()


# -- forks -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def fork(script: Script, url: str) -> Callable[[str, str], None]:
    """Runs a script that pays Ada, and forks it at a point before that."""

    def made(call: str, name: str) -> None:
        begin = 'run.step("begin", pay, "x")'
        script(["Ada"], begin)
        point = holdfast.store(url).get("a").head
        script(["Ada"], f"[{begin}, {call}][1]")
        holdfast.store(url).fork(f"a@#{point}", as_=name)
        paid.clear()

    return made


def test_a_fork_asks_before_an_effect_with_other_data(
    script: Script, fork: Callable[[str, str], None]
) -> None:
    """Its origin paid Ada after the fork point; the same call would now pay Zoe: a person is asked."""
    fork(FUNCTION, "b")
    with pytest.raises(holdfast.StepInDoubt, match=r"who='Ada' \(now 'Zoe'\)"):
        script(["Zoe"], FUNCTION, run="b")
    assert paid == []


@pytest.mark.parametrize("call", [FUNCTION, LAMBDA])
def test_a_fork_answers_an_effect_with_the_same_data(
    script: Script, fork: Callable[[str, str], None], call: str
) -> None:
    """The origin's effect answers, as ever."""
    fork(call, "b")
    for _ in range(2):
        assert script(["Ada"], call, run="b") == receipts_of("Ada")
    assert paid == []


def test_a_fork_of_an_older_journal_answers_its_lambdas(
    script: Script, fork: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The origin recorded its effect without module data: it still answers, once, in every attempt."""
    with monkeypatch.context() as patch:
        patch.setattr(module_data, "data_of", lambda _fn, _ignore: None)
        fork(LAMBDA, "b")
    for _ in range(2):
        assert script(["Ada", "Bob"], LAMBDA, run="b") == receipts_of("Ada", "Bob")
    assert paid == ["Bob"]
