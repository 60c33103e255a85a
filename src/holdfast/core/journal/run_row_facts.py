"""Facts in the body of a run's row: about the row, not about the run's history.

``was``         other names that its program may use: from its export, or of the origin that it was a fork of
``lineage``     the name of its lineage, if its oldest ancestor no longer gives that name
``elsewhere``   events up to this seq were recorded in another store, by processes that cannot be checked here
``came``        how those events came: by an import or a copy, from which file or store, and when
``imported``    the hash of the export that it was made from, until its first attempt
``compacted``   a range of its events may have been replaced by one compacted event
``checked``     the version of the rules that checked its imported events: see ``core.journal.event_check``
``owner``       its identity in this store, made by the import and recorded beside its idempotency keys
``handed``      the run whose handoff it began with, and that run's store and event
``effects``     what happens to its origin's later effects, until its first attempt: see ``later_effects``
``children``    descendants that a fork borrows when its program asks for them: name to run and head
``lost``        events up to this seq were acknowledged and are lost: a person must accept that first
``flattens``    it is the copy that will replace the run of this name
``by``          the person who asked for the fork
``forks``       it is a fork that is not complete before its first events: overrides, a directory of its own

Newer versions may add others. A writer keeps the facts that it does not know.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from orjson import OPT_SORT_KEYS, JSONDecodeError, dumps, loads

from holdfast.core.journal.event_check import fact_problem, facts_problem, time_problem
from holdfast.errors import Corrupt
from holdfast.model.store_rows import RunRow, Status

CHECKED: Final = 1
"""The version of the rules that imported events are checked by before they are written."""
_OF_ONE_STORE: Final = frozenset({"elsewhere", "came", "imported", "flattens", "checked", "owner", "forks"})


def facts_of(row: RunRow) -> dict[str, Any]:
    """The well-formed facts of a row. Raises Corrupt if the row's checksum is wrong."""
    if row.damage:
        raise Corrupt(
            store=f"of run {row.run}", problem=row.damage, advice="`holdfast doctor` lists every damaged row"
        )
    facts = _parsed(row)
    if facts:
        return {name: value for name, value in facts.items() if not fact_problem(name, value)}
    return facts or {}


def row_damage(row: RunRow) -> str:
    """What is wrong with a row; empty if nothing."""
    if row.damage:  # the store found a wrong checksum
        return row.damage
    facts = _parsed(row)
    if facts is None:
        return "its body is no object"
    wrong = (problem for name, value in facts.items() if (problem := fact_problem(name, value)))
    return next(wrong, "") or time_problem(row.created_at)


def _parsed(row: RunRow) -> dict[str, Any] | None:
    try:
        facts = loads(row.body)
    except JSONDecodeError:
        return None
    return facts if type(facts) is dict else None


def unchecked_upto(row: RunRow) -> int:
    """The seq up to which events were imported by a version that did not check them; 0 if there are none."""
    facts = facts_of(row)
    return 0 if facts.get("checked") == CHECKED else int(facts.get("elsewhere", 0))


def with_facts(row: RunRow, **facts: Any) -> bytes:
    """The row's body with these facts added; None removes one."""
    merged = {**facts_of(row), **facts}
    return dumps({name: value for name, value in merged.items() if value is not None}, option=OPT_SORT_KEYS)


def travelling(row: RunRow) -> dict[str, Any]:
    """The facts that travel with a run to another store, sorted by name.

    Facts that it would refuse stay here.
    """
    found = sorted(facts_of(row).items())
    return {
        name: value for name, value in found if name not in _OF_ONE_STORE and not facts_problem({name: value})
    }


def in_queue(row: RunRow) -> dict[str, Any]:
    """What a worker at another store must know about a run: its agent, and when it is due."""
    if not row.agent:
        return {}
    # A running run has no due time. No process holds it over there, so a worker there may claim it at once.
    due_at = row.created_at if row.status == Status.RUNNING else row.due_at
    return {"agent": row.agent} if due_at is None else {"agent": row.agent, "due_at": due_at}


def owner_of(row: RunRow) -> str:
    """The identity of an imported run in this store; empty if the run began here."""
    return str(facts_of(row).get("owner", ""))


def names_of(row: RunRow) -> list[str]:
    """The run's name, and the other names that its program may use."""
    return [row.run, *facts_of(row).get("was", ())]


def lineage_of(chain: list[RunRow]) -> str:
    """The name of a run's lineage, shared by all its forks.

    ``chain`` is a run and its origins, nearest first.
    """
    root = chain[-1]
    return str(facts_of(root).get("lineage") or root.birth[:12])


def lineages(rows: Mapping[str, RunRow]) -> dict[str, str]:
    """The lineage of each run; ``rows`` are all rows of the store.

    Runs of one lineage share state nodes, so pruning must look at all of them. A lineage may consist of
    several trees: flattening leaves several, and an import under another name adds one.
    """
    names: dict[str, str] = {}
    for row in rows.values():
        chain = [row]
        while chain[-1].run not in names and (origin := chain[-1].origin) is not None and origin in rows:
            chain.append(rows[origin])
        root = chain[-1]
        # The facts of a damaged root cannot be read. Its birth is a column and still names a lineage.
        found = names.get(root.run) or (root.birth[:12] if root.damage else lineage_of(chain))
        names.update(dict.fromkeys((one.run for one in chain), found))
    return {run: names[run] for run in rows}


def holder_of(chain: Sequence[RunRow], seq: int) -> RunRow:
    """The row whose own events include that seq; ``chain`` is a run and its origins, nearest first."""
    return next((row for row in chain if seq > row.origin_seq), chain[-1])


def is_from_elsewhere(chain: Sequence[RunRow], seq: int) -> bool:
    """Whether the event of that seq was recorded in another store."""
    return bool(facts_of(holder_of(chain, seq)).get("elsewhere", 0) >= seq)
