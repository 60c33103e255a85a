"""What a run's row knows beside its columns: a few facts that are about the row and not about its history.

``was``         other names its program may know it by: it was imported under another, or was a fork of a run now gone
``lineage``     the name its lineage goes by, where that is not told by its oldest ancestor any more
``elsewhere``   its events up to this seq were recorded in another store, by processes that cannot be looked at here
``imported``    the hash of the export that it was made from, for as long as it has not begun
``compacted``   a stretch of its events may have been replaced by what they came to
``handed``      the run whose handoff it began with, and its store and event
``flattens``    it is the copy that will take the place of the run of this name

Others may be there: whoever writes one keeps the rest.
"""

from collections.abc import Mapping
from typing import Any, Final

from orjson import OPT_SORT_KEYS, JSONDecodeError, dumps, loads

from holdfast.model.rows import RunRow, Status

_OF_ONE_STORE: Final = frozenset({"elsewhere", "imported", "flattens"})


def facts_of(row: RunRow) -> dict[str, Any]:
    """The facts of a row; none where its body tells nothing."""
    try:
        facts = loads(row.body)
    except JSONDecodeError:
        return {}
    return facts if type(facts) is dict else {}


def with_facts(row: RunRow, **facts: Any) -> bytes:
    """The row's body with these facts in it; None takes one out."""
    told = {**facts_of(row), **facts}
    return dumps({name: value for name, value in told.items() if value is not None}, option=OPT_SORT_KEYS)


def travelling(row: RunRow) -> dict[str, Any]:
    """The facts that go with a run into another store, in order."""
    return {name: value for name, value in sorted(facts_of(row).items()) if name not in _OF_ONE_STORE}


def in_queue(row: RunRow) -> dict[str, Any]:
    """What a worker in another store has to know of a run: its agent, and when it is due."""
    if not row.agent:
        return {}
    # Nobody there holds it: what was at work here is due as soon as it is there.
    due_at = row.created_at if row.status == Status.RUNNING else row.due_at
    return {"agent": row.agent} if due_at is None else {"agent": row.agent, "due_at": due_at}


def names_of(row: RunRow) -> list[str]:
    """The run's name, and the others that its program may know it by."""
    return [row.run, *facts_of(row).get("was", ())]


def lineage_of(chain: list[RunRow]) -> str:
    """The name that all runs of one tree of forks have in common; ``chain`` is a run and its origins, nearest first."""
    root = chain[-1]
    return str(facts_of(root).get("lineage") or root.birth[:12])


def can_travel(facts: Mapping[str, Any]) -> bool:
    """Whether facts that came from elsewhere may stand in a row here."""
    was, lineage = facts.get("was", []), facts.get("lineage", "")
    is_sound = type(lineage) is str and type(was) is list and all(type(name) is str for name in was)
    return is_sound and not _OF_ONE_STORE & facts.keys()


def kin_of(rows: Mapping[str, RunRow], run: str) -> dict[str, RunRow]:
    """The run, and every other one that may need what its states are stored in; ``rows`` are all of the store.

    That is its lineage, which may be more than one tree: flattening leaves several, and an import under another name
    brings a second one.
    """
    names: dict[str, str] = {}

    def lineage(name: str) -> str:
        chain = [rows[name]]
        while chain[-1].run not in names and (origin := chain[-1].origin) is not None and origin in rows:
            chain.append(rows[origin])
        found = names.get(chain[-1].run) or lineage_of(chain)
        names.update(dict.fromkeys((row.run for row in chain), found))
        return found

    wanted = lineage(run)
    return {name: row for name, row in rows.items() if lineage(name) == wanted}


def is_from_elsewhere(chain: list[RunRow], seq: int) -> bool:
    """Whether the event of that seq was recorded in another store."""
    holder = next((row for row in chain if seq > row.origin_seq), chain[-1])
    return bool(facts_of(holder).get("elsewhere", 0) >= seq)
