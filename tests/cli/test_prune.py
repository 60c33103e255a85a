"""``holdfast prune``: the plan, letter by letter, and what it says of what it leaves alone."""

import re
from textwrap import dedent
from typing import TYPE_CHECKING

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


def prepare(shop: "Shop") -> None:
    with holdfast.run("talk", store=shop.store) as run:
        for i in range(6):
            run.think(f"thought {i}")
            run.checkpoint({"i": i, "text": f"{i}" * 400}, label="begun" if i == 1 else None)


def sized(text: str) -> str:
    """The text without sizes: packs hold the lineage's name, which is random, so they compress differently each time."""
    return re.sub(r" +\d+ (?:bytes|kB)", " SIZE", text)


def test_the_plan_and_its_execution(own_shop: "Shop") -> None:
    """A dry run shows what goes, what stays and why, and what to type; done, the same is gone."""
    prepare(own_shop)
    plan = own_shop("prune", "talk", "--dry-run", "--keep-checkpoints", "2", "--keep-reasoning", "4")
    assert sized(plan.out) == dedent("""\
        Would go
        RUN   WHAT                   NUMBER       SIZE  WHY
        talk  states of checkpoints       3 SIZE  beyond the policy
        talk  thoughts and the like       2 SIZE  beyond the policy
        talk  packs of states             3 SIZE  no state that is kept needs them

        Stays
        RUN   WHAT                   NUMBER       SIZE  WHY
        talk  states of checkpoints       1 SIZE  label begun
        talk  states of checkpoints       2 SIZE  the last 2

        content SIZE before, SIZE after, SIZE less

          holdfast prune talk --keep-checkpoints 2 --keep-reasoning 4 --store STORE  # do it
        """)
    done = own_shop("prune", "talk", "--keep-checkpoints", "2", "--keep-reasoning", "4")
    assert done.out.splitlines()[1:9] == plan.out.splitlines()[1:9]
    assert done.out.startswith("Gone\n")
    assert own_shop("prune", "talk", "--keep-checkpoints", "2", "--keep-reasoning", "4").out.startswith(
        "nothing to prune\n"
    )


def test_what_is_left_alone_is_said(own_shop: "Shop") -> None:
    """A run that somebody holds is its holder's."""
    prepare(own_shop)
    with holdfast.run("busy", store=own_shop.store) as run:
        run.checkpoint({"i": 1})
        answer = own_shop("prune")
    assert "Skipped\n  busy  held by process 4242 on host, which prunes it as it goes on\n" in answer.out


def test_pins(own_shop: "Shop") -> None:
    """Listed when they change; what is gone cannot be pinned, what is not pinned not be let go."""
    prepare(own_shop)
    assert own_shop("prune", "--pin", "talk@3", "--by", "ada").out == dedent("""\
        PINNED  EVENT  OF RUN  BY
        talk@3     #8  talk    ada
        """)
    own_shop("prune", "talk", "--keep-checkpoints", "1")
    assert [e.seq for e in own_shop.store.events("talk") if b'"state":' in e.body] == [6, 8, 14]
    assert own_shop("prune", "--unpin", "talk@3").out == "nothing is pinned\n"
    refused = own_shop("prune", "--unpin", "talk@3")
    assert (refused.code, refused.err.splitlines()[0]) == (1, "error: talk@3 is not pinned")
    assert own_shop("prune", "talk", "--finished-days", "1").code == 2


def test_finished_runs_are_deleted_when_asked_for(own_shop: "Shop") -> None:
    """And only then."""
    prepare(own_shop)
    own_shop.clock.at += 10 * 86_400
    own_shop("prune")
    assert [info.run for info in own_shop.store.runs()] == ["talk"]
    answer = own_shop("prune", "--finished-days", "7")
    assert "finished, and beyond the policy" in answer.out
    assert own_shop.store.runs() == []


def test_what_was_pruned_is_told_as_that(own_shop: "Shop") -> None:
    """In the log, the list of checkpoints and a point's content; a diff names the nearest state that is kept."""
    prepare(own_shop)
    own_shop("prune", "talk", "--keep-checkpoints", "1", "--keep-reasoning", "1")
    assert "thought" in own_shop("log", "talk").out
    assert own_shop("log", "talk", "--name", "*").out.count("(pruned)") == 9
    assert "(pruned)" in own_shop("checkpoints", "talk").out
    assert "(pruned)" in own_shop("show", "talk@1").out
    refused = own_shop("diff", "talk@3", "talk@6")
    assert refused.code == 1
    assert refused.err == dedent("""\
        error: run talk no longer has state at talk@3: it was pruned; the nearest kept one is talk@2
        hint: use talk@2; `holdfast checkpoints talk --store STORE` lists what is kept
        """)


def test_a_compacted_stretch_is_one_line(own_shop: "Shop") -> None:
    """With how much it stands for."""
    with holdfast.run("loop", store=own_shop.store) as run:
        run.restore()
        for i in range(4):
            run.step("ask", str.upper, f"{i}")
            run.checkpoint({"i": i})
    own_shop.store.prune(
        "loop", policy=holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=0)
    )
    line = own_shop("log", "loop").out.splitlines()[0]
    assert (
        line.split(maxsplit=2)[2].strip()
        == "compacted                    14 events from #1: 4 steps, 3 checkpoints, 1 attempt"
    )
    refused = own_shop("fork", "loop@3", "--as", "b")
    assert refused.err.startswith(
        "error: run loop no longer has point 3: it was pruned; the nearest kept one is loop@8"
    )


def test_a_long_plan_is_told_in_sums(own_shop: "Shop") -> None:
    """What goes and stays of how many runs, and why, who frees most, and how to see every one."""
    from bench.many_runs import add_runs

    add_runs(own_shop.store._port, 0, 60)
    plan = own_shop("prune", "--dry-run", "--keep-checkpoints", "1").out
    assert sized(plan) == dedent("""\
        Would go  (of 60 runs)
        WHAT                   RUNS  NUMBER  SIZE  WHY
        states of checkpoints    60     168 SIZE  beyond the policy

        Most of it from
        RUN            SIZE
        run-00000 SIZE
        run-00001 SIZE
        run-00002 SIZE
        run-00003 SIZE
        run-00004 SIZE

        Stays  (of 60 runs)
        WHAT                   RUNS  NUMBER       SIZE  WHY
        states of checkpoints    60      60 SIZE  the last 1
        states of checkpoints     6       6 SIZE  fork …

        content SIZE before, SIZE after, SIZE less

          holdfast prune --keep-checkpoints 1 --dry-run --verbose --store STORE  # run by run
          holdfast prune --keep-checkpoints 1 --store STORE  # do it
        """)
    whole = own_shop("prune", "--dry-run", "--keep-checkpoints", "1", "--verbose").out
    assert whole.count("beyond the policy") == 60
    assert "run-00048  states of checkpoints" in whole
    done = own_shop("prune", "--keep-checkpoints", "1").out
    assert done.startswith("Gone  (of 60 runs)\n")
    assert "--verbose" not in done


def test_each_run_is_pruned_as_its_program_declared(own_shop: "Shop") -> None:
    """Without options, by ``retention=`` of its last attempt; an option replaces that bound for all runs."""
    declared = {
        "few": holdfast.Retention(checkpoints=holdfast.Keep(last=2)),
        "everything": None,
        "default": holdfast.Retention(),
    }
    for name, retention in declared.items():
        with holdfast.run(name, store=own_shop.store, retention=retention) as run:
            for i in range(6):
                run.checkpoint({"i": i})
    out = own_shop("prune", "--dry-run").out
    assert re.search(r"few +states of checkpoints +4 ", out.partition("Stays")[0])
    assert "everything" not in out.partition("Stays")[0]
    assert "default" not in out.partition("Stays")[0]
    goes = own_shop("prune", "--dry-run", "--keep-checkpoints", "1").out.partition("Stays")[0]
    assert all(re.search(rf"{name} +states of checkpoints +5 ", goes) for name in declared)
    own_shop("prune")
    assert "Gone" not in own_shop("prune").out
