"""Laws of the search for circles, over any sequence of calls and thoughts."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.loops import LEVELS, Act, LoopPolicy, Loops, Sign, Thought, Thresholds

relaxed = settings(max_examples=200, deadline=None)

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


@relaxed
@given(facts, st.data(), policies)
def test_a_restart_changes_nothing(
    seen: list[Act | Thought], data: st.DataObject, policy: LoopPolicy
) -> None:
    """Dumped and loaded at any point, the same signs follow. Planted: ``matched`` left out of the dump."""
    cut = data.draw(st.integers(0, len(seen)))
    undisturbed = signs(Loops(policy), seen)
    loops = Loops(policy)
    before = signs(loops, seen[:cut])
    after = signs(Loops.load(json.loads(json.dumps(loops.dump())), policy), seen[cut:])
    assert before + after == undisturbed


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
    kept = loops.dump()
    assert len(kept["known"]) + len(kept["polled"]) <= policy.memory + 1
    assert len(kept["tail"]) <= 3


@relaxed
@given(acts, st.integers(2, 30))
def test_signs_only_get_graver(act: Act, times: int) -> None:
    """The same call over and over goes up from warning to pause and never down."""
    given_signs = [sign for sign in signs(Loops(), [act] * times) if sign is not None]
    ranks = [LEVELS.index(sign.level) for sign in given_signs]
    assert ranks == sorted(ranks)
    assert [sign.times for sign in given_signs] == list(range(2, times + 1))
