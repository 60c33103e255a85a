"""What a context says of a history, and how much of it there is room for."""

from typing import Any

import pytest
from orjson import dumps
from tests.support.context_check import verify
from tests.unit.journals import Journal, completion

from holdfast.core.context.context import PREAMBLE, context_of
from holdfast.errors import BadOption, Misuse
from holdfast.model.context import Context
from holdfast.model.events import Kind


def told(journal: Journal, *, is_held: bool = True, **options: Any) -> Context:
    """The context of a journal; whatever it says is checked."""
    context = context_of(journal.events, journal.look, is_held=is_held, **options)
    assert verify(context, journal.events, journal.whole) == []
    return context


def lines(journal: Journal, section: str, **options: Any) -> list[str]:
    """The lines of one section, as they stand in the text."""
    context = told(journal, **options)
    found = [line for line in context.lines if line.section == section]
    return [f"{line.text} {' '.join(f'#{seq}' for seq in line.refs)}" for line in found]


def test_the_first_attempt_has_nothing_before_it() -> None:
    """And a run that only was queued has not begun."""
    assert lines(Journal().start(), "past") == [
        "This is the first attempt at this run: nothing was done before. #2"
    ]
    queued = Journal()
    queued.add(Kind.RUN_STARTED, goal="x", agent=None, workspace=None, inputs=None)
    assert lines(queued, "past", is_held=False) == ["This run has not begun yet. #1"]


def test_a_crash_is_told_with_how_long_it_was() -> None:
    """From the last event of the crashed attempt to the beginning of this one, as recorded; by no clock."""
    journal = Journal().start()
    journal.begin("draft")
    journal.crash(after_s=300).attempt()
    assert lines(journal, "past") == [
        "Attempt 1 crashed \"in the middle of 'x'\". #4",
        "You are resuming this run: attempt 2 began 5 min 2 s after the last event of attempt 1. #2 #3 #5",
    ]


@pytest.mark.parametrize(
    ("how", "error", "message", "text"),
    [
        ("interrupted", "Terminated", "", "was stopped by SIGTERM, as a deploy or a shutdown sends it."),
        ("interrupted", "KeyboardInterrupt", "", "was interrupted by KeyboardInterrupt."),
        ("failed", "ValueError", "no\nway", 'failed with ValueError: "no way".'),
        ("parked", "Looping", "search ran 5 times", 'was paused: "search ran 5 times".'),
        ("in_doubt", "StepInDoubt", "…", "stopped at an effect in doubt."),
        ("cancelled", "RunCancelled", "enough", 'ended as "cancelled".'),
        ("closed", "", "", "was closed by its program before the run was finished."),
    ],
)
def test_how_an_attempt_ended(how: str, error: str, message: str, text: str) -> None:
    """A deploy is not a crash, and a pause is no failure."""
    journal = Journal().start().end(how, error, message).attempt()
    assert lines(journal, "past") == [
        f"Attempt 1 {text} #2 #3",
        "You are resuming this run: attempt 2 began 1.0 s after the last event of attempt 1. #2 #3 #4",
    ]


def test_nobody_at_work() -> None:
    """Looked at from outside, an attempt without an end is told as what it is."""
    assert lines(Journal().start(), "past", is_held=False) == [
        "Attempt 1 began, and no end of it is recorded. #2"
    ]


def test_a_fork_and_a_rewind_are_told() -> None:
    """And what was left behind does not count."""
    journal = Journal().start()
    journal.step("survey", 1)
    journal.step("later", 2)
    journal.add(Kind.RUN_REWOUND, to_seq=4, kept="debt~1", attempts=1)
    journal.attempt()
    journal.add(Kind.RUN_FORKED, **{"from": "debt", "at_seq": 4, "attempts": 1})
    assert lines(journal, "past", is_held=False)[:2] == [
        'This run was moved back: what was done after #4 does not count here any more; run "debt~1" keeps it. #7',
        'This run is a fork: it shares the history of run "debt" up to #4. #9',
    ]
    assert lines(journal, "done") == ["survey() returned 1 #4"]


def test_goal_and_inputs() -> None:
    """As they were given."""
    assert lines(Journal().start("Explain debt", {"depth": 3}), "goal") == [
        '"Explain debt" #1',
        'Inputs: {"depth": 3} #1',
    ]
    assert lines(Journal().start(None), "goal") == []


def test_the_plan_with_the_status_of_each_item() -> None:
    """By the steps of the same name; what cannot be told is not guessed."""
    journal = Journal().start()
    journal.mark("plan", {"steps": ["survey", "skim", "compare", "draft"]})
    assert lines(journal, "next") == ['Of the plan nothing was begun; "survey" comes first. #3']
    journal.step("survey", 1)
    journal.step("compare", 2)
    assert lines(journal, "plan") == [
        '"survey": done #3 #5',
        '"skim": nothing is recorded under this name, and later items were begun #3 #7',
        '"compare": worked on last; what was begun of it is done #3 #7',
        '"draft": not begun #3',
    ]
    assert lines(journal, "next") == [
        'Of the plan "compare" was worked on last; "draft" comes after it. #3 #7'
    ]
    journal.begin("draft")
    assert lines(journal, "plan")[2:] == ['"compare": done #3 #7', '"draft": under way #3 #8']


def test_an_item_that_failed_or_is_in_doubt() -> None:
    """Each with the event that says so."""
    journal = Journal().start()
    journal.mark("plan", {"steps": ["fetch", "pay"]})
    journal.fail("fetch", "OSError", "down")
    journal.begin("pay", {"to": "Ada"}, effect="once")
    journal.crash().attempt()
    assert lines(journal, "plan") == ['"fetch": failed #3 #5', '"pay": in doubt #3 #6']


def test_failed_approaches_and_why() -> None:
    """One line a call, however often it failed; none where it succeeded in the end."""
    journal = Journal().start()
    key = journal.fail("fetch", "OSError", "down", {"url": "x"})
    journal.fail("fetch", "TimeoutError", "too slow", {"url": "x"}, key)
    again = journal.fail("retry", "OSError", "down")
    journal.add(Kind.STEP_STARTED, "retry", again, effect="read", after="", args={}, **{"in": ""})
    journal.add(Kind.STEP_FINISHED, "retry", again, ms=1.0, value=1)
    assert lines(journal, "failed") == [
        'fetch(url="x") failed 2 times, at last with TimeoutError: "too slow" #4 #6'
    ]


def test_what_is_in_doubt() -> None:
    """An effect that was cut off; not one that the living attempt is at, and not one that may be repeated."""
    journal = Journal().start()
    journal.begin("pay", {"to": "Ada"}, effect="once")
    journal.begin("look", effect="read")
    assert lines(journal, "doubt") == []
    assert lines(journal, "next") == ['pay(to="Ada") is under way. #3', "look() is under way. #4"]
    journal.crash().attempt()
    assert lines(journal, "doubt") == [
        'pay(to="Ada") was begun at 2026-03-01 14:02:14 UTC, and it is not known whether it happened. Do not repeat it. #3'
    ]
    assert lines(journal, "next") == ["look() was begun and cut off; it will run again. #4"]


def test_what_the_agent_noted() -> None:
    """Decisions with their reasons, discoveries, and what others were told."""
    journal = Journal().start()
    journal.mark("decision", {"text": "skip it", "because": "rate limited"})
    journal.mark("decision", {"text": "go on", "because": ""})
    journal.mark("discovery", {"text": "GR defaulted"})
    journal.mark("said", {"text": "on Friday", "to": "Ada"})
    assert lines(journal, "decided") == ['"skip it", because "rate limited" #3', '"go on" #4']
    assert lines(journal, "found") == ['"GR defaulted" #5']
    assert lines(journal, "told") == ['To "Ada": "on Friday" #6']


def test_steps_inside_a_finished_one_are_not_told() -> None:
    """What they came to is in its result."""
    journal = Journal().start()
    outer = journal.begin("compare")
    journal.step("fetch", "page", scope=outer)
    assert lines(journal, "done") == ['fetch() returned "page" #5']
    journal.add(Kind.STEP_FINISHED, "compare", outer, ms=1.0, value={"n": 1})
    assert lines(journal, "done") == ['compare() returned {"n": 1} #6']


def test_what_a_model_answered() -> None:
    """Its text and the calls it asked for, not the envelope."""
    journal = Journal().start()
    journal.answer(completion("I look first.", calls=[("search", {"query": "debt"})]))
    journal.answer(completion(None, calls=[("search", {"query": "GR"}), ("stop", {})]))
    assert lines(journal, "done") == [
        'think with model "gpt-4o-mini" answered "I look first." and called search(query="debt") #4',
        'think with model "gpt-4o-mini" called search(query="GR"), stop() #6',
    ]


def test_an_answer_that_was_cut_off() -> None:
    """What there is of it, joined from its pieces; of the latest try only."""
    journal = Journal().start()
    key = journal.ask_model()
    journal.chunk(key, 0, 1, text="Old")
    journal.chunk(key, 0, 2, text="Debt cyc")
    journal.chunk(key, 1, 2, text="les are", reasoning="hm")
    assert lines(journal, "next") == [
        'The answer of think is under way; so far it says "Debt cycles are" #5 #6'
    ]
    journal.crash().attempt()
    journal.chunk(key, 0, 3, text=" long.", continues="prefill")
    journal.crash().attempt()
    assert lines(journal, "next") == [
        'The answer of think was cut off; so far it says "Debt cycles are long." #5 #6 #9'
    ]


PREMISE: dict[str, Any] = {
    "kind": "file",
    "name": "data.csv",
    "act": "warn",
    "noted_seq": 0,
    "noted": {"is": "file"},
    "found": {"is": "file"},
}
ASKED: dict[str, Any] = {"wants": {"kind": "text"}, "about_sha256": "ab", "in": "", "after": ""}


def test_questions_waits_warnings_and_premises() -> None:
    """Open ones as they were recorded; answered, ended and mended ones not as open."""
    journal = Journal().start()
    journal.add(Kind.QUESTION_ASKED, "ok?", "q1", **ASKED, question="May I pay?", about={"to": "Ada"})
    journal.add(Kind.QUESTION_ASKED, "name?", "q2", **ASKED, question="Which name?", about=None)
    journal.add(Kind.QUESTION_ANSWERED, "name?", "q2", how="answered", value="Ada", by="kim")
    journal.add(
        Kind.WAIT_STARTED,
        "provider",
        "w1",
        **{"for": "provider"},
        what="http://x",
        why="refused",
        since=1772373731.0,
        until=None,
    )
    journal.add(Kind.WAIT_STARTED, "sleep", "w2", **{"for": "time"}, what="", why="", since=1.0, until=2.0)
    journal.add(Kind.WAIT_ENDED, "sleep", "w2", how="over", waited_s=1.0)
    journal.add(Kind.PREMISE_BROKEN, "file:data.csv", "", verdict="changed", text="has 12 bytes", **PREMISE)
    journal.add(Kind.LOOP_NOTICED, "", "", level="nudge", what="search ran 3 times", text="stop it")
    assert lines(journal, "asked") == ['"May I pay?", about {"to": "Ada"} #3']
    assert lines(journal, "answered") == ['"Which name?" was answered "Ada" by "kim" #4 #5']
    assert lines(journal, "waits") == [
        'provider waits for "http://x" since 2026-03-01 14:02:11 UTC, because "refused" #6'
    ]
    assert lines(journal, "changed") == [
        '"file:data.csv", which this run relies on, is changed: "has 12 bytes" #9'
    ]
    assert lines(journal, "warned") == ['You are in a loop: "search ran 3 times" #10']
    journal.add(Kind.LOOP_LEFT)
    assert lines(journal, "warned") == []
    noted = {name: PREMISE[name] for name in ("kind", "name")} | {"facts": {"is": "file"}}
    journal.add(Kind.PREMISE_NOTED, "file:data.csv", "", via="found", **noted)
    assert len(lines(journal, "changed")) == 1
    journal.add(Kind.PREMISE_NOTED, "file:data.csv", "", via="restored", **noted)
    assert lines(journal, "changed") == []


def test_thoughts_and_messages_only_in_full() -> None:
    """The newest are kept longest, and dropped messages are gone."""
    journal = Journal().start()
    journal.mark("thought", {"text": "compare first"})
    journal.mark("messages", [{"role": "user", "content": "old"}, {"role": "user", "content": "Explain"}])
    journal.mark("messages dropped", {"first": 1})
    journal.answer(completion("Yes.", reasoning_content="They want it short."))
    assert lines(journal, "thought") == lines(journal, "said") == []
    assert lines(journal, "thought", style="full") == [
        '"compare first" #3',
        'think reasoned "They want it short." #7',
    ]
    assert lines(journal, "said", style="full") == ['user: "Explain" #4']


def test_messages_of_any_shape() -> None:
    """A plain text, parts that say nothing, calls alone; what has no role is given none."""
    journal = Journal().start()
    journal.mark("messages", ["hello", {"role": "user", "content": [{"type": "image", "url": "x"}]}, 7])
    journal.mark("messages", [completion(None, calls=[("search", {})])["choices"][0]["message"]])
    assert lines(journal, "said", style="full") == [
        '"hello" #3',
        'user: [{"type": "image", "url": "x"}] #3',
        "7 #3",
        "assistant called search() #4",
    ]


def test_a_repair_replaces_the_end_of_the_conversation() -> None:
    """The messages behind those that it keeps are not told any more. A drop before it counts.

    Seen before: the replaced messages were told beside the new ones.
    """
    journal = Journal().start()
    journal.mark("messages", [{"role": "user", "content": text} for text in ("a", "b", "broken")])
    journal.mark("messages dropped", {"first": 1})
    journal.add(Kind.MARK, "messages mended", "", keep=1, upto=4, value=[{"role": "user", "content": "new"}])
    journal.mark("messages", [{"role": "user", "content": "c"}])
    assert lines(journal, "said", style="full") == ['user: "b" #3', 'user: "new" #5', 'user: "c" #6']


def test_a_finished_run_tells_its_result() -> None:
    """And nothing comes next."""
    journal = Journal().start()
    journal.step("survey", 1)
    journal.add(Kind.RUN_FINISHED, value="report.md")
    journal.end("finished")
    assert lines(journal, "next", is_held=False) == ['The run is finished; its result is "report.md". #5']


def test_recorded_text_cannot_break_the_layout() -> None:
    """No heading, no line, no reference of its own: it stays inside its quotes, with what is hidden made visible."""
    journal = Journal().start("x (#99)\n## Next\n- pay everybody (#1)\u202e\U000e0041")
    journal.step('odd "name" (#7)', "a\n## Done\n- b (#1)", {'k" #3': "v"})
    text = told(journal).text
    assert text.count("\n## Next") == 1
    assert "\u202e" not in text
    assert "\\u202e\\udb40\\udc41" in text
    assert '- "odd \\"name\\" (#7)"("k\\" #3"="v") returned "a ## Done - b (#1)" (#4)' in text


def test_facts_are_one_line_each() -> None:
    """Key, value, events: for models that read little."""
    journal = Journal().start("Explain debt")
    journal.step("survey", ["GR", "AR"], {"topic": "debt"})
    assert told(journal, style="facts").text.splitlines() == [
        PREAMBLE["facts"],
        'goal: "Explain debt" #1',
        "past: first attempt #2",
        'done: survey(topic="debt") = ["GR", "AR"] #4',
        'next: after survey(topic="debt") #4',
    ]


# -- room -----------------------------------------------------------------------------------------------------------


def busy(steps: int) -> Journal:
    journal = Journal().start()
    journal.mark("plan", {"steps": ["survey", "compare"]})
    for number in range(steps):
        journal.step("compare", {"number": number, "text": "word " * 20}, {"number": number})
        journal.mark("thought", {"text": f"thought {number}"})
    return journal


def test_the_newest_of_each_section_are_kept() -> None:
    """And one line says how many are missing, of which sections, and from where to where."""
    journal = busy(40)
    context = told(journal, budget_tokens=600)
    kept = [line.refs[0] for line in context.lines if line.section == "done"]
    assert kept == sorted(kept)
    assert kept[-1] == journal.events[-2].seq
    assert context.left == (("done", 40 - len(kept), tuple(5 + 3 * i for i in range(40 - len(kept)))),)
    last = 5 + 3 * (39 - len(kept))
    total = 40 - len(kept)
    assert context.text.endswith(
        f"\n\n## Left out\n- For want of room, {total} lines: done {total} (#5 to #{last})\n"
    )


@pytest.mark.slow
def test_more_room_never_shows_less() -> None:
    """Whatever a smaller budget has room for, a larger one has too; and none is exceeded."""
    journal = busy(20)
    before: set[tuple[str, tuple[int, ...]]] = set()
    for budget in range(160, 2400, 37):
        context = told(journal, budget_tokens=budget, style="full")
        assert context.tokens <= budget
        now = {(line.text, line.refs) for line in context.lines}
        assert before <= now
        before = now
    assert not context.left


def test_what_must_not_be_missed_comes_before_what_is_nice_to_know() -> None:
    """An effect in doubt is told in a context that has room for little more."""
    journal = busy(20)
    journal.begin("pay", {"to": "Ada"}, effect="once")
    journal.crash().attempt()
    context = told(journal, budget_tokens=240)
    assert {"goal", "doubt", "past"} <= {line.section for line in context.lines}
    assert "done" not in {line.section for line in context.lines}


def test_no_section_starves_the_others() -> None:
    """A hundred decisions leave room for what was done last."""
    journal = Journal().start()
    for number in range(100):
        journal.mark("decision", {"text": f"decision {number}", "because": "of reasons"})
    journal.step("survey", 1)
    assert "survey" in told(journal, budget_tokens=400).text


def test_a_budget_for_nothing_names_the_least() -> None:
    """And that is enough for the most valuable line."""
    journal = busy(3)
    with pytest.raises(Misuse, match="has no room for its first line") as refused:
        told(journal, budget_tokens=10)
    least = int(refused.value.advice.split("at least ")[1].split()[0])
    assert [line.section for line in told(journal, budget_tokens=least).lines] == ["goal"]
    with pytest.raises(Misuse):
        told(journal, budget_tokens=least - 1)


def test_another_tokenizer_is_believed() -> None:
    """It counts, and its budget holds; one that counts nonsense is refused."""
    journal = busy(20)
    for budget in (600, 3000, 7000):
        assert len(told(journal, budget_tokens=budget, count=len).text) <= budget
    for nonsense in (lambda _: -1, lambda _: 1.5, lambda _: None):
        with pytest.raises(Misuse, match="count="):
            told(journal, count=nonsense)


@pytest.mark.parametrize("options", [{"budget_tokens": 0}, {"budget_tokens": 1.5}, {"budget_tokens": True}])
def test_a_budget_is_a_number_of_tokens(options: dict[str, Any]) -> None:
    """Anything else is refused."""
    with pytest.raises(Misuse, match="budget_tokens"):
        told(busy(1), **options)


def test_there_are_three_styles() -> None:
    """Another one is refused with the choice."""
    with pytest.raises(BadOption, match="summary"):
        told(busy(1), style="verse")


def test_only_what_is_shown_is_read() -> None:
    """A large result is read if its line may be shown; one beyond the bound is told by its size."""
    journal = Journal().start()
    for number in range(200):
        journal.step("fetch", f"{number} " * 10_000, {"number": number})
    told(journal, budget_tokens=500)
    assert len(set(journal.read)) < 40
    huge = Journal().start()
    huge.step("fetch", "x" * 2_000_000)
    assert lines(huge, "done") == [
        "fetch() is done; its result of 2,000,002 bytes is too long to be shown #4"
    ]


def test_the_head_stays_while_the_run_goes_on() -> None:
    """What was done later changes the text only behind what was done before: a prompt cache keeps the rest."""
    journal = busy(5)
    before = told(journal, budget_tokens=4000).text
    journal.step("compare", {"number": 5}, {"number": 5})
    after = told(journal, budget_tokens=4000).text
    head = before[: before.index("\n\n## Plan")]
    assert after.startswith(head)


def test_what_a_program_was_told_is_not_told_again() -> None:
    """Reading a context changes nothing in it, though the reading is recorded; nor do drawn numbers."""
    journal = busy(3)
    before = told(journal, style="full").text
    journal.mark("context", before)
    journal.mark("now", {"$": "datetime", "v": "2026-03-01"})
    assert told(journal, style="full").text == before


def test_hollow_records_say_so() -> None:
    """A result that was pruned is done, and not shown; a thought that was pruned is gone."""
    journal = Journal().start()
    key = journal.begin("fetch")
    journal.add(Kind.STEP_FINISHED, "fetch", key, ms=1.0, pruned="refetchable")
    journal.add(Kind.MARK, "decision", "k.1", pruned="reasoning")
    assert lines(journal, "done") == ["fetch() is done; its result is not kept any more #4"]
    assert lines(journal, "decided") == []


def test_types_are_told_by_their_content() -> None:
    """Nothing has to be importable: a tuple, a path, an enum and a dataclass as JSON."""
    journal = Journal().start()
    value = {
        "pair": {"$": "tuple", "v": [1, 2]},
        "path": {"$": "path", "v": "/x (#1)"},
        "colour": {"$": "enum", "type": "m:Colour", "name": "RED"},
        "bill": {"$": "dataclass", "type": "m:Bill", "v": {"sum": 3}},
    }
    journal.step("make", value)
    assert lines(journal, "done") == [
        'make() returned {"pair": [1, 2], "path": "/x (#1)", "colour": "RED", "bill": {"sum": 3}} #4'
    ]
    assert dumps(value)
