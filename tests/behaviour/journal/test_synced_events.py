"""What a recording call acknowledges is asked to be synced; only what may be made again is merely flushed.

Planted: ``Journal.append`` and ``Journal.submit`` that do not ask for a sync where their callers say nothing. 455 tests of steps
and power cuts passed.
"""

from typing import Any
from uuid import uuid4

import pytest

import holdfast
from holdfast.engine.journal.group_commit import Committer, Ticket
from holdfast.model.store_rows import Append


def measure(text: str) -> int:
    return len(text)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, bool]]:
    """The kinds of event that were submitted, and whether with a sync."""
    seen: set[tuple[str, bool]] = set()
    submit = Committer.submit

    def noted(self: Committer, item: Append, **options: Any) -> Ticket:
        seen.update((event.kind, item.synced) for event in item.events)
        return submit(self, item, **options)

    monkeypatch.setattr(Committer, "submit", noted)
    return seen


def test_what_is_acknowledged_is_synced(synced: set[tuple[str, bool]]) -> None:
    """Outcomes, failures, effects, checkpoints, messages, patches and ends: each is on the disk when its call returns."""
    with holdfast.run("a", store=f"memory://{uuid4().hex}") as run:
        for text in ("a", "ab", "abc"):  # from its second call on, a plain function takes a shorter way
            run.step("read", measure, text)
            run.once("act", measure, text)
        with pytest.raises(ZeroDivisionError):
            run.step("fail", divmod, 1, 0)
        run.checkpoint({"at": 1})
        run.messages.append({"role": "user", "content": "hello"})
        run.patched("newer")
    kinds = {kind for kind, _ in synced}
    assert kinds >= {
        "attempt.started",
        "step.started",
        "step.finished",
        "step.failed",
        "checkpoint",
        "mark",
        "run.finished",
    }
    assert {kind for kind, is_synced in synced if not is_synced} == set()
