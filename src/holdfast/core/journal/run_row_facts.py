"""What a run's row knows beside its columns: a few facts that are about the row and not about its history.

``was``         other names its program may know it by: it was imported under another, or was a fork of a run now gone
``lineage``     the name its lineage goes by, where that is not told by its oldest ancestor any more
``elsewhere``   its events up to this seq were recorded in another store, by processes that cannot be looked at here
``came``        how those came: by an import or a copy, from which file or store, and when
``imported``    the hash of the export that it was made from, for as long as it has not begun
``compacted``   a stretch of its events may have been replaced by what they came to
``checked``     its events from elsewhere were looked at before they were written: by these rules, see ``core.journal.event_check``
``owner``       as whom it acts here: minted by the import that brought it, and recorded beside its idempotency keys
``handed``      the run whose handoff it began with, and its store and event
``effects``     what becomes of its origin's later effects, for as long as it has not begun: see ``core/lineage/later_effects.py``
``children``    the descendants that a fork borrows when its program asks for them: name to run and head, see ``core/lineage/children.py``
``lost``        events up to this seq were acknowledged and could not be salvaged: nobody enters it until a person accepts that
``flattens``    it is the copy that will take the place of the run of this name

Others may be there: whoever writes one keeps the rest.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from orjson import OPT_SORT_KEYS, JSONDecodeError, dumps, loads

from holdfast.core.journal.event_check import fact_problem, facts_problem, time_problem
from holdfast.errors import Corrupt
from holdfast.model.store_rows import RunRow, Status

CHECKED: Final = 1
"""The rules that events from elsewhere were looked at by, before they were written."""
_OF_ONE_STORE: Final = frozenset({"elsewhere", "came", "imported", "flattens", "checked", "owner"})


def facts_of(row: RunRow) -> dict[str, Any]:
    """The facts of a row; none where its body tells nothing, and none that is not what it should be.

    Corrupt where the row is not what was written.
    """
    if row.damage:
        raise Corrupt(
            store=f"of run {row.run}", problem=row.damage, advice="`holdfast doctor` lists every damaged row"
        )
    facts = _told(row)
    if facts:
        return {name: value for name, value in facts.items() if not fact_problem(name, value)}
    return facts or {}


def row_damage(row: RunRow) -> str:
    """Why a row is not to be believed; empty where nothing speaks against it."""
    if row.damage:  # the store has found its checksum wrong
        return row.damage
    facts = _told(row)
    if facts is None:
        return "its body is no object"
    wrong = (problem for name, value in facts.items() if (problem := fact_problem(name, value)))
    return next(wrong, "") or time_problem(row.created_at)


def _told(row: RunRow) -> dict[str, Any] | None:
    try:
        facts = loads(row.body)
    except JSONDecodeError:
        return None
    return facts if type(facts) is dict else None


def unchecked_upto(row: RunRow) -> int:
    """The last of the run's own events that came from elsewhere before imports were looked through; 0 where there is none."""
    facts = facts_of(row)
    return 0 if facts.get("checked") == CHECKED else int(facts.get("elsewhere", 0))


def with_facts(row: RunRow, **facts: Any) -> bytes:
    """The row's body with these facts in it; None takes one out."""
    told = {**facts_of(row), **facts}
    return dumps({name: value for name, value in told.items() if value is not None}, option=OPT_SORT_KEYS)


def travelling(row: RunRow) -> dict[str, Any]:
    """The facts that go with a run into another store, in order: those that the other one knows what to do with."""
    found = sorted(facts_of(row).items())
    return {
        name: value for name, value in found if name not in _OF_ONE_STORE and not facts_problem({name: value})
    }


def in_queue(row: RunRow) -> dict[str, Any]:
    """What a worker in another store has to know of a run: its agent, and when it is due."""
    if not row.agent:
        return {}
    # Nobody there holds it: what was at work here is due as soon as it is there.
    due_at = row.created_at if row.status == Status.RUNNING else row.due_at
    return {"agent": row.agent} if due_at is None else {"agent": row.agent, "due_at": due_at}


def owner_of(row: RunRow) -> str:
    """As whom a run acts in this store, where an import brought it here; empty where it began here."""
    return str(facts_of(row).get("owner", ""))


def names_of(row: RunRow) -> list[str]:
    """The run's name, and the others that its program may know it by."""
    return [row.run, *facts_of(row).get("was", ())]


def lineage_of(chain: list[RunRow]) -> str:
    """The name that all runs of one tree of forks have in common; ``chain`` is a run and its origins, nearest first."""
    root = chain[-1]
    return str(facts_of(root).get("lineage") or root.birth[:12])


def lineages(rows: Mapping[str, RunRow]) -> dict[str, str]:
    """The name of each run's lineage; ``rows`` are all of the store.

    Runs of one lineage may need what the states of the others are stored in. It may be more than one tree: flattening
    leaves several, and an import under another name brings a second one.
    """
    names: dict[str, str] = {}
    for row in rows.values():
        chain = [row]
        while chain[-1].run not in names and (origin := chain[-1].origin) is not None and origin in rows:
            chain.append(rows[origin])
        root = chain[-1]
        found = names.get(root.run) or (root.birth[:12] if root.damage else lineage_of(chain))
        names.update(dict.fromkeys((one.run for one in chain), found))
    return {run: names[run] for run in rows}


def holder_of(chain: Sequence[RunRow], seq: int) -> RunRow:
    """The run of a lineage, nearest first, whose own events hold the one of that seq."""
    return next((row for row in chain if seq > row.origin_seq), chain[-1])


def is_from_elsewhere(chain: Sequence[RunRow], seq: int) -> bool:
    """Whether the event of that seq was recorded in another store."""
    return bool(facts_of(holder_of(chain, seq)).get("elsewhere", 0) >= seq)
