"""Going in circles: what is noticed, how gravely, and what is not taken for it."""

from itertools import product

import pytest

from holdfast.core.loops.fast_check import LoopDetector
from holdfast.core.loops.loop_acts import act_of
from holdfast.core.loops.loop_detector import Loops
from holdfast.model.loops import Act, LoopPolicy, Sign, Thought, Thresholds

A = Act("search", "args-a", "result-a")
B = Act("fetch", "args-b", "result-b")
C = Act("parse", "args-c", "result-c")


def levels(facts: list[Act | Thought], policy: LoopPolicy | None = None) -> list[str]:
    """The sign of each fact as a word; a dash where there is none."""
    loops = Loops(policy)
    return [sign.level if (sign := loops.see(fact)) else "-" for fact in facts]


def last(facts: list[Act | Thought], policy: LoopPolicy | None = None) -> Sign | None:
    """The sign that the last fact gives."""
    loops = Loops(policy)
    return [loops.see(fact) for fact in facts][-1]


def new(n: int) -> Act:
    """Something not seen before."""
    return Act("search", f"args-{n}", f"result-{n}")


# -- repeats ----------------------------------------------------------------------------------------------------


def test_the_same_call_with_the_same_result_is_a_repeat() -> None:
    """Twice is worth a line in the log, three times a word to the model, five times a person."""
    assert levels([A] * 6) == ["-", "warn", "nudge", "nudge", "pause", "pause"]


def test_a_nudge_has_a_text_for_the_model() -> None:
    """The text names the tool and how often; other signs have none, what happened is told in all of them."""
    text = "You have called search with the same arguments 3 times and got the same result; try something else or finish."
    assert last([A] * 3) == Sign(
        "nudge",
        "repeat",
        ("search",),
        3,
        "search ran 3 times with the same arguments and the same result",
        text,
    )
    pause = last([A] * 5)
    assert pause is not None
    assert (pause.text, pause.what) == (
        "",
        "search ran 5 times with the same arguments and the same result",
    )


def test_other_results_are_progress() -> None:
    """The same question with another answer each time is no circle. Planted: the result left out of the comparison."""
    assert set(levels([A._replace(result=str(n)) for n in range(20)])) == {"-"}


def test_anything_new_in_between_is_progress() -> None:
    """Click, read, click, read: the click says "ok" each time, the pages differ. Planted: ``_progress`` keeps ``since``."""
    facts: list[Act | Thought] = []
    for n in range(20):
        facts += [A, new(n)]
    assert set(levels(facts)) == {"-"}


def test_a_repeat_is_seen_through_other_old_calls() -> None:
    """No regular order is needed where nothing new comes: the count is of all times, the level of those without news."""
    sign = last([A, B, A, A, B, B, A])
    assert sign is not None
    assert (sign.level, sign.pattern, sign.times) == ("nudge", "repeat", 4)


def test_what_lies_too_far_back_is_new_again() -> None:
    """Beyond the policy's memory a call is no repetition, and the state does not grow."""
    policy = LoopPolicy(memory=4)
    loops = Loops(policy)
    for n in range(1000):
        assert loops.see(new(n % 5)) is None
    assert len(loops._known) <= 5
    assert levels([new(n % 4) for n in range(20)], policy) != ["-"] * 20


# -- alternations -----------------------------------------------------------------------------------------------


def test_two_calls_in_turn_are_an_alternation() -> None:
    """A-B-A-B is noticed at the end of the second round, and told as what it is."""
    assert levels([A, B] * 5) == ["-", "-", "-", "warn", "warn", "nudge", "nudge", "nudge", "nudge", "pause"]
    sign = last([A, B] * 3)
    assert sign is not None
    assert (sign.pattern, sign.names, sign.times) == ("alternation", ("search", "fetch"), 3)
    assert sign.text == (
        "You are in a loop: you have called search, fetch in turn 3 times, "
        "with the same arguments and the same results; try something else or finish."
    )


def test_three_calls_in_turn_are_an_alternation() -> None:
    """Period 3. Planted: only period 2 looked at, which left a mere repeat of one of the three."""
    sign = last([A, B, C] * 2)
    assert sign is not None
    assert (sign.level, sign.pattern, sign.names, sign.times) == (
        "warn",
        "alternation",
        ("search", "fetch", "parse"),
        2,
    )


def test_a_longer_circle_is_still_a_repeat() -> None:
    """Four calls in turn have no name of their own, and are not overlooked."""
    circle: list[Act | Thought] = [A, B, C, new(1)]
    sign = last(circle * 3)
    assert sign is not None
    assert (sign.level, sign.pattern) == ("nudge", "repeat")


def test_the_graver_sign_wins() -> None:
    """A tool repeated to the end of patience is not hidden by a young alternation. Planted: the alternation came first."""
    facts: list[Act | Thought] = [B, A, B, B, B, A, B, A, B]
    sign = last(facts)
    assert sign is not None
    assert (sign.level, sign.pattern) == ("pause", "repeat")


def test_flipping_results_are_a_circle() -> None:
    """On, off, on, off: the same call with two results in turn leads nowhere either."""
    sign = last([A, A._replace(result="off")] * 3)
    assert sign is not None
    assert (sign.level, sign.pattern, sign.names) == ("nudge", "alternation", ("search", "search"))


# -- thoughts ---------------------------------------------------------------------------------------------------

LONG = (
    "I should look at the sources again and compare what they say about the defaults of the nineties before "
    "writing the draft"
)


def test_the_same_thought_again_is_noticed() -> None:
    """Case, punctuation and order do not make a new thought."""
    same = [
        Thought("Let me search again."),
        Thought("let me search AGAIN…"),
        Thought("Again: let me search!"),
    ]
    assert levels([*same, *same]) == ["-", "-", "warn", "nudge", "nudge", "pause"]


def test_nearly_the_same_thought_is_the_same() -> None:
    """One word of many changed: 0.85 of all words in common is the line."""
    assert levels([Thought(LONG), Thought(LONG.replace("draft", "report")), Thought(LONG)])[-1] == "warn"
    assert levels([Thought("Look for Greece now"), Thought("Look for Argentina now")] * 3) == ["-"] * 6


def test_a_changed_number_is_a_new_thought() -> None:
    """Page 7 of 40 and page 8 of 40 differ in one word of many, and in what matters. Planted: numbers as mere words."""
    assert set(levels([Thought(f"{LONG}, page {n} of 40") for n in range(10)])) == {"-"}


def test_small_changes_that_add_up_are_a_development() -> None:
    """Compared with the first of a kind. Planted: compared with the last, a slow change was never one."""
    words = [f"word{chr(97 + n)}" for n in range(26)]
    facts: list[Act | Thought] = [Thought(" ".join(words[n : n + 14])) for n in range(12)]
    assert set(levels(facts)) == {"-"}


def test_the_same_thought_between_new_acts_is_fine() -> None:
    """Saying "next page" before each new page is no circle; before the same page it is."""
    turning: list[Act | Thought] = []
    stuck: list[Act | Thought] = []
    for n in range(10):
        turning += [Thought("next page"), new(n)]
        stuck += [Thought("next page"), A]
    assert set(levels(turning)) == {"-"}
    assert "pause" in levels(stuck)


def test_a_thought_without_words_is_none() -> None:
    """Dots and blanks say nothing."""
    assert set(levels([Thought("…"), Thought("")] * 10)) == {"-"}


def test_scripts_without_blanks_have_words_too() -> None:
    """A Chinese sentence is not one long word: with one sign of many changed it is nearly the same."""
    sentence = "我应该再看一遍资料然后比较它们对九十年代违约的说法再写草稿"
    assert levels([Thought(sentence), Thought(sentence.replace("稿", "案")), Thought(sentence)])[-1] == "warn"


def test_a_very_long_thought_is_kept_short() -> None:
    """What is kept does not grow with the text; its beginning and its end are compared."""
    loops = Loops()
    loops.see(Thought(" ".join(f"word{n}" for n in range(100_000))))
    assert sum(map(len, loops._words)) < 10_000


# -- the policy -------------------------------------------------------------------------------------------------


def test_thresholds_per_tool() -> None:
    """A tool may have more patience than the rest, or a rung left out."""
    policy = LoopPolicy(tools={"search": Thresholds(warn=4, nudge=0, pause=6)})
    assert levels([A] * 6, policy) == ["-", "-", "-", "warn", "warn", "pause"]
    assert levels([B] * 3, policy) == ["-", "warn", "nudge"]


def test_the_most_patient_tool_of_a_circle_decides() -> None:
    """For the circle as a whole; the impatient one still counts for itself."""
    policy = LoopPolicy(tools={"search": Thresholds(0, 0, 0), "fetch": Thresholds(3, 4, 5)})
    assert levels([A, B] * 3, policy) == ["-", "-", "-", "-", "-", "warn"]
    sign = last([A, B] * 3, policy)
    assert sign is not None
    assert sign.pattern == "repeat"


def test_a_polling_tool_never_counts() -> None:
    """Its result may stay the same for as long as it likes."""
    assert set(levels([A] * 100, LoopPolicy(polling=frozenset({"search"})))) == {"-"}


def test_a_polling_tool_hides_nobody_elses_repeats() -> None:
    """With the same answer it is as if it had not been asked; another answer is progress."""
    policy = LoopPolicy(polling=frozenset({"fetch"}))
    assert levels([A, B] * 6, policy)[-2:] == ["pause", "-"]
    facts: list[Act | Thought] = []
    for n in range(10):
        facts += [A, B._replace(result=str(n))]
    assert set(levels(facts, policy)) <= {"-"}


def test_the_off_switch() -> None:
    """Nothing is said, and nothing is kept."""
    loops = Loops(LoopPolicy(on=False))
    assert [loops.see(A) for _ in range(10)] == [None] * 10
    assert not loops._known


@pytest.mark.parametrize("threshold", [1, -1])
def test_the_first_time_is_never_a_sign(threshold: int) -> None:
    """Whatever the thresholds say."""
    policy = LoopPolicy(thresholds=Thresholds(threshold, 0, 0))
    assert levels([A, B, C], policy) == ["-", "-", "-"]


# -- what calls declare -----------------------------------------------------------------------------------------


def test_a_call_declares_its_own_thresholds() -> None:
    """They go before the policy's own; what the policy says of that tool by name goes before them."""
    own = Thresholds(warn=0, nudge=2, pause=0)
    loops = Loops()
    assert [bool(loops.see(A, own)) for _ in range(6)] == [False, True, True, True, True, True]
    named = Loops(LoopPolicy(tools={"search": Thresholds(0, 0, 0)}))
    assert [named.see(A, own) for _ in range(6)] == [None] * 6


def test_a_call_declares_itself_polling() -> None:
    """As if the policy had named it."""
    loops = Loops()
    assert [loops.see(A, "polling") for _ in range(6)] == [None] * 6


def test_a_call_that_is_not_looked_at() -> None:
    """Neither a repeat nor news: a model's answer, new each time, does not hide that the same search runs again."""
    loops = Loops()
    given = []
    for n in range(5):
        assert loops.see(Act("model", f"so far {n}", f"answer {n}"), "off") is None
        assert not loops.has_news
        given.append(sign.level if (sign := loops.see(A)) else "-")
    assert given == ["-", "warn", "nudge", "nudge", "pause"]


def test_news_are_told() -> None:
    """A new call, or another result of an old one; a repeat and a thought are none."""
    loops = Loops()
    told = []
    for fact in (A, A, A._replace(result="other"), Thought("hm"), B, A):
        loops.see(fact)
        told.append(loops.has_news)
    assert told == [True, False, True, False, True, False]


# -- looking out ------------------------------------------------------------------------------------------------


OUTCOME = b'{"ms":0.1,"value":1}'


@pytest.mark.slow
@pytest.mark.parametrize("memory", [1, 2])
def test_looking_out_is_exact_for_every_short_history(memory: int) -> None:
    """New calls are kept back until something may repeat; of all short histories none shows it.

    Planted: one call too few kept back; what fell out of them not forgotten.
    """
    policy = LoopPolicy(memory=memory)
    for history in product("abcd", repeat=7):
        loops, detector = Loops(policy), LoopDetector(policy)
        for name in history:
            sign = loops.see(act_of((name, 1), OUTCOME))
            assert detector.call((name, 1), OUTCOME, None) == sign, history
            assert detector.has_news == loops.has_news, history
