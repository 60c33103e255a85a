"""The statements that SQLite and PostgreSQL share, each written once; ``?`` is a value.

It knows the columns that both schemas have. A store uses what fits and writes the rest itself: where the two
differ in more than a placeholder (heads, locks, arrays), one text for both would be harder to read than two.
"""

from typing import Final

LEASE: Final = "r.fence, r.owner, r.beat, r.since, r.beat_at, r.lease_s"
QUEUE: Final = "r.agent, r.due_at"
SUMS: Final = "r.crc, r.status_crc"

# -- runs ----------------------------------------------------------------------------------------------------

BUMP_REVISION: Final = "UPDATE runs SET revision = revision + 1 WHERE run = ?"
OF_ORIGIN: Final = "WHERE r.origin = ? AND r.run > ? ORDER BY r.run LIMIT ?"
SWAP_RUN: Final = (
    "UPDATE runs SET status = ?, status_crc = ?, body = ?, crc = ?, revision = revision + 1 "
    "WHERE run = ? AND revision = ?"
)
FORGET_RUN: Final = "DELETE FROM runs WHERE id = ?"
TAKE_PLACE: Final = (
    "UPDATE runs SET run = ?, birth = ?, created_at = ?, status = ?, body = ?, revision = ? + 1, fence = ?, "
    "owner = ?, beat = ?, since = ?, beat_at = ?, lease_s = ?, agent = ?, due_at = ?, crc = ?, "
    "status_crc = ? WHERE id = ?"
)
PLACE: Final = "SELECT birth, origin, origin_seq FROM runs WHERE id = ?"
META: Final = "SELECT fences, store, crc FROM meta"
SET_FENCES: Final = "UPDATE meta SET fences = ?, crc = ?"
DELETE_SPACE: Final = "DELETE FROM records WHERE space = ?"

# -- blobs ---------------------------------------------------------------------------------------------------

SCAN_BLOBS: Final = (
    "SELECT address, length(data), touched_at FROM blobs WHERE address > ? ORDER BY address LIMIT ?"
)

# -- leases --------------------------------------------------------------------------------------------------

GET_LEASE: Final = f"SELECT {LEASE} FROM runs r WHERE r.run = ?"  # noqa: S608 - constants
RELEASE: Final = (
    "UPDATE runs SET owner = '', beat = 0, since = 0, beat_at = 0, lease_s = 0 "
    "WHERE run = ? AND fence = ? AND owner <> ''"
)

# -- the queue -----------------------------------------------------------------------------------------------

SET_DUE: Final = "UPDATE runs SET due_at = ? WHERE run = ? AND fence = ? AND owner <> ''"

# -- records -------------------------------------------------------------------------------------------------

GET_RECORD: Final = "SELECT revision, body, crc FROM records WHERE space = ? AND key = ?"
ADD_RECORD: Final = (
    "INSERT INTO records (space, key, revision, body, crc) VALUES (?, ?, 1, ?, ?) "
    "ON CONFLICT (space, key) DO NOTHING"
)
SWAP_RECORD: Final = (
    "UPDATE records SET body = ?, crc = ?, revision = revision + 1 WHERE space = ? "
    "AND key = ? AND revision = ?"
)
# Replaces a damaged record.
REPLACE_RECORD: Final = "UPDATE records SET body = ?, crc = ?, revision = 1 WHERE space = ? AND key = ?"
DELETE_RECORD: Final = "DELETE FROM records WHERE space = ? AND key = ? AND revision = ?"


def after_prefix(prefix: str) -> str | None:
    """The smallest text that sorts after everything with this prefix; None if there is none."""
    for length in range(len(prefix), 0, -1):
        last = ord(prefix[length - 1])
        if last < 0x10FFFF:
            following = (
                0xE000 if last == 0xD7FF else last + 1
            )  # between them are surrogates, which are not text
            return prefix[: length - 1] + chr(following)
    return None
