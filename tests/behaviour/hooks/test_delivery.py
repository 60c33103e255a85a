"""How notices reach a webhook: signed, retried with growing pauses, given up, recorded; and by one process at a time."""

import sys
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from tests.behaviour.hooks.test_notices import attempt
from tests.support.receiver import Receiver

import holdfast
from holdfast import Notice
from holdfast.engine.hooks import senders
from holdfast.engine.hooks.deliver import deliver
from holdfast.engine.hooks.run_hooks import Deliverer
from holdfast.engine.run.store_session import session_of
from holdfast.limits import HOOK_PAUSE_S, HOOK_TRIES_MAX
from holdfast.model.hooks import Hook, Sent
from holdfast.stores.url import open_store

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class SetClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def wall(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


@pytest.fixture
def clock(url: str) -> SetClock:
    clock = SetClock()
    session_of(open_store(url), clock=clock)
    return clock


def finish(url: str, run: str = "a") -> None:
    """A run that is finished, and that its own process has not reported."""
    with holdfast.run(run, store=url):
        pass


def unreported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let holders deliver nothing: as if each was killed at that moment."""
    monkeypatch.setattr(Deliverer, "look", lambda *_: 0)
    monkeypatch.setattr(Deliverer, "has_done", lambda *_: True)


def test_a_webhook_is_signed(url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver reads it with the secret; without it, changed, or late, it is refused."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    store = holdfast.store(url)
    store.hooks.add(receiver.url, secret_env="HOOK_SECRET")
    finish(url)
    (request,) = receiver.requests
    notice = holdfast.read_webhook(request.headers, request.body, SECRET)
    assert (notice["run"], notice["on"]) == ("a", "finished")
    assert request.headers["webhook-id"] == notice["id"]
    for headers, body, secret in (
        (request.headers, request.body, "whsec_AAAA"),
        (request.headers, request.body + b" ", SECRET),
        (request.headers | {"webhook-id": "other"}, request.body, SECRET),
        (request.headers | {"webhook-timestamp": "1"}, request.body, SECRET),
        ({}, request.body, SECRET),
    ):
        with pytest.raises(holdfast.BadSignature):
            holdfast.read_webhook(headers, body, secret)
    records = [
        record.body
        for space in ("hooks", "deliveries", "delivered", "noticed")
        for record in open_store(url).scan_records(space, limit=100)
    ]
    assert records
    assert not any(SECRET.encode() in body for body in records)


def test_an_old_webhook_cannot_be_sent_again() -> None:
    """Signed with the right secret, and read too late or too early. Planted: no look at the time; no other test noticed."""
    from holdfast.core.hooks.signature import TOLERANCE_S, check, sign

    signed_at, body = 1_614_265_330, b"{}"
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(signed_at),
        "webhook-signature": sign(SECRET, "msg_1", signed_at, body),
    }
    assert check(SECRET, headers, body, now=signed_at + TOLERANCE_S) == "msg_1"
    for now in (signed_at + TOLERANCE_S + 1, signed_at - TOLERANCE_S - 1):
        with pytest.raises(holdfast.BadSignature, match="seconds from now"):
            check(SECRET, headers, body, now=now)


def test_the_example_of_standard_webhooks() -> None:
    """The signature of their own example: any library of theirs verifies ours."""
    from holdfast.core.hooks.signature import sign

    body = b'{"test": 2432232314}'
    assert (
        sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
        == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


def test_a_receiver_that_is_down_is_tried_again(
    url: str, receiver: Receiver, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500, then 200: not before the pause is over; the repetition has the same id."""
    unreported(monkeypatch)
    receiver.answers = [500, 200]
    store = holdfast.store(url)
    store.hooks.add(receiver.url)
    finish(url)
    assert store.deliver_hooks().failed == 1
    (waiting,) = store.hooks.log()
    assert (waiting.state, waiting.tries, waiting.status_code) == ("waiting", 1, 500)
    assert waiting.next_at == clock.at + HOOK_PAUSE_S
    assert store.deliver_hooks().waiting == 1
    assert len(receiver.requests) == 1
    clock.at += HOOK_PAUSE_S
    assert store.deliver_hooks().delivered == 1
    assert len({one.headers["webhook-id"] for one in receiver.requests}) == 1
    (done,) = store.hooks.log()
    assert (done.state, done.tries, done.status_code) == ("delivered", 2, 200)
    assert store.deliver_hooks() == (0, 0, 0, 0, 0)


def test_it_is_given_up_and_shown(
    url: str, receiver: Receiver, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last try; the pauses grow."""
    unreported(monkeypatch)
    receiver.answers = [503] * HOOK_TRIES_MAX
    store = holdfast.store(url)
    store.hooks.add(receiver.url)
    finish(url)
    pauses = []
    while (one := store.hooks.log()) == [] or one[0].state == "waiting":
        store.deliver_hooks()
        now = store.hooks.log()[0]
        pauses.append((now.next_at or clock.at) - clock.at)
        clock.at = now.next_at or clock.at
    assert (one[0].state, one[0].tries, one[0].error) == ("given_up", HOOK_TRIES_MAX, "it answers 503")
    assert pauses[:-1] == sorted(pauses[:-1])
    assert pauses[0] == HOOK_PAUSE_S
    assert len(receiver.requests) == HOOK_TRIES_MAX


def test_gone_is_final_and_a_redirect_is_not_followed(
    url: str, receiver: Receiver, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """410 says that the receiver wants no more. A redirect would take a signed request elsewhere."""
    unreported(monkeypatch)
    receiver.answers = [410, 302]
    store = holdfast.store(url)
    store.hooks.add(receiver.url)
    finish(url)
    assert store.deliver_hooks().given_up == 1
    finish(url, "b")
    assert store.deliver_hooks().failed == 1
    assert len(receiver.requests) == 2
    assert "redirect" in store.hooks.log("b")[0].error


def test_a_receiver_that_stalls_costs_its_timeout(url: str, receiver: Receiver) -> None:
    """The run's block is left, and the try has failed."""
    receiver.answers = [receiver.stall]
    store = holdfast.store(url)
    store.hooks.add(receiver.url, timeout_s=0.2)
    finish(url)
    assert store.hooks.log()[0].state == "waiting"
    assert store.get("a").status == "finished"


def test_a_slow_receiver_does_not_hold_up_the_others(url: str, receiver: Receiver) -> None:
    """Each hook has its own thread: the function is called while the receiver stalls."""
    got: list[Notice] = []

    def told(notice: Notice) -> None:
        got.append(notice)
        receiver.released.set()

    receiver.answers = [receiver.stall]
    with holdfast.run("a", store=url, hooks=[receiver.url, told]):
        pass
    assert (len(got), len(receiver.requests)) == (1, 1)
    assert [one.state for one in holdfast.store(url).hooks.log()] == ["delivered", "delivered"]


def test_two_deliverers_send_it_once(url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both look at the same moment; one of them claims it. Planted: without the claim's compare-and-set, both send."""
    unreported(monkeypatch)
    store = holdfast.store(url)
    store.hooks.add(receiver.url)
    for number in range(5):
        finish(url, f"r{number}")
    session, start = store._session, Barrier(4)
    found: list[Any] = []

    def work() -> None:
        start.wait(60)
        found.append(deliver(session))

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 4
    assert sorted(receiver.seen) == [(f"r{number}", "finished") for number in range(5)]


def test_a_dead_claimer_does_not_keep_it(
    url: str, receiver: Receiver, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim ends with its time."""
    unreported(monkeypatch)
    store = holdfast.store(url)
    hook = store.hooks.add(receiver.url)
    finish(url)
    monkeypatch.setattr(senders, "_post", lambda *_: (_ for _ in ()).throw(SystemExit))
    with pytest.raises(SystemExit):  # killed in the middle of sending
        store.deliver_hooks()
    monkeypatch.undo()
    assert store.hooks.log()[0].state == "sending"
    assert store.deliver_hooks().waiting == 1
    clock.at += hook.timeout_s + 60
    assert store.deliver_hooks().delivered == 1


def test_an_answered_question_is_not_sent_any_more(
    url: str, receiver: Receiver, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver was down; a person answered meanwhile."""
    unreported(monkeypatch)
    receiver.answers = [500]
    store = holdfast.store(url)
    store.hooks.add(receiver.url)
    attempt(url, "a", lambda run: run.ask("Well?"))
    store.deliver_hooks()
    store.answer("a", "yes")
    clock.at += 3600
    store.deliver_hooks()
    assert [one.state for one in store.hooks.log()] == ["overtaken"]
    assert len(receiver.requests) == 1


def test_a_missing_secret_waits_for_a_process_that_has_it(
    url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no try, nothing is sent unsigned, and the log says why: once, however often this process looks."""
    store = holdfast.store(url)
    store.hooks.add(receiver.url, secret_env="HOOK_SECRET")
    finish(url)
    assert receiver.requests == []
    store.deliver_hooks()
    (waiting,) = store.hooks.log()
    assert (waiting.state, waiting.tries) == ("waiting", 0)
    assert "HOOK_SECRET" in waiting.error
    assert len([line for line in caplog.messages if "HOOK_SECRET" in line]) == 1
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    assert store.deliver_hooks().delivered == 1
    assert (
        holdfast.read_webhook(receiver.requests[0].headers, receiver.requests[0].body, "s3cret")["run"] == "a"
    )


def test_a_url_in_a_variable_is_not_stored(
    url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as that of a Slack channel, which is a secret by itself."""
    monkeypatch.setenv("SLACK_URL", f"{receiver.url}/T0/B0/token")
    store = holdfast.store(url)
    store.hooks.add(url_env="SLACK_URL")
    finish(url)
    assert receiver.seen == [("a", "finished")]
    assert not any(b"token" in one.body for one in open_store(url).scan_records("hooks", limit=9))
    assert store.hooks.label(store.hooks.list()[0]) == "URL in SLACK_URL"


def test_a_new_hook_is_not_told_of_the_past(url: str, receiver: Receiver) -> None:
    """Only what happens after it was added."""
    finish(url, "old")
    store = holdfast.store(url)
    store.hooks.add(receiver.url)
    finish(url, "new")
    store.deliver_hooks()
    assert receiver.seen == [("new", "finished")]


def test_a_removed_hook_receives_nothing(url: str, receiver: Receiver) -> None:
    """Nor what it was still waiting for."""
    receiver.answers = [500]
    store = holdfast.store(url)
    hook = store.hooks.add(receiver.url)
    finish(url)
    store.hooks.remove(hook.id)
    finish(url, "b")
    store.deliver_hooks()
    assert len(receiver.requests) == 1
    assert store.hooks.log() == []
    with pytest.raises(holdfast.UnknownHook):
        store.hooks.test(hook.id)


def test_a_test_is_sent_and_not_recorded(url: str, receiver: Receiver) -> None:
    """It says that it is one."""
    store = holdfast.store(url)
    hook = store.hooks.add(receiver.url)
    receiver.answers = [200, 404]
    assert store.hooks.test(hook.id).good
    assert store.hooks.test(hook.id) == Sent(good=False, code=404, error="it answers 404")
    assert receiver.requests[0].notice["on"] == "test"
    assert store.hooks.log() == []


def test_a_command_that_hangs_is_killed(tmp_path: Path) -> None:
    """With what it started: nothing of it stays behind."""
    program = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); time.sleep(60)"
    notice = Notice("n", "test", "test", "", 0.0, "", "")
    sent = senders.send(Hook([sys.executable, "-c", program], timeout_s=0.5), notice, 0.0)
    assert not sent.good
    assert "killed" in sent.error
    failed = senders.send(Hook([sys.executable, "-c", "import sys; sys.exit('no mail')"]), notice, 0.0)
    assert (failed.code, failed.error) == (1, "no mail")
    assert "cannot be started" in senders.send(Hook(["/no/such/program"]), notice, 0.0).error


def test_the_hooks_of_another_users_store_are_not_used(
    url: str, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its commands nor its webhooks: both would do what its owner wants, as this user."""
    store = holdfast.store(url)
    store.hooks.add(receiver.url)
    store.hooks.add([sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"])
    monkeypatch.setattr(type(open_store(url)), "owned_by", property(lambda _: "mallory"))
    finish(url)
    store.deliver_hooks()
    assert receiver.requests == []
    assert not (tmp_path / "ran").exists()
    assert "mallory" in store.hooks.test("h1").error


def test_a_command_on_a_server_is_started_where_it_was_added(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another host, or by another user, it is left to them. As on a server: the store belongs to nobody."""
    store = holdfast.store(url)
    hook = store.hooks.add([sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"])
    port = open_store(url)
    monkeypatch.setattr(type(port), "owned_by", property(lambda _: None))
    record = port.get_record("hooks", hook.id)
    assert record is not None
    assert port.put_record(
        "hooks", hook.id, record.body.replace(hook.host.encode(), b"elsewhere"), revision=1
    )
    finish(url)
    assert not (tmp_path / "ran").exists()
    (held,) = store.hooks.log()
    assert (held.state, held.tries) == ("waiting", 0)
    assert "elsewhere" in held.error
    assert port.put_record("hooks", hook.id, record.body, revision=2)
    assert store.deliver_hooks().delivered == 1
    assert (tmp_path / "ran").exists()


def test_old_deliveries_leave_the_log(
    url: str, receiver: Receiver, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a month. What waits stays, and what was told is not told again."""
    unreported(monkeypatch)
    store = holdfast.store(url)
    store.hooks.add(receiver.url)
    finish(url)
    store.deliver_hooks()
    clock.at += 40 * 86_400
    store.deliver_hooks()
    assert store.hooks.log() == []
    store.deliver_hooks()
    assert len(receiver.requests) == 1
