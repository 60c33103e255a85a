"""Every statement of the index, and search bounds as the rest of a WHERE.

It knows the tables of ``index.sql``.

Every writer locks in the same order: documents by key and version, then the counts by model, then vectors,
then notes by name.
"""

from collections.abc import Iterable
from typing import Any, Final

from holdfast.model.search import Within
from holdfast.stores.postgres.statements import after_prefix
from holdfast.stores.postgres.wire.nul_escape import escaped

_SEPARATOR: Final = "\x1f"

# -- write ---------------------------------------------------------------------------------------------------

# Documents are deleted with their vectors; returns the number of documents and terms of each model.
_REMOVE: Final = (
    "WITH found AS MATERIALIZED (SELECT d.id FROM search_documents d {which} "
    "ORDER BY d.key, d.version FOR UPDATE OF d), "
    "gone AS (DELETE FROM search_documents WHERE space = %(space)s AND id IN (SELECT id FROM found) "
    "RETURNING id, model, length), "
    "bare AS (DELETE FROM search_vectors WHERE space = %(space)s AND document IN (SELECT id FROM gone)) "
    "SELECT model, -count(*)::bigint, -sum(length)::bigint FROM gone GROUP BY model"
)
REMOVE_SAME: Final = _REMOVE.replace(
    "{which}",
    "JOIN unnest(%(keys)s::text[], %(versions)s::text[]) AS o (key, version) "
    "ON d.space = %(space)s AND d.key = o.key AND d.version = o.version",
)
REMOVE_KEY: Final = _REMOVE.replace(
    "{which}", "WHERE d.space = %(space)s AND d.key = %(key)s AND d.version <> %(but)s"
)
REMOVE_UNDER: Final = _REMOVE.replace(
    "{which}",
    "WHERE d.space = %(space)s AND d.key >= %(first)s AND (%(behind)s::text IS NULL OR d.key < %(behind)s)",
)
REMOVE_ALL: Final = _REMOVE.replace("{which}", "WHERE d.space = %(space)s")
# If another process has put the same version meanwhile, keep it: it has the same content.
ADD: Final = (
    "INSERT INTO search_documents (space, key, version, at, uses, importance, tags, model, length, words) "
    "SELECT %(space)s, key, version, at, uses, importance, tags, model, length, words::tsvector "
    "FROM unnest(%(keys)s::text[], %(versions)s::text[], %(ats)s::float8[], %(uses)s::bigint[], "
    "%(importances)s::float8[], "
    "%(tags)s::text[], %(models)s::text[], %(lengths)s::integer[], %(words)s::text[]) "
    "AS o (key, version, at, uses, importance, tags, model, length, words) "
    "ON CONFLICT (space, key, version) DO NOTHING RETURNING id, key, version"
)
COUNT_IN: Final = (
    "INSERT INTO search_counts AS c (space, model, documents, terms, changes) SELECT %s, o.* "
    "FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[]) AS o "
    "ON CONFLICT (space, model) DO UPDATE "
    "SET documents = c.documents + excluded.documents, terms = c.terms + excluded.terms, "
    "changes = c.changes + excluded.changes"
)
TOUCH: Final = "UPDATE search_documents SET at = %s, uses = %s WHERE space = %s AND key = %s"
NOTE: Final = (
    "INSERT INTO search_notes (name, value) SELECT * FROM unnest(%s::text[], %s::text[]) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
FORGET_NOTE: Final = "DELETE FROM search_notes WHERE name = %s"
FORGET_NOTES: Final = "DELETE FROM search_notes WHERE name >= %s AND name < %s"

# -- find ----------------------------------------------------------------------------------------------------

COUNT: Final = (
    "SELECT coalesce(sum(documents), 0)::bigint FROM search_counts "
    "WHERE space = %(space)s AND (%(model)s::text IS NULL OR model = %(model)s)"
)
NOTES: Final = (
    "SELECT name, value FROM search_notes WHERE name >= %(first)s AND (%(behind)s::text IS NULL "
    "OR name < %(behind)s)"
)
# The document frequency of a part: a cached one if it cannot have changed much, or counted.
SIZE: Final = (
    "SELECT c.documents, c.terms, c.changes, ARRAY(SELECT CASE WHEN c.changes BETWEEN p.since AND p.until "
    "THEN p.known "
    "ELSE (SELECT count(*) FROM search_documents WHERE space = %(space)s AND words @@ p.asked::tsquery) END "
    "FROM unnest(%(asked)s::text[], %(known)s::bigint[], %(since)s::bigint[], %(until)s::bigint[]) "
    "WITH ORDINALITY AS p (asked, known, since, until, place) ORDER BY p.place) "
    "FROM (SELECT coalesce(sum(documents), 0)::bigint AS documents, coalesce(sum(terms), "
    "0)::bigint AS terms, "
    "coalesce(sum(changes), 0)::bigint AS changes FROM search_counts WHERE space = %(space)s) AS c"
)
# OFFSET 0 keeps the planner from computing the count twice, though the formula has it twice.
BEST: Final = (
    "SELECT key, version, {score} AS score, at, uses, importance FROM ("
    "SELECT id, key, version, at, uses, importance, %(base)s::float8 + %(by)s::float8 * length AS norm, "
    "{times} "
    "FROM search_documents d WHERE space = %(space)s "
    "AND words @@ %(asked)s::tsquery{within} OFFSET 0) AS found "
    "ORDER BY score DESC, id LIMIT %(limit)s"
)
TIMES: Final = "search_times(words, %(word{place})s::tsquery) AS times{place}"
TIMES_PHRASE: Final = "search_times_phrase(words, %(word{place})s::text[]) AS times{place}"
GAIN: Final = "%(gain{place})s::float8 * times{place} / (times{place} + norm)"


def narrowed(within: Within) -> tuple[str, dict[str, Any]]:
    """The rest of a WHERE about the documents ``d`` for these bounds, and its values."""
    parts: list[str] = []
    values: dict[str, Any] = {}
    ranges: list[str] = []
    for place, prefix in enumerate(within.prefixes):
        values |= {f"first{place}": prefix, f"behind{place}": after_prefix(prefix)}
        ranges.append(f"d.key >= %(first{place})s AND d.key < %(behind{place})s")
    if ranges:
        parts.append(f"({' OR '.join(ranges)})")
    for place, tag in enumerate(within.tags):
        values[f"tag{place}"] = tagged([tag])
        parts.append(f"strpos(d.tags, %(tag{place})s) > 0")
    return "".join(f" AND {part}" for part in parts), values


def tagged(tags: Iterable[str]) -> str:
    """Tags in their stored form."""
    return "".join(f"{_SEPARATOR}{escaped(tag)}{_SEPARATOR}" for tag in tags)
