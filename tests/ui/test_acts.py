"""Acts: each is the call that the command line makes, in the name of the person, and says beforehand what it does."""

import os
import sys
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.ui.conftest import serving
from tests.ui.runs import asking, finished, in_doubt, pay

import holdfast
from holdfast.core.lineage.later_effects import REPEATS
from holdfast.ui.acts import ACTS
from holdfast.views.rewind_cost import cost_behind, then_words


def do(client: httpx.Client, act: str, **given: object) -> dict[str, str]:
    answer = client.post(f"/api/acts/{act}", json=given)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def form(client: httpx.Client, act: str, **given: str) -> str:
    answer = client.get(f"/act/{act}", params=given)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_a_question_is_answered_in_the_name_of_the_person(client: httpx.Client, url: str) -> None:
    """And the run goes on with it."""
    asking(url)
    assert "May it go on?" in form(client, "answer", run="asks")
    assert "ada" in do(client, "answer", run="asks", value="yes", reason="it is time")["told"]
    assert holdfast.store(url).questions("asks")[0].pending_by == "ada"
    assert asking(url) is True


def test_the_second_answer_is_told_of_the_first(client: httpx.Client, url: str) -> None:
    """Two people answer at once: one wins, the other is told."""
    asking(url)
    do(client, "answer", run="asks", value="no")
    late = client.post("/api/acts/answer", json={"run": "asks", "value": "yes"})
    assert (late.status_code, late.json()["error"]) == (409, "AlreadyAnswered")
    assert asking(url) is False


@pytest.mark.parametrize("value", ["perhaps", "", "17"])
def test_an_answer_that_does_not_fit_is_refused(client: httpx.Client, url: str, value: str) -> None:
    """With what may be answered; nothing is recorded."""
    asking(url)
    answer = client.post("/api/acts/answer", json={"run": "asks", "value": value})
    assert (answer.status_code, answer.json()["error"]) == (400, "BadAnswer")
    assert "yes or no" in answer.text
    assert holdfast.store(url).questions("asks")[0].pending_by == ""


@pytest.mark.parametrize(
    ("how", "more"), [("done", {"value": '"paid"'}), ("retry", {}), ("failed", {"message": "no"})]
)
def test_an_effect_in_doubt_is_resolved(
    client: httpx.Client, url: str, how: str, more: dict[str, str]
) -> None:
    """By its id, as the page has it."""
    in_doubt(url)
    id_ = holdfast.store(url).doubts("doubtful")[0].id
    shown = form(client, "resolve", run="doubtful", step=id_, how=how)
    assert "vanish" in shown
    do(client, "resolve", run="doubtful", step=id_, how=how, **more)
    assert holdfast.store(url).doubts("doubtful")[0].pending == how
    assert client.get("/api/needs").json() == {"needs": []}


def test_a_fork_with_another_outcome(client: httpx.Client, url: str) -> None:
    """The form lists the effects behind the point; the origin stays as it is."""
    finished(url)
    shown = form(client, "fork", run="done", at="2")
    assert "pay" in shown
    assert "answered from the record" in shown
    made = do(client, "fork", run="done", at="2", name="try", override='{"look": 9}')
    assert made["go"] == "/run/try"
    store = holdfast.store(url)
    assert store.get("done").status == "finished"
    assert any(event.kind == "step.overridden" for event in store.events("try"))
    lines = client.get("/api/events?run=try").json()["events"]
    assert any(line["kind"] == "run.forked" and " by ada" in line["detail"] for line in lines)


def test_a_rewind_keeps_what_came_after(client: httpx.Client, url: str) -> None:
    """As a fork that the answer names."""
    finished(url)
    assert "kept as a fork" in form(client, "rewind", run="done", at="2")
    assert "done~1" in do(client, "rewind", run="done", at="2")["told"]
    assert holdfast.store(url).get("done~1").run == "done~1"
    rewound = client.get("/api/events?run=done").json()["events"][-1]
    assert (rewound["kind"], " by ada" in rewound["detail"]) == ("run.rewound", True)
    assert client.post("/api/acts/rewind", json={"run": "done"}).status_code == 400


def test_the_form_of_an_act_changes_nothing(client: httpx.Client, url: str, tmp_path: Path) -> None:
    """Forms are asked for with GET, also by a page that is only hovered over."""
    os.chdir(tmp_path)
    finished(url)
    in_doubt(url)
    asking(url)
    store = holdfast.store(url)
    before = {info.run: (info.head, info.status, store.cursor(info.run)) for info in store.runs()}
    for act in ACTS:
        for run in ("done", "doubtful", "asks"):
            client.get(f"/act/{act}", params={"run": run, "at": "1", "how": "done", "step": "vanish"})
    assert {info.run: (info.head, info.status, store.cursor(info.run)) for info in store.runs()} == before
    assert store.pins() == []
    assert not list(tmp_path.glob("*.holdfast"))
    assert not list(tmp_path.glob("*.json"))


def test_pin_prune_export_and_handoff(client: httpx.Client, url: str, tmp_path: Path) -> None:
    """What the command line does with the same words."""
    finished(url)
    in_doubt(url)
    do(client, "pin", run="done", at="before")
    assert [pin.place for pin in holdfast.store(url).pins()] == ["done@before"]
    assert "Heads, labels, pins" in form(client, "prune", run="done") or "nothing to prune" in form(
        client, "prune"
    )
    do(client, "prune")
    target = tmp_path / "done.holdfast"
    assert str(target) in do(client, "export", run="done", path=str(target))["told"]
    assert target.exists()
    document = tmp_path / "handoff.json"
    do(client, "handoff", run="doubtful", to="bob", path=str(document), seal=True)
    assert holdfast.store(url).get("doubtful").status == "sealed"
    assert "vanish" in document.read_text()
    again = client.post("/api/acts/handoff", json={"run": "done", "path": str(document)})
    assert again.status_code == 400


def test_a_label_is_given_renamed_and_taken_back(client: httpx.Client, url: str) -> None:
    """In the person's name; the page shows it where the point is, and the diff takes it."""
    finished(url)
    assert "pruning keeps it" in form(client, "label", run="done", at="1")
    assert "by ada" in do(client, "label", run="done", at="1", name="first look")["told"]
    assert 'value="first look"' in form(client, "label", run="done", at="1")
    assert "first look" in client.get("/run/done?part=rows").text
    assert client.get("/api/diff", params={"a": "done@first look", "b": "done@1"}).status_code == 200
    taken = client.post("/api/acts/label", json={"run": "done", "at": "1", "name": "after"})
    assert (taken.status_code, taken.json()["error"]) == (409, "LabelTaken")
    do(client, "label", run="done", at="first look", name="look")
    assert client.get("/api/people?run=done").json()["labels"][0]["name"] == "look"
    do(client, "label", run="done", at="look", name="")
    assert client.get("/api/people?run=done").json()["labels"] == []
    told = client.get("/run/done?part=people").text
    assert "label removed" in told
    assert "ada" in told


def edited_run(url: str) -> None:
    """A run that restores its state, and keeps its messages."""

    def model(messages: list[dict[str, str]]) -> str:
        return f"answer to {messages[-1]['content']}"

    with holdfast.run("edits", store=url, inputs={"country": "GR"}, stops="suppress") as run:
        run.restore({"n": 0})
        run.checkpoint({"n": 1})
        run.messages.append({"role": "user", "content": "how\nmuch?"})
        run.checkpoint({"n": 2})
        run.messages.append({"role": "assistant", "content": run.model("ask", model, list(run.messages))})
        run.checkpoint({"n": 3})
        run.ask("Go on?", returns=bool)


def test_a_fork_with_an_edited_state_message_and_inputs(client: httpx.Client, url: str) -> None:
    """What the form showed and nobody changed is no edit. Line breaks of a browser are none, either."""
    edited_run(url)
    store = holdfast.store(url)
    shown = form(client, "fork", run="edits", at="2", edit="state")
    assert "run.restore() returns it" in shown
    assert "<details open><summary>Edit the state" in shown
    same = {"state": '{"n": 2}', "inputs": '{"country": "GR"}', "message": "0", "text": "how\r\nmuch?"}
    do(client, "fork", run="edits", at="2", edits_at="2", name="same", **same)
    assert not {"edited", "messages mended"} & {event.name for event in store.events("same")}
    edits = {"state": '{"n": 7}', "inputs": '{"country": "ES"}', "message": "0", "text": "why?"}
    do(client, "fork", run="edits", at="2", edits_at="2", name="other", **edits)
    made = client.get("/api/editable?place=other").json()
    assert (made["state"], made["inputs"]) == ({"n": 7}, {"country": "ES"})
    assert made["messages"] == [{"role": "user", "content": "why?"}]
    people = client.get("/api/people?run=other").json()["acts"]
    assert {act["what"] for act in people} == {"forked", "state edited", "messages edited"}
    assert {act["by"] for act in people} == {"ada"}
    assert "edited by ada" in client.get("/run/other?part=state").text
    do(
        client,
        "fork",
        run="edits",
        at="2",
        name="whole",
        message="-1",
        message_json='{"role": "user", "content": "x"}',
    )
    assert store.editable("whole").messages == ({"role": "user", "content": "x"},)


def test_edits_of_another_point_than_the_form_showed_are_refused(client: httpx.Client, url: str) -> None:
    """A state that was edited belongs to its point; one that was not edited counts for nothing."""
    edited_run(url)
    moved = {"run": "edits", "at": "1", "edits_at": "2", "name": "b"}
    refused = client.post("/api/acts/fork", json={**moved, "state": '{"n": 9}'})
    assert (refused.status_code, "is that of 2" in refused.json()["problem"]) == (400, True)
    do(client, "fork", **{**moved, "state": '{"n": 2}'})
    assert holdfast.store(url).editable("b").state == {"n": 1}


def test_the_form_says_why_something_cannot_be_edited(client: httpx.Client, url: str) -> None:
    """Of a program that replays, without messages."""
    finished(url)
    shown = form(client, "fork", run="done", at="2")
    assert "has never restored a state" in shown
    assert "keeps no messages" in shown
    outcome = next(e.seq for e in holdfast.store(url).events("done") if e.kind == "step.finished")
    offered = form(client, "fork", run="done", at=f"#{outcome}", outcome=str(outcome))
    assert "<details open><summary>Give steps other outcomes" in offered
    assert ": 4" in offered


def test_the_turns_of_a_conversation_lead_to_the_place_before_their_call(
    client: httpx.Client, url: str
) -> None:
    """Where a message can be edited, the page offers it; not in a read-only page."""
    edited_run(url)
    talk = client.get("/run/edits?part=conversation").text
    assert 'data-message="0"' in talk
    intent = next(e.seq for e in holdfast.store(url).events("edits") if e.kind == "step.started")
    assert f'data-at="#{intent - 1}"' in talk


def test_who_pinned_pruned_exported_and_handed_over_is_shown(
    client: httpx.Client, url: str, tmp_path: Path
) -> None:
    """In the part about people, and in the API."""
    finished(url)
    do(client, "pin", run="done", at="before")
    do(client, "export", run="done", path=str(tmp_path / "done.holdfast"))
    do(client, "handoff", run="done", to="bob", path=str(tmp_path / "done.json"))
    do(client, "pin", run="done", at="before", remove=True)
    acts = client.get("/api/people?run=done").json()["acts"]
    assert [(act["by"], act["what"]) for act in acts] == [
        ("ada", "exported"),
        ("ada", "handed over"),
        ("ada", "unpinned"),
    ]


def test_cancel(client: httpx.Client, url: str) -> None:
    """With the reason and the name in the journal."""
    asking(url)
    assert "cancelled at once" in form(client, "cancel", run="asks")
    do(client, "cancel", run="asks", reason="no need")
    told = client.get("/api/events?run=asks").json()["events"][-1]
    assert (told["kind"], told["detail"]) == ("run.cancelled", "by ada: no need")


PROGRAM = """
import sys, holdfast
with holdfast.run("again", store=sys.argv[1], stops="suppress") as run:
    print("answered", run.ask("Go on?", returns=bool))
    run.finish("gone on")
"""


@pytest.mark.slow
def test_resume_starts_the_program_again(url: str, tmp_path: Path) -> None:
    """As `holdfast resume` does, beside the server."""
    import subprocess

    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    subprocess.run([sys.executable, str(script), url], check=True, timeout=120, cwd=tmp_path)
    with serving(holdfast.store(url), store_option=url) as served, served.client() as client:
        do(client, "answer", run="again", value="yes")
        do(client, "resume", run="again")
        with client.stream("GET", "/live?run=again") as answer:
            for line in answer.iter_lines():
                if '"status":"finished"' in line:
                    break
        acts = client.get("/api/people?run=again").json()["acts"]
    assert holdfast.store(url).get("again").status == "finished"
    assert ("ada", "resumed") in [(act["by"], act["what"]) for act in acts]


def test_a_resume_that_is_refused_says_why(url: str) -> None:
    """The words of the command, not an exit code."""
    finished(url)
    with serving(holdfast.store(url), store_option=url) as served, served.client() as client:
        answer = client.post("/api/acts/resume", json={"run": "done"})
    assert answer.status_code in {200, 400}
    assert "done" in answer.text


@pytest.mark.parametrize(
    ("act", "body", "words"),
    [
        ("nothing", {}, "there is no act"),
        ("cancel", {}, "no run is named"),
        ("cancel", {"run": "asks", "who": "eve"}, "takes no who"),
        ("cancel", {"run": 5}, "is no text"),
        ("cancel", [], "no JSON object"),
        ("resolve", {"run": "asks", "step": "x", "how": "odd"}, "not a way to resolve"),
        ("fork", {"run": "asks", "name": "f", "override": "{"}, "not JSON"),
        ("fork", {"run": "asks", "name": "f", "override": "[]"}, "no JSON object"),
        ("fork", {"run": "asks", "name": "f", "effects": "odd"}, "no choice"),
        ("fork", {"run": "asks", "name": "f", "state": "{}"}, "has no state"),
        ("fork", {"run": "asks", "name": "f", "inputs": "{"}, "not JSON"),
        ("fork", {"run": "asks", "name": "f", "text": "x", "message": "first"}, "there is no message"),
        ("label", {"run": "asks", "name": "7"}, "would be read as"),
        ("export", {"run": "asks", "path": " "}, "needs a file"),
    ],
)
def test_bad_input_is_refused_by_name(
    client: httpx.Client, url: str, act: str, body: object, words: str
) -> None:
    """And changes nothing."""
    asking(url)
    before = holdfast.store(url).cursor("asks")
    answer = client.post(f"/api/acts/{act}", json=body)
    assert answer.status_code == 400
    assert words in answer.json()["problem"]
    assert holdfast.store(url).cursor("asks") == before


def test_bytes_that_are_no_json_are_refused(client: httpx.Client) -> None:
    """As what they are."""
    for content in (b"", b"{", b"\xff\xfe", b"[" * 5000):
        answer = client.post(
            "/api/acts/cancel", content=content, headers={"content-type": "application/json"}
        )
        assert (answer.status_code, answer.json()["error"]) == (400, "Misuse")


def test_a_stopped_call_is_said_to_be_the_same(client: httpx.Client, url: str) -> None:
    """The guard stopped a call that may be a recorded effect; the page offers both answers."""

    def first() -> None:
        with holdfast.run("edited", store=url, stops="suppress") as run:
            pay(5)
            run.ask("Go on?", returns=bool)

    def renamed() -> None:
        with holdfast.run("edited", store=url, stops="suppress") as run:
            run.options(key="other").once("settle", lambda: "paid 5")
            run.ask("Go on?", returns=bool)

    first()
    renamed()
    stopped = holdfast.store(url).stopped_calls("edited")
    assert stopped, "the guard should have stopped it"
    effect = stopped[0].effects[0]
    assert 'data-how="same"' in client.get("/run/edited?part=needs").text
    do(client, "resolve", run="edited", step=effect.id, how="same", asked=stopped[0].key)
    assert holdfast.store(url).stopped_calls("edited")[0].pending == "same"


@pytest.mark.parametrize("act", ["fork", "rewind"])
def test_the_consequences_are_those_of_what_was_chosen(client: httpx.Client, url: str, act: str) -> None:
    """Before, they were always those of the first choice."""
    finished(url)
    told = {how: form(client, act, run="done", at="before", effects=how) for how in REPEATS}
    told[""] = form(client, act, run="done", at="before")
    assert told[""] == told[REPEATS[0]]
    assert len({*told.values()}) == len(REPEATS)
    for how in REPEATS:
        assert then_words(cost_of(url), how) in unescape(told[how])
    assert client.get(f"/act/{act}?run=done&at=before&effects=odd").status_code == 400


def cost_of(url: str) -> Any:
    store = holdfast.store(url)
    seq = store.locate("done@before")[1]
    [(_, line)] = cost_behind("done", seq, (), store.events).all_effects()
    return line
