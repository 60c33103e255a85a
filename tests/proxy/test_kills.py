"""An agent without Holdfast, and its proxy, are killed with SIGKILL in the middle of sixteen calls: nothing finished is asked twice."""

import os
import signal

import pytest
from tests.proxy.conftest import DEADLINE_S, HOLDFAST, Desk, until

CALLS = 16
KILLED_AFTER = (3, 8, 12)
RESUME = [*HOLDFAST, "resume", "talk"]


@pytest.mark.parametrize("victims", [("agent",), ("proxy",), ("agent", "proxy")], ids="+".join)
def test_sixteen_calls_make_sixteen_requests(desk: Desk, victims: tuple[str, ...]) -> None:
    """Killed after three of its calls, the agent gets the same answers again, streams included, and goes on."""
    command = desk.agent(CALLS)
    for after in KILLED_AFTER:
        with desk.started(command, PAUSE_AFTER=str(after)) as process:
            until((desk.path / "paused").exists)
            if "agent" in victims:
                desk.kill_agent()
            if "proxy" in victims:
                os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=DEADLINE_S) if victims == ("agent",) else process.wait(DEADLINE_S)
            expected = 128 + signal.SIGKILL if victims == ("agent",) else -signal.SIGKILL
            assert process.returncode in {expected, -signal.SIGKILL}
        command = RESUME
    done = desk.done(RESUME)
    assert done.returncode == 0, done.stderr
    assert len(desk.provider.calls) == CALLS
    assert (desk.calls, desk.info.status) == (CALLS, "finished")
    assert {number: len(digests) for number, digests in desk.answers.items()} == dict.fromkeys(
        range(CALLS), 1
    )


def test_an_answer_goes_on_when_the_agent_is_killed_in_its_middle(desk: Desk) -> None:
    """It is paid for: the proxy records it to its end, and the next attempt gets it from the journal."""
    desk.provider.script.drip_ms = 20
    with desk.started(desk.agent(2), STREAMS="all") as process:
        until(lambda: desk.provider.tokens_sent > 50)
        desk.kill_agent()
        _, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 128 + signal.SIGKILL, err
    assert "waiting for 1 call" in err
    assert (desk.calls, desk.info.status) == (2, "failed")
    assert desk.done(RESUME, STREAMS="all").returncode == 0
    assert len(desk.provider.calls) == 2


def test_a_stream_that_dies_with_its_proxy_is_continued(desk: Desk) -> None:
    """Only the call that was cut off is asked again: for the rest of its answer."""
    desk.provider.script.drip_ms = 20
    with desk.started(desk.agent(3), STREAMS="all") as process:
        until(lambda: desk.provider.tokens_sent > 60)
        os.kill(process.pid, signal.SIGKILL)
        desk.kill_agent()
        process.wait(DEADLINE_S)
    desk.provider.script.drip_ms = 0
    assert desk.done(RESUME, STREAMS="all").returncode == 0
    assert len(desk.provider.calls) == 4
    asked = [call.body["messages"] for call in desk.provider.calls]
    assert asked[2][-2]["role"] == "assistant", "it is asked to go on from what it had"
    assert desk.calls == 3
