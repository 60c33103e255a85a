"""``holdfast resolve``: a person settles what nobody can know, and the run reads it."""

import json
import re
import shlex
import sys
from textwrap import dedent, indent
from typing import TYPE_CHECKING

import pytest

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

BEGUN = 1772373731.0


@pytest.fixture
def doubtful(own_shop: "Shop") -> "Shop":
    """A run whose process was killed in the middle of ``create_contact``."""
    assert own_shop.work("debt-cycles", "crash") == -9
    return own_shop


def test_without_an_option_it_lists_what_is_in_doubt(doubtful: "Shop") -> None:
    """The step with what helps to look it up, the ways to settle it, and exit code 3."""
    answer = doubtful("resolve", "debt-cycles")
    assert answer.code == 3
    assert answer.out == indent(
        dedent("""\
            step             create_contact, started 2026-03-01 14:02:13 UTC, never reported back
            id               d18, key KEY-OF-create_contact-1
            arguments        {"name": "Ada"}
            idempotency key  IDEMPOTENCY-KEY

            holdfast resolve debt-cycles d18 --done JSON --store STORE  # it happened, and returned this
            holdfast resolve debt-cycles d18 --retry --store STORE  # it did not happen: do it now
            holdfast resolve debt-cycles d18 --failed --store STORE  # it failed: raise that in the program
            python agent.py STORE debt-cycles 1772373731.0 crash  # let its verify decide, if it has one
            """),
        "  ",
    )
    assert doubtful("resolve", "debt-cycles", "create_contact").code == 3


def test_nothing_in_doubt_is_exit_code_0(shop: "Shop") -> None:
    """A run without doubts says so."""
    answer = shop("resolve", "daily.2")
    assert (answer.code, answer.out) == (0, "nothing is in doubt in run daily.2\n")


def test_done_gives_the_program_that_value(doubtful: "Shop") -> None:
    """``--done JSON``: the call is answered with the value and never runs; the run finishes."""
    answer = doubtful("resolve", "debt-cycles", "create_contact", "--done", '{"id": 9}', "--by", "kim")
    assert answer.code == 0
    assert answer.out == dedent("""\
        resolved  create_contact (d18) of run debt-cycles: done
        meaning   it counts as done: the program gets this value, and nothing runs
        next      start its program again: the run applies this and continues
          python agent.py STORE debt-cycles 1772373731.0 crash
        """)
    assert doubtful.work("debt-cycles", "finish", BEGUN + 60) == 0
    assert 'settled: done create_contact by kim {"id": 9}' in squeezed(doubtful("log", "debt-cycles").out)
    assert '7 create_contact {"name": "Ada"} once done by kim: {"id": 9}' in squeezed(
        doubtful("show", "debt-cycles").out
    )
    assert doubtful("resolve", "debt-cycles").code == 0


def squeezed(text: str) -> str:
    """The text with single blanks."""
    return re.sub(" +", " ", text)


def test_done_reads_its_value_from_stdin(doubtful: "Shop") -> None:
    """``--done -`` for values that are awkward to quote."""
    assert doubtful("resolve", "debt-cycles", "--done", "-", stdin='"it\'s sent"').code == 0
    assert doubtful.work("debt-cycles", "finish", BEGUN + 60) == 0
    assert doubtful.store.events("debt-cycles")[-3].body.count(b"it's sent") == 1


def test_retry_lets_it_run_again(doubtful: "Shop") -> None:
    """``--retry``: the call runs, under the key it had, and counts its tries."""
    key = json.loads(doubtful("show", "debt-cycles", "--json").out)["doubts"][0]["key"]
    assert doubtful("resolve", "debt-cycles", key, "--retry").code == 0
    assert doubtful.work("debt-cycles", "finish", BEGUN + 60) == 0
    assert "settled: retry create_contact" in squeezed(doubtful("log", "debt-cycles").out)
    assert "once    done, 2 tries" in doubtful("show", "debt-cycles").out


@pytest.mark.parametrize("message", [(), ("the CRM refused Ada",)])
def test_failed_raises_in_the_program(doubtful: "Shop", message: tuple[str, ...]) -> None:
    """``--failed [MESSAGE]``: the program gets a RuntimeError, and the run fails if nobody catches it."""
    assert doubtful("resolve", "debt-cycles", "create_contact", "--failed", *message).code == 0
    assert doubtful.work("debt-cycles", "finish", BEGUN + 60) == 1
    told = message[0] if message else "resolved as failed"
    assert f"RuntimeError: {told}" in doubtful("show", "debt-cycles").out


def test_abandon_sets_a_recorded_call_aside(doubtful: "Shop") -> None:
    """``--abandon``: the call is not in doubt any more once the run has taken it in."""
    assert doubtful("resolve", "debt-cycles", "--abandon").code == 0
    with holdfast.run("debt-cycles", store=doubtful.store):
        pass
    assert doubtful("resolve", "debt-cycles").code == 0
    assert "step abandoned create_contact" in squeezed(doubtful("log", "debt-cycles").out)
    assert "once    abandoned" in doubtful("show", "debt-cycles").out


def test_a_resolution_that_waits_is_shown(doubtful: "Shop") -> None:
    """Until the run goes on the step stays in doubt, with what was said about it; a second answer is refused."""
    doubtful("resolve", "debt-cycles", "--retry")
    listed = doubtful("resolve", "debt-cycles")
    assert listed.code == 3
    assert "resolved         retry; applied when the run continues" in listed.out
    assert "python agent.py STORE debt-cycles 1772373731.0 crash  # the run reads it" in listed.out
    again = doubtful("resolve", "debt-cycles", "--done", "1")
    assert again.code == 1
    assert "a resolution waits in its inbox already" in again.err
    assert json.loads(doubtful("resolve", "debt-cycles", "--json").out)["in_doubt"][0]["pending"] == "retry"


def test_the_answer_is_json_too(doubtful: "Shop") -> None:
    """What was resolved, how, and the command that goes on."""
    answer = json.loads(doubtful("resolve", "debt-cycles", "--retry", "--json").out)
    assert answer == {
        "run": "debt-cycles",
        "step": "create_contact",
        "key": "KEY-OF-create_contact-1",
        "started_at": "2026-03-01T14:02:13.750Z",
        "reason": "never reported back",
        "pending": "retry",
        "seq": 18,
        "id": "d18",
        "next": [{"command": "python agent.py STORE debt-cycles 1772373731.0 crash", "meaning": ""}],
    }


class TestTwoInDoubt:
    """Two calls of the same name, each in doubt: a name alone does not tell which."""

    @pytest.fixture
    def two(self, own_shop: "Shop") -> "Shop":
        own_shop.work("contacts", "two")
        return own_shop

    def test_both_are_listed(self, two: "Shop") -> None:
        """Each with its own key; the commands to type name one by it."""
        out = two("resolve", "contacts").out
        assert out.count("raised TimeoutError: no answer from the CRM") == 2
        assert "find out whether 'create_contact' and 1 more happened" in two("show", "contacts").out
        assert "holdfast resolve contacts d3 --retry" in out

    def test_no_step_is_ambiguous(self, two: "Shop") -> None:
        """Left out, the step is refused with both keys; nothing is written."""
        answer = two("resolve", "contacts", "--retry")
        assert answer.code == 1
        assert answer.err == (
            "error: 2 steps of run contacts are in doubt: create_contact (d3), create_contact (d5)\n"
            "hint: name them by their ids, or decide about all of them with --all\n"
        )
        assert json.loads(two("resolve", "contacts", "--json").out)["in_doubt"][0]["pending"] is None

    def test_a_name_of_both_is_ambiguous(self, two: "Shop") -> None:
        """The name is refused as well; the key of one is taken."""
        answer = two("resolve", "contacts", "create_contact", "--retry")
        assert answer.code == 1
        assert (
            "has several steps 'create_contact'; it has: create_contact (d3), create_contact (d5)"
            in answer.err
        )
        assert (
            "hint: `holdfast show contacts --store STORE` lists the steps in doubt with their keys\n"
            in answer.err
        )
        assert two("resolve", "contacts", "KEY-OF-create_contact-2", "--retry").code == 0

    def test_the_last_undecided_one_needs_no_name(self, two: "Shop") -> None:
        """Once one of the two is decided, the other is meant."""
        assert two("resolve", "contacts", "KEY-OF-create_contact-1", "--failed").code == 0
        assert "KEY-OF-create_contact-2" in two("resolve", "contacts", "--retry", "--json").out

    @pytest.mark.parametrize("words", [("d3", "d5"), ("--all",)])
    def test_several_are_decided_at_once(self, two: "Shop", words: tuple[str, ...]) -> None:
        """By their ids, or all of them."""
        answer = two("resolve", "contacts", *words, "--retry")
        assert answer.code == 0
        assert "resolved  create_contact (d3), create_contact (d5) of run contacts: retry" in answer.out
        pending = json.loads(two("resolve", "contacts", "--json").out)["in_doubt"]
        assert [doubt["pending"] for doubt in pending] == ["retry", "retry"]

    def test_one_that_is_not_in_doubt_stops_all(self, two: "Shop") -> None:
        """Nothing is decided where one of several ids is wrong."""
        assert two("resolve", "contacts", "d3", "d99", "--retry").code == 1
        pending = json.loads(two("resolve", "contacts", "--json").out)["in_doubt"]
        assert [doubt["pending"] for doubt in pending] == [None, None]


def _charge(who: str) -> str:
    return who


class TestStoppedCalls:
    """A tool was renamed: its two recorded effects were not asked for, and the new calls stop one by one."""

    @pytest.fixture
    def renamed(self, own_shop: "Shop") -> "Shop":
        self.charge(own_shop, "charge", finishes=False)
        self.stop(own_shop)
        return own_shop

    def charge(self, shop: "Shop", name: str, *, finishes: bool = True) -> None:
        run = holdfast.run("shop", store=shop.store).open()
        try:
            for who in ("Ada", "Bob"):
                run.once(name, _charge, who)
            if finishes:
                run.finish(None)
        finally:
            run.close()

    def stop(self, shop: "Shop") -> None:
        with pytest.raises(holdfast.EffectUnclaimed):
            self.charge(shop, "charge_card")

    def test_they_are_listed_beside_what_they_may_be(self, renamed: "Shop") -> None:
        """The call, the effects, the likeliest one first, and a command for each decision; exit code 3."""
        answer = renamed("resolve", "shop")
        assert answer.code == 3
        shown = dedent("""\
            now  charge_card(who="Ada")
            d3   charge(who="Ada"), done; not asked for
            d5   charge(who="Bob"), done; not asked for

            holdfast resolve shop d3 --same --store STORE  # it is that one: its result answers
            holdfast resolve shop d3 --new --store STORE  # it is a new one: make it
            holdfast resolve shop d3 --abandon --store STORE  # the recorded one counts no more
            """)
        assert answer.out.startswith(indent(shown, "  "))
        assert "Stopped" in renamed("show", "shop").out

    def test_the_resume_plan_lists_them(self, renamed: "Shop", monkeypatch: pytest.MonkeyPatch) -> None:
        """The stopped call, what it may be, and commands that work as printed; a decision that waits is shown."""
        monkeypatch.setattr(
            sys, "orig_argv", [sys.executable, __file__]
        )  # a script, which can be started again
        self.stop(renamed)
        answer = renamed("resume", "shop", "--dry-run")
        assert answer.err == ""
        seen = answer.out
        shown = dedent("""\
            Stopped
              now  charge_card(who="Ada")
              d3   charge(who="Ada"), done; not asked for
              d5   charge(who="Bob"), done; not asked for

              holdfast resolve shop d3 --same --store STORE  # it is that one: its result answers
              holdfast resolve shop d3 --new --store STORE  # it is a new one: make it
              holdfast resolve shop d3 --abandon --store STORE  # the recorded one counts no more
            """)
        assert shown in seen
        plan = renamed.store.resume_plan("shop")
        assert [one.step for one in plan.stopped] == ["charge_card"]
        assert [effect.id for effect in plan.unclaimed] == ["d3", "d5"]
        told = json.loads(renamed("resume", "shop", "--dry-run", "--json").out)
        assert [one["call"] for one in told["unclaimed"]] == ['charge(who="Ada")', 'charge(who="Bob")']
        assert told["stopped"][0]["effects"][0] == ["d3", 'charge(who="Ada")', "done"]

        (command,) = [line for line in seen.splitlines() if "--same" in line]
        words = shlex.split(command, comments=True)[1:]
        assert renamed(*[str(renamed.path) if word == "STORE" else word for word in words]).code == 0
        seen = renamed("resume", "shop", "--dry-run").out
        assert "decided  same; applied when the run continues" in seen
        assert "--new" not in seen
        assert renamed.store.resume_plan("shop").unclaimed == ()

    def test_each_is_the_same_effect(self, renamed: "Shop") -> None:
        """``--same``, and then for all that is open: the program finishes, and nothing was made again."""
        assert renamed("resolve", "shop", "d3", "--same").code == 0
        self.stop(renamed)
        assert renamed("resolve", "shop", "--all", "--same").code == 0
        self.charge(renamed, "charge_card")
        assert renamed("resolve", "shop").code == 0
        names = [event.name for event in renamed.store.events("shop") if event.kind == "step.started"]
        assert names == ["charge", "charge"]

    def test_all_old_ones_are_set_aside(self, renamed: "Shop") -> None:
        """``--abandon --all``: the new calls are made."""
        assert renamed("resolve", "shop", "--all", "--abandon").code == 0
        self.charge(renamed, "charge_card")
        names = [event.name for event in renamed.store.events("shop") if event.kind == "step.started"]
        assert names == ["charge", "charge", "charge_card", "charge_card"]

    def test_a_way_that_does_not_apply_names_those_that_do(self, renamed: "Shop") -> None:
        """``--retry`` of a run with a stopped call and no doubt: --same, --new and --abandon, as printed."""
        answer = renamed("resolve", "shop", "--retry")
        assert answer.code == 1
        assert "nothing is in doubt in run shop: it stopped before" in answer.err
        assert "`holdfast resolve shop d3 --same --store STORE`" in answer.err
        with pytest.raises(holdfast.Misuse, match="not a way to resolve") as refused:
            renamed.store.resolve("shop", "d3", "nope")  # type: ignore[arg-type]
        assert "same, new or abandon" in refused.value.hint

    def test_without_a_stop_there_is_nothing_to_say(self, shop: "Shop") -> None:
        """``--same`` where no call was stopped is refused, and names what to look at."""
        answer = shop("resolve", "daily.2", "--same")
        assert answer.code == 1
        assert "no call of run daily.2 was stopped" in answer.err
