"""Folds the promises of a run: made by its program, reported by other runs, or taken over with a handoff.

A promise changes once, from open to kept or broken. A repeated or late report changes nothing, so a run that
was killed while it reported may report again.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.core.journal.feature_fold import FeatureFold, Slot
from holdfast.core.steps.identity import idempotency_key
from holdfast.errors import Misuse
from holdfast.limits import PROMISE_CHARS_MAX
from holdfast.model.event_fields import contents_of, part_of
from holdfast.model.events import Event, Kind
from holdfast.model.handoff import Promise, Promises, Side

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View

_HASH_CHARS: Final = 8
_FIELDS: Final = ("id", "text", "by", "to", "state", "at", "side", "due", "note", "settled_at")


class PromiseFold(dict[str, Promise], FeatureFold):
    """The promises of a run by id, made and received."""

    def add(self, view: "View", event: Event) -> None:  # noqa: ARG002 - the event says it all
        """Fold a promise that was made, kept or broken, or the report of another run."""
        if event.kind == Kind.PROMISE_MADE:
            self._made(event)
        elif event.kind == Kind.PROMISE_SETTLED:
            self._settled(event)
        else:
            self._reported(event)

    def _made(self, event: Event) -> None:
        """The program made a promise."""
        body = contents_of(event.body)
        known = self.get(event.name)
        if known is not None:  # a promise of the giver of a handoff: the program has made it again
            self[event.name] = known._replace(seqs=(*known.seqs, event.seq))
            return
        self[event.name] = Promise(
            event.name,
            body["text"],
            body["by"],
            body["to"],
            "open",
            event.at,
            due=body.get("due"),
            seqs=(event.seq,),
        )

    def _settled(self, event: Event) -> None:
        """The program kept a promise, or broke it."""
        body = contents_of(event.body)
        known = self.get(event.name)
        if known is not None and known.state == "open":
            self[event.name] = known._replace(
                state=body["how"], note=body["note"], settled_at=event.at, seqs=(*known.seqs, event.seq)
            )

    def _reported(self, event: Event) -> None:
        """Other runs reported promises: one that they made to this run, or how it ended."""
        for fields in part_of(event.body, "promises"):
            self.hear(promise_in(fields), event.seq)

    def hear(self, promise: Promise, seq: int) -> None:
        """Take a reported promise, if it is new or now settled."""
        before = self.get(promise.id)
        if is_news(self, promise):
            self[promise.id] = promise._replace(seqs=(*(before.seqs if before else ()), seq))

    def both(self) -> Promises:
        """The promises that this run made, and those that it received."""
        return Promises(self._of("made"), self._of("received"))

    def _of(self, side: Side) -> tuple[Promise, ...]:
        return tuple(sorted((p for p in self.values() if p.side == side), key=lambda p: (p.at, p.id)))

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """The promises."""
        return {"promises": [list(promise) for promise in self.values()]}

    def load(self, data: Mapping[str, Any]) -> None:
        """The promises."""
        for *fields, seqs in data["promises"]:
            self[fields[0]] = Promise._make([*fields, tuple(seqs)])

    def difference(self, after: Self) -> str:
        """Pruning must not change a promise."""
        return "promises" if self != after else ""


PROMISES: Final = Slot("promises", PromiseFold)


def promise_id(run: str, birth: str, key: str) -> str:
    """The id of the promise that a call makes: the same in every replay, and another in every other run."""
    return f"{run}:{idempotency_key(birth, key)[:_HASH_CHARS]}"


def is_id_of(id_: str, run: str) -> bool:
    """Whether this is the form of the id of a promise that this run has made."""
    name, _, hashed = id_.rpartition(":")
    return name == run != "" and len(hashed) == _HASH_CHARS and hashed.isascii() and hashed.isalnum()


def is_news(known: Mapping[str, Promise], promise: Promise) -> bool:
    """Whether a reported promise is new, or settles one that is open."""
    before = known.get(promise.id)
    return before is None or (before.state == "open" and promise.state != "open")


def promise_in(fields: Mapping[str, Any]) -> Promise:
    """The promise in a letter, an event or a handoff."""
    return Promise(**{name: fields[name] for name in _FIELDS if name in fields})


def fields_of(promise: Promise, side: Side | None = None) -> dict[str, Any]:
    """A promise as data for a report or a handoff; ``side`` is that of the reader."""
    fields = {name: getattr(promise, name) for name in _FIELDS}
    return {**fields, "side": side or promise.side}


def check_text(what: str, text: str) -> str:
    """Return the text of a promise or of a note on one. Raises Misuse if it is empty or too long."""
    if type(text) is not str or not text.strip() or len(text) > PROMISE_CHARS_MAX:
        raise Misuse(
            problem=f"{what} of a promise is {text!r:.80}",
            advice=f"say it in 1 to {PROMISE_CHARS_MAX:,} characters",
        )
    return text


def find(promises: Mapping[str, Promise], named: "Promise | str", run: str) -> Promise:
    """The promise of this run, by itself or its id. Raises Misuse if this run did not make it."""
    id_ = named.id if isinstance(named, Promise) else named
    found = promises.get(id_)
    if found is None or found.side != "made":
        own = ", ".join(p.id for p in promises.values() if p.side == "made" and p.state == "open") or "none"
        why = "was given to it" if found is not None else "is none of its promises"
        raise Misuse(problem=f"{id_} {why}: run {run} cannot settle it", advice=f"it has promised: {own}")
    return found
