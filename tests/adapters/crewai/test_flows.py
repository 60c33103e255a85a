"""The states of flows, kept under ``@persist``: by a run of their own, beside whatever run the flow is kicked off in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crewai.flow.async_feedback.types import PendingFeedbackContext
from crewai.flow.flow import Flow, listen, start
from crewai.flow.persistence import persist
from pydantic import BaseModel

import holdfast
from holdfast.adapters.crewai import HoldfastPersistence, durable

ID = "0d1f5f0e-6f5c-4d6e-9a56-4f6f0a1b2c3d"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite:///{tmp_path / 's.db'}")
    yield tmp_path
    holdfast.store().close()


class State(BaseModel):
    id: str = ""
    done: list[str] = []
    text: str = ""


def flow_of(*, fails: bool = False) -> Any:
    """Three methods, of which two are side by side; each adds to the state."""

    @persist(HoldfastPersistence())
    class Letters(Flow[State]):
        _skip_auto_memory: bool = True

        @start()
        def draft(self) -> None:
            self.state.done.append("draft")
            self.state.text = "dear Ada, " + "kelp " * 1000

        @listen(draft)
        def sign(self) -> None:
            self.state.done.append("sign")

        @listen(draft)
        def stamp(self) -> None:
            self.state.done.append("stamp")
            if fails:
                raise RuntimeError("no stamps")

    return Letters()


def test_a_flow_goes_on_from_the_state_that_was_kept() -> None:
    """A new process that kicks off the flow of this id has the state of its last method."""
    flow_of().kickoff(inputs={"id": ID})
    again = flow_of()
    again.kickoff(inputs={"id": ID})
    assert again.state.done[0] == again.state.done[3] == "draft"
    assert sorted(again.state.done) == sorted(["draft", "sign", "stamp"] * 2)
    assert again.state.text.startswith("dear Ada")


def test_every_kept_state_is_a_point_of_the_flows_run() -> None:
    """After each method there is a checkpoint, small where little has changed; nobody holds the run in between."""
    flow_of().kickoff(inputs={"id": ID})
    store = holdfast.store()
    events = store.events(f"flow/{ID}")
    assert len([event for event in events if event.kind == "checkpoint"]) == 3
    assert store.get(f"flow/{ID}").status == "idle"
    assert not [event for event in events if event.kind.startswith("attempt.")]
    assert (store.size(f"flow/{ID}") or 0) < 6000
    assert HoldfastPersistence().load_state("another") is None


def test_the_latest_state_is_the_latest_even_if_it_was_kept_before() -> None:
    """A flow that comes back to a state it was in has that state, and not the one in between."""
    persistence = HoldfastPersistence()
    for n in (1, 2, 1):
        persistence.save_state(ID, "count", {"id": ID, "n": n})
    for reader in (persistence, HoldfastPersistence()):
        assert reader.load_state(ID) == {"id": ID, "n": 1}


def test_what_is_done_to_a_state_afterwards_is_not_in_what_was_kept() -> None:
    """Neither by whoever has handed it over nor by whoever was given it.

    Planted: without either copy, the state that is kept in memory changes with the program's.
    """
    persistence = HoldfastPersistence()
    state = {"id": ID, "done": ["draft"]}
    persistence.save_state(ID, "draft", state)
    state["done"].append("later")  # type: ignore[union-attr, attr-defined, unused-ignore]
    loaded = persistence.load_state(ID)
    assert loaded == {"id": ID, "done": ["draft"]}
    loaded["done"].append("elsewhere")
    assert persistence.load_state(ID) == {"id": ID, "done": ["draft"]}


def test_a_method_that_fails_leaves_what_was_kept() -> None:
    """What the methods before it came to is there; what it did itself is not."""
    with pytest.raises(RuntimeError, match="no stamps"):
        flow_of(fails=True).kickoff(inputs={"id": ID})
    kept = HoldfastPersistence().load_state(ID)
    assert kept is not None
    assert kept["done"][0] == "draft"
    assert kept["id"] == ID


def test_what_a_person_was_asked_is_kept_until_it_is_answered() -> None:
    """State and question come back together; once cleared, the state is left."""
    persistence = HoldfastPersistence(store="other.db")
    context = PendingFeedbackContext(
        flow_id=ID, flow_class="m.Letters", method_name="sign", method_output="a letter", message="good?"
    )
    persistence.save_pending_feedback(ID, context, {"id": ID, "n": 1})
    assert HoldfastPersistence("other.db").load_pending_feedback(ID) == ({"id": ID, "n": 1}, context)
    persistence.clear_pending_feedback(ID)
    assert persistence.load_pending_feedback(ID) is None
    assert persistence.load_state(ID) == {"id": ID, "n": 1}
    assert HoldfastPersistence().load_state(ID) is None
    holdfast.store("other.db").close()


def test_beside_the_run_that_the_flow_is_kicked_off_in() -> None:
    """The flow's own run is no child of that one: another process finds it by the flow's id alone.

    Planted: the flow's run entered as any other. The state is then kept under the name of the run around it.
    """
    durable(flow_of(), run="agent").kickoff(inputs={"id": ID})
    assert {info.run for info in holdfast.store().runs()} == {"agent", f"flow/{ID}"}
    assert HoldfastPersistence().load_state(ID) is not None
