"""Chains: lines of checkpoints that a run keeps for a framework, such as LangGraph, read from its journal.

Each checkpoint of a chain, a *link*, has an id and names its parent. Writes that belong to it and came later
are *pending* with it. The order of the journal is the order of a chain, because ids and clocks of several
machines cannot be compared. A link whose state was pruned is not a checkpoint any more, but can still be the
parent of another.

A link may hold only part of its state and *lean on* earlier links for the rest. Then their states, and what
is pending with the links in between, stay as long as it does.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any

from holdfast.model.event_fields import contents_of, fields_of, is_hollow
from holdfast.model.events import CHAINED, PENDING, Event, Kind
from holdfast.model.named_tuple import NamedTuple


class Link(NamedTuple):
    """One checkpoint of a chain; ``body`` is that of its event. ``is_kept``: its state still exists.

    A link that is kept and not ``is_seen`` was deleted by the framework, and stays only for links that lean
    on it.
    """

    seq: int
    at: float
    chain: str
    id: str
    parent: str | None
    body: bytes
    is_kept: bool
    is_seen: bool

    @property
    def leans(self) -> dict[str, int]:
        """The parts of its state that it does not hold, with the seq of the link that holds each."""
        return leans_of(self.body)


class Pending(NamedTuple):
    """One write that is pending with a link. A second write of the same task and index is a repeat."""

    task: str
    nth: int
    path: str
    name: str
    value: Any
    """In its encoded form."""


class Chains:
    """All chains of a run. It grows by ``add``, with the run's events in their order."""

    def __init__(self) -> None:
        self._links: dict[str, dict[str, Link]] = {}
        self._children: dict[tuple[str, str | None], set[str]] = {}
        self._pending: dict[tuple[str, str], list[Event]] = {}
        self._taken: dict[tuple[str, str], set[tuple[str, int]]] = {}

    def add(self, event: Event) -> None:
        """Take one more event. Most events are not about chains and are ignored."""
        if event.kind == Kind.CHECKPOINT and event.name == CHAINED:
            body = contents_of(event.body)
            chain, id_, parent = body["chain"], body["id"], body["parent"]
            links = self._links.setdefault(chain, {})
            links.pop(id_, None)  # a link that is written again becomes the latest: dicts keep the order
            links[id_] = Link(
                event.seq,
                event.at,
                chain,
                id_,
                parent,
                event.body,
                is_kept="state" in body,
                is_seen="state" in body and not body.get("hidden"),
            )
            self._children.setdefault((chain, parent), set()).add(id_)
        elif event.kind == Kind.MARK and event.name == PENDING and not is_hollow(event.body):
            body = contents_of(event.body)
            place = (body["chain"], body["on"])
            self._pending.setdefault(place, []).append(event)
            self._taken.setdefault(place, set()).update((body["task"], index) for index in body["indexes"])

    @property
    def names(self) -> list[str]:
        """The names of the chains, in the order in which they began."""
        return list(self._links)

    def links(self) -> Iterator[Link]:
        """Every link of every chain, including those whose states were pruned."""
        return (link for links in self._links.values() for link in links.values())

    def all_pending(self) -> Iterable[tuple[tuple[str, str], list[Event]]]:
        """The events of pending writes, by chain and link."""
        return self._pending.items()

    def find(self, chain: str, id_: str | None) -> Link | None:
        """The link of this id, or None; without an id, the latest checkpoint."""
        links = self._links.get(chain, {})
        if id_ is not None:
            return links.get(id_)
        return next((link for link in reversed(links.values()) if link.is_seen), None)

    def newest_first(self, chain: str) -> Iterator[Link]:
        """The checkpoints of a chain."""
        return (link for link in reversed(self._links.get(chain, {}).values()) if link.is_seen)

    def followers(self, chain: str, parent: str | None, besides: str) -> list[Link]:
        """The links whose parent is this one, without the link ``besides``.

        Without a parent, all links of the chain.
        """
        links = self._links.get(chain, {})
        found = links if parent is None else self._children.get((chain, parent), set())
        return [links[id_] for id_ in found if id_ != besides]

    def pending(self, chain: str, id_: str) -> list[Event]:
        """The events of the writes that are pending with a link, oldest first."""
        return self._pending.get((chain, id_), [])

    def is_taken(self, chain: str, id_: str, task: str, index: int) -> bool:
        """Whether a link has a pending write of this task and index.

        Writes with an index below zero are replaced.
        """
        return index >= 0 and (task, index) in self._taken.get((chain, id_), ())

    def ancestors(self, link: Link) -> Iterator[Link]:
        """The links before this one, nearest first.

        Ids come from the framework: a loop of parents must end.
        """
        seen = {link.id}
        parent = link.parent
        while parent is not None and parent not in seen:
            found = self.find(link.chain, parent)
            if found is None:
                return
            yield found
            seen.add(parent)
            parent = found.parent


def settled(written: Iterable[Pending]) -> list[Pending]:
    """The pending writes that count: the first of each task and index; the last, if the index is below zero.

    They are in the order in which the framework applies them: by path, task and index.
    """
    found: dict[tuple[str, int], Pending] = {}
    for one in written:
        place = (one.task, one.nth)
        if one.nth < 0 or place not in found:
            found[place] = one
    return sorted(found.values(), key=lambda one: (one.path, one.task, one.nth))


def leans_of(body: bytes) -> dict[str, int]:
    """The parts that the checkpoint with this body does not hold, with the seqs of the links that do."""
    return dict(fields_of(body).get("leans") or {})


def leaning(parent: Link | None, parts: Iterable[str]) -> dict[str, int]:
    """Where a new link finds the parts that it lacks: where its parent finds them, or in its parent."""
    if parent is None:
        return {}
    known = parent.leans
    return {part: known.get(part, parent.seq) for part in sorted(parts)}


# -- for pruning ---------------------------------------------------------------------------------------------


def with_their_base(kept: Iterable[int], own: Mapping[int, Event]) -> set[int]:
    """These checkpoints and those that they lean on, by seq."""
    found: set[int] = set()
    todo = list(kept)
    while todo:
        seq = todo.pop()
        if seq not in found:
            found.add(seq)
            event = own.get(seq)
            todo += leans_of(event.body).values() if event is not None and event.name == CHAINED else ()
    return found


def superseded(history: Iterable[Event], kept: Iterable[int]) -> list[Event]:
    """The events of writes that are pending with links that go, and that no link that stays leans on."""
    chains, kept = Chains(), set(kept)
    for event in history:
        chains.add(event)
    staying: set[tuple[str, str]] = set()
    for link in chains.links():
        if link.seq in kept:
            staying.add((link.chain, link.id))
            base = min(link.leans.values(), default=link.seq)
            staying |= {(link.chain, one.id) for one in _back_to(base, chains.ancestors(link))}
    return [event for place, found in chains.all_pending() if place not in staying for event in found]


def _back_to(seq: int, ancestors: Iterable[Link]) -> Iterator[Link]:
    return takewhile(lambda one: one.seq >= seq, ancestors)
