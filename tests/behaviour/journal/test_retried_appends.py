"""Threads of one run retry their appends: whatever is refused on the way, the journal's events follow each other."""

from contextlib import closing
from uuid import uuid4

import holdfast
from holdfast.engine.journal.drafts import draft
from holdfast.engine.journal.group_commit import Committer, Ticket
from holdfast.engine.journal.journal import Journal, read_all
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.model.events import Kind
from holdfast.model.store_rows import Appended
from holdfast.stores.port import StorePort
from holdfast.stores.url import open_store


def journal_of(port: StorePort) -> Journal:
    """A journal of a run with some events, under a lease of this process."""
    with holdfast.run("r", store=holdfast.Store(port)) as run:
        run.step("s", str, 1)
    grant = port.acquire("r", at=0.0, lease_s=60.0)
    row = port.find_run("r")
    assert row is not None
    journal = Journal(port, Committer(port), "r", grant.lease.fence, row.head)
    drive(journal.append(BLOCKING, [draft(Kind.MARK, "first", "", {})], 0.0))
    return journal


def submitted(journal: Journal, name: str) -> Ticket:
    ticket = journal.submit([draft(Kind.MARK, name, "", {})], 0.0)
    assert ticket is not None
    return ticket


def test_an_event_behind_one_that_was_refused_is_refused() -> None:
    """Two threads read the head anew and take the same place; a third one's event follows the loser's."""
    with closing(open_store(f"memory://{uuid4().hex}")) as port:
        journal = journal_of(port)
        journal._reread()  # the first thread, after a write that failed
        winner = submitted(journal, "winner")
        journal._reread()  # the second one: the winner is not stored yet
        loser, follower = submitted(journal, "loser"), submitted(journal, "follower")
        for ticket in (winner, loser, follower):
            if ticket.outcome is None:
                journal.committer.finish(ticket)
        written = [ticket for ticket in (winner, loser, follower) if isinstance(ticket.outcome, Appended)]
        assert written == [winner]
        assert [event.name for event in read_all(port, "r")][-2:] == ["first", "winner"]  # and no Corrupt


def test_an_event_placed_after_the_refusal_is_refused() -> None:
    """The loser was refused, and its thread has not read the head again: a third thread follows it meanwhile."""
    with closing(open_store(f"memory://{uuid4().hex}")) as port:
        journal = journal_of(port)
        journal._reread()
        winner = submitted(journal, "winner")
        journal._reread()
        loser = submitted(journal, "loser")
        for ticket in (winner, loser):
            journal.committer.finish(ticket)
        follower = submitted(journal, "follower")
        journal.committer.finish(follower)
        assert [isinstance(one.outcome, Appended) for one in (winner, loser, follower)] == [
            True,
            False,
            False,
        ]
        assert [event.name for event in read_all(port, "r")][-2:] == ["first", "winner"]
        drive(journal.append(BLOCKING, [draft(Kind.MARK, "next", "", {})], 0.0))  # which reads the head again
        assert [event.name for event in read_all(port, "r")][-2:] == ["winner", "next"]


def test_what_is_submitted_behind_a_failure_is_not_written_later() -> None:
    """The event before it failed and is written again by another thread: the queued one must not follow that."""
    with closing(open_store(f"memory://{uuid4().hex}")) as port:
        journal = journal_of(port)
        lost = submitted(journal, "lost")
        follower = submitted(journal, "follower")
        journal.committer.queue.remove(lost)  # withdrawn: its writer was interrupted
        journal._reread()
        again = submitted(journal, "again")
        for ticket in (follower, again):
            if ticket.outcome is None:
                journal.committer.finish(ticket)
        assert not isinstance(follower.outcome, Appended)
        read_all(port, "r")  # no Corrupt
