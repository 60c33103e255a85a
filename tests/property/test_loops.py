"""Laws of the search for circles, over any sequence of calls and thoughts."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from holdfast.core.loops.fast_check import LoopDetector
from holdfast.core.loops.loop_acts import act_of
from holdfast.core.loops.loop_detector import Loops
from holdfast.limits import LOOP_FACTS_MAX
from holdfast.model.loops import LEVELS, Act, LoopPolicy, Manner, Sign, Thought, Thresholds

relaxed = settings(max_examples=examples(200), deadline=None)

few = st.sampled_from(["a", "b", "c"])
acts = st.builds(Act, few, few, few)
thoughts = st.builds(
    Thought, st.sampled_from(["look again", "Look again!", "page 1", "page 2", "", "write the draft"])
)
rounds = st.builds(
    lambda block, times: block * times,
    st.lists(st.one_of(acts, thoughts), min_size=1, max_size=4),
    st.integers(1, 6),
)
# Whole rounds, because single facts by chance hardly ever go in circles.
facts = st.lists(rounds, max_size=6).map(lambda blocks: [fact for block in blocks for fact in block])
thresholds = st.builds(Thresholds, *[st.integers(0, 6)] * 3)
policies = st.builds(
    LoopPolicy,
    thresholds=thresholds,
    tools=st.dictionaries(few, thresholds, max_size=2),
    polling=st.frozensets(few, max_size=1),
    thoughts=thresholds,
    memory=st.integers(1, 10),
)


def signs(loops: Loops, seen: list[Act | Thought]) -> list[Sign | None]:
    return [loops.see(fact) for fact in seen]


@relaxed
@given(st.lists(acts, unique=True, max_size=27), policies)
def test_no_sign_without_repetition(seen: list[Act | Thought], policy: LoopPolicy) -> None:
    """Calls that differ in name, arguments or result never give one. Planted: a threshold of 1 taken at its word."""
    assert set(signs(Loops(policy), seen)) <= {None}


@relaxed
@given(facts, policies)
def test_a_sign_is_only_given_for_what_was_there_before(
    seen: list[Act | Thought], policy: LoopPolicy
) -> None:
    """The fact that gives a sign about a call has been seen already, and so often as the sign says."""
    loops = Loops(policy)
    for n, fact in enumerate(seen):
        sign = loops.see(fact)
        if sign is not None and sign.pattern == "repeat":
            assert sign.times <= seen[: n + 1].count(fact)
            assert sign.times >= 2
        if sign is not None and sign.pattern == "alternation":
            assert fact in seen[:n]


manners: st.SearchStrategy[Manner] = st.one_of(
    st.none(), st.none(), st.none(), thresholds, st.sampled_from(["polling", "off"])
)


mixed = st.lists(
    st.sampled_from(
        [*(Act(name, "x", "y") for name in "abcdefgh"), Act("a", "x", "z"), Thought("look again")]
    ),
    max_size=40,
)


@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(mixed, facts), st.dictionaries(few, manners), policies, st.integers(1, 5))
def test_looking_out_gives_the_same_signs(
    seen: list[Act | Thought], manners: dict[str, Manner], policy: LoopPolicy, memory: int
) -> None:
    """Keeping new calls back until something may repeat changes neither a sign nor what is news.

    Planted: one call too few kept back; those that fall out not forgotten; the calls made lately one too few.
    """
    policy = policy._replace(on=True, memory=memory)
    loops, detector = Loops(policy), LoopDetector(policy)
    for fact in seen:
        manner = manners.get(fact.name) if isinstance(fact, Act) else None
        if isinstance(fact, Act):
            outcome = b'{"ms":0.1,"value":"%s"}' % str(fact.result).encode()
            called = (fact.name, fact.arguments)
            assert detector.call(called, outcome, manner) == loops.see(act_of(called, outcome), manner)
        else:
            assert detector.thought(fact.text) == loops.see(fact)
        assert detector.has_news == loops.has_news


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(acts, min_size=1, max_size=20, unique=True), st.integers(2, 40), st.data())
def test_the_end_of_a_history_is_enough(block: list[Act | Thought], times: int, data: st.DataObject) -> None:
    """Whoever looks only at the last calls of a long history gives the signs of one that has seen it all.

    Only how often a thing was done may be told as less than it is. Planted: 50 calls instead of so many.
    """
    seen = block * times
    cut = data.draw(st.integers(0, len(seen)))
    undisturbed = [sign and (sign.level, sign.pattern, sign.names) for sign in signs(Loops(), seen)]
    loops = Loops()
    signs(loops, seen[:cut][-LOOP_FACTS_MAX:])
    after = [sign and (sign.level, sign.pattern, sign.names) for sign in signs(loops, seen[cut:])]
    assert after == undisturbed[cut:]


@relaxed
@given(facts, policies)
def test_off_gives_nothing(seen: list[Act | Thought], policy: LoopPolicy) -> None:
    """With the switch off there is no sign, whatever happens."""
    assert set(signs(Loops(policy._replace(on=False)), seen)) <= {None}


@relaxed
@given(facts, policies)
def test_what_is_kept_is_bounded(seen: list[Act | Thought], policy: LoopPolicy) -> None:
    """By the policy's memory, not by the length of the run."""
    loops = Loops(policy)
    signs(loops, seen * 3)
    assert len(loops._known) + len(loops._polled) <= policy.memory + 1
    assert len(loops._tail) <= 3


@relaxed
@given(acts, st.integers(2, 30))
def test_signs_only_get_graver(act: Act, times: int) -> None:
    """The same call over and over goes up from warning to pause and never down."""
    given_signs = [sign for sign in signs(Loops(), [act] * times) if sign is not None]
    ranks = [LEVELS.index(sign.level) for sign in given_signs]
    assert ranks == sorted(ranks)
    assert [sign.times for sign in given_signs] == list(range(2, times + 1))
