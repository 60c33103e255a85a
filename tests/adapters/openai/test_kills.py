"""The harness of ``make kills``, on a small scale: a streaming agent is killed, and the witnesses find nothing missing."""

from pathlib import Path

from bench.kills.director import Plan, calm_run, killed_run
from bench.kills.witnesses import answers_changed, effects, finished_calls_lost
from tests.support.model_server.records import Exchange


def test_a_streaming_agent_loses_no_finished_call(tmp_path: Path) -> None:
    """Three kills in five calls: nothing asked twice, nothing done twice, little lost.

    Planted: an agent whose client is not wrapped asks finished calls again; a flusher that waits 3 s loses whole answers.
    """
    calm = calm_run(tmp_path / "calm", 5)
    found = killed_run(Plan(tmp_path / "killed", calls=5, kills=3, seed=13, drip_ms=10), calm)
    assert (found.finished_calls_lost, found.effects_twice, found.effects_missing) == (0, 0, 0)
    assert found.answers_changed == 0
    assert len(found.losses) == 3
    assert max(loss.sent_tokens for loss in found.losses) > 100
    for loss in found.losses:
        assert loss.lost_ms < 800, f"far more than 250 ms of the stream are gone: {loss}"


def test_the_witnesses_see_what_went_wrong() -> None:
    """A call that was asked again after its answer had come; an effect that happened twice; an answer that changed."""
    asked = Exchange(
        0, "POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Part 0"}]}, 5.0
    )
    assert finished_calls_lost([asked], [{"index": 0, "at": 6.0}]) == 0
    assert finished_calls_lost([asked], [{"index": 0, "at": 4.0}]) == 1
    note = {"number": 1, "text": "a"}
    assert effects([note, note], [note]) == (1, 0)
    assert effects([], [note]) == (0, 1)
    assert answers_changed([{"index": 0, "digest": "x"}], [{"index": 0, "digest": "y"}]) == 1
