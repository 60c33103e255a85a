"""What a run's row knows beside its columns: a few facts that are about the row and not about its history.

``was``         other names its program may know it by: it was imported under another, or was a fork of a run now gone
``lineage``     the name its lineage goes by, where that is not told by its oldest ancestor any more
``elsewhere``   its events up to this seq were recorded in another store, by processes that cannot be looked at here
``imported``    the hash of the export that it was made from, for as long as it has not begun
``flattens``    it is the copy that will take the place of the run of this name
"""

from typing import Any

from orjson import JSONDecodeError, dumps, loads

from holdfast.model.rows import RunRow


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
    return dumps({name: value for name, value in told.items() if value is not None})


def names_of(row: RunRow) -> list[str]:
    """The run's name, and the others that its program may know it by."""
    return [row.run, *facts_of(row).get("was", ())]


def lineage_of(chain: list[RunRow]) -> str:
    """The name that all runs of one tree of forks have in common; ``chain`` is a run and its origins, nearest first."""
    root = chain[-1]
    return str(facts_of(root).get("lineage") or root.birth[:12])


def is_from_elsewhere(chain: list[RunRow], seq: int) -> bool:
    """Whether the event of that seq was recorded in another store."""
    holder = next((row for row in chain if seq > row.origin_seq), chain[-1])
    return bool(facts_of(holder).get("elsewhere", 0) >= seq)
