"""The mutations: what a careless edit could do to a line that a promise rests on, and the tests that must fail then.

A mutation is a text of one file and what takes its place. One that does not fit the code any more is reported, and is to be
mended: a mutation that changes nothing proves nothing. The tests are the fastest that notice; others may, too.
"""

from typing import Final, NamedTuple


class Mutation(NamedTuple):
    """One edit: the promise that it breaks, in words, the file below ``src/holdfast``, and what notices it."""

    promise: str
    what: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


_LOST = "1. Nothing acknowledged is lost"
_REPEATED = "2. Nothing finished is repeated"
_GUESSED = "3. Nothing in doubt is guessed"
_LATE = "4. Nobody writes late"
_DIFFERENT = "5. Nothing is silently different"
_HALF = "6. A half-written answer is not lost"
_SECRET = "Secrets never reach the disk"
_SEALED = "What is encrypted cannot be read, changed or swapped"
_SAFE = "Data from others cannot hurt"

_STORES = ("tests/contract/test_stores.py",)
_DECIDE = ("tests/unit/test_settlement.py", "tests/behaviour/steps/test_effects.py")

MUTATIONS: Final = (
    # -- 1 ----------------------------------------------------------------------------------------------------------------
    Mutation(
        _LOST,
        "commits of acknowledged events are not synced",
        "stores/sqlite/connection.py",
        "SYNC_FULL: Final = 2",
        "SYNC_FULL: Final = 1",
        ("tests/faults/test_power_cuts.py",),
    ),
    Mutation(
        _LOST,
        "an outcome is appended without asking for a sync",
        "engine/journal/journal.py",
        "        synced: bool = True,\n        hasty: bool = False,\n        status: str | None = None,",
        "        synced: bool = False,\n        hasty: bool = False,\n        status: str | None = None,",
        ("tests/behaviour/journal/test_synced_events.py",),
    ),
    Mutation(
        _LOST,
        "a failed append counts as written without a look",
        "engine/journal/journal.py",
        "        if not self._find(ticket.item, error):\n",
        "        if False and not self._find(ticket.item, error):\n",
        ("tests/behaviour/journal/test_unknown_outcome.py",),
    ),
    Mutation(
        _LOST,
        "flushed events that a server lost are not written again",
        "engine/journal/journal.py",
        "            if item.after_seq == row.head and row.lease.fence == self.fence:\n",
        "            if False:\n",
        ("tests/behaviour/journal", "tests/faults/test_postgres_faults.py"),
    ),
    Mutation(
        _LOST,
        "an event behind one that was not written is committed",
        "engine/journal/group_commit.py",
        "        return ticket.epoch <= self._void_upto.get(ticket.item.run, 0)",
        "        return False",
        ("tests/behaviour/journal/test_retried_appends.py", "tests/unit/test_group_commit.py"),
    ),
    Mutation(
        _LOST,
        "a letter is deleted before its consequence is recorded, or not at all",
        "stores/sqlite/statements.py",
        'CONSUME_LETTER: Final = "DELETE FROM records WHERE space = ? AND key = ?"',
        'CONSUME_LETTER: Final = "DELETE FROM records WHERE space = ? AND key = ? AND 0"',
        _STORES,
    ),
    Mutation(
        _LOST,
        "contents that are still referred to are deleted",
        "stores/sqlite/statements.py",
        'DELETE_BLOB: Final = "DELETE FROM blobs WHERE address = ? AND touched_at < ?"',
        'DELETE_BLOB: Final = "DELETE FROM blobs WHERE address = ? AND touched_at <= ? + 1e9"',
        _STORES,
    ),
    Mutation(
        _LOST,
        "an origin is deleted while forks borrow from it",
        "stores/sqlite/statements.py",
        "DELETE FROM runs WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE origin = ?2)",
        "DELETE FROM runs WHERE id = ?1 AND (1 OR ?2)",
        _STORES,
    ),
    Mutation(
        _LOST,
        "a run is pruned although it was forked since the plan was made",
        "stores/sqlite/statements.py",
        'FIND_GUARDED: Final = "SELECT id FROM runs WHERE run = ? AND fence = ? AND revision = ?"',
        'FIND_GUARDED: Final = "SELECT id FROM runs WHERE run = ? AND fence = ? AND (1 OR revision = ?)"',
        _STORES,
    ),
    # -- 2 ----------------------------------------------------------------------------------------------------------------
    Mutation(
        _REPEATED,
        "a recorded outcome is not found",
        "engine/steps/step.py",
        '        call, met = held.view.calls.get(asked.key), getattr(fn, "__code__", None)\n',
        '        call, met = None, getattr(fn, "__code__", None)\n',
        ("tests/behaviour/steps/test_replay.py",),
    ),
    Mutation(
        _REPEATED,
        "calls with other arguments are the same call",
        "engine/steps/call_identity.py",
        "site = blake2b(named + arguments, digest_size",
        "site = blake2b(named, digest_size",
        ("tests/behaviour/steps/test_identity.py",),
    ),
    Mutation(
        _REPEATED,
        "a run that was erased and created again reuses the idempotency keys of the old one",
        "core/steps/identity.py",
        'return sha256(f"{birth}\\0{key}".encode()).hexdigest()[:32]',
        'return sha256(f"{key}".encode()).hexdigest()[:32]',
        ("tests/behaviour/steps",),
    ),
    Mutation(
        _REPEATED,
        "a letter is posted over one that waits",
        "engine/journal/inbox.py",
        '    is_new = store.put_record(inbox_space(run), letter, _written({**content, "at": at}), revision=0)',
        "    there = store.get_record(inbox_space(run), letter)\n"
        '    is_new = store.put_record(inbox_space(run), letter, _written({**content, "at": at}), '
        "revision=there.revision if there else 0)",
        ("tests/behaviour/people", "tests/behaviour/steps/test_effects.py"),
    ),
    # -- 3 ----------------------------------------------------------------------------------------------------------------
    Mutation(
        _GUESSED,
        "`NotDone` counts although the process may live",
        "core/steps/in_doubt.py",
        "        if not owner_dead:\n",
        "        if False and not owner_dead:\n",
        ("tests/unit/test_settlement.py",),
    ),
    Mutation(
        _GUESSED,
        "`NotDone` counts before `settle_s` has passed",
        "core/steps/in_doubt.py",
        '        if waited_s < settle_s:\n            return Settlement("wait", wait_s=settle_s - waited_s)\n',
        "",
        _DECIDE,
    ),
    Mutation(
        _GUESSED,
        "a retry does not wait for `settle_s`",
        "core/steps/in_doubt.py",
        'return Settlement("retry") if waited_s >= settle_s else',
        'return Settlement("retry") if True else',
        _DECIDE,
    ),
    Mutation(
        _GUESSED,
        "without a verdict the effect is done again",
        "core/steps/in_doubt.py",
        '    return Settlement("stop", reason="verify cannot tell" if verdict is not None else "")',
        '    return Settlement("not_done", reason="")',
        _DECIDE,
    ),
    Mutation(
        _GUESSED,
        "a verifier that raises says: not done",
        "engine/steps/in_doubt.py",
        '        return Unknown(f"verify raised {type(error).__name__}: {error}")',
        "        return NotDone()",
        _DECIDE,
    ),
    Mutation(
        _GUESSED,
        "a doubt is asked about before it is recorded",
        "engine/steps/in_doubt.py",
        "    await record(work, reason)\n    held = work.held\n",
        "    held = work.held\n",
        _DECIDE,
    ),
    Mutation(
        _GUESSED,
        "a cut-off `once` call is forgotten",
        "engine/steps/step.py",
        '        if self.call_options.effect == "once":\n            await in_doubt.record(self, f"was cut',
        '        if False:\n            await in_doubt.record(self, f"was cut',
        ("tests/behaviour/steps/test_effects.py",),
    ),
    Mutation(
        _GUESSED,
        "the intent of an effect is not on disk before the call",
        "engine/steps/step.py",
        '        if options.effect != "read" or',
        "        if",
        ("tests/behaviour/steps", "tests/crash/test_crash_matrix.py"),
    ),
    Mutation(
        _GUESSED,
        "an effect that nobody has claimed stops nothing",
        "core/drift/ledger.py",
        "    return [call for call in unclaimed if call.seq >= passed_seq or is_changed(call)]",
        "    return []",
        ("tests/behaviour/drift/test_ledger_guard.py",),
    ),
    Mutation(
        _GUESSED,
        "an effect that the program was told to be unknown leaves the ledger",
        "core/drift/ledger.py",
        "    return bool(call.outcomes) and is_told_unknown(bodies.body_of(call.outcomes[-1]))",
        "    return False",
        ("tests/behaviour/drift/test_ledger_guard.py",),
    ),
    # -- 4 ----------------------------------------------------------------------------------------------------------------
    Mutation(
        _LATE,
        "an append under an old fence is accepted",
        "stores/sqlite/statements.py",
        'f"AND r.fence = {fence} AND {_HEAD} = {seq} - 1)"',
        'f"AND r.fence >= {fence} AND {_HEAD} = {seq} - 1)"',
        _STORES,
    ),
    Mutation(
        _LATE,
        "an append at an old head is accepted",
        "stores/sqlite/statements.py",
        'f"AND r.fence = {fence} AND {_HEAD} = {seq} - 1)"',
        'f"AND r.fence = {fence} AND (1 OR {_HEAD} = {seq} - 1))"',
        _STORES,
    ),
    Mutation(
        _LATE,
        "a batch accepts an old fence",
        "stores/sqlite/statements.py",
        'f"WHERE r.run = ? AND r.fence = ? AND {_HEAD} = ?"',
        'f"WHERE r.run = ? AND r.fence >= ? AND {_HEAD} = ?"',
        _STORES,
    ),
    Mutation(
        _LATE,
        "a lease is taken from a live holder",
        "stores/sqlite/statements.py",
        "WHERE run = ?4 AND (owner = '' OR (fence = ?5 AND beat = ?6))",
        "WHERE run = ?4 AND (1 OR (fence = ?5 AND beat = ?6))",
        _STORES,
    ),
    Mutation(
        _LATE,
        "a new lease has the fence of the last one",
        "stores/sqlite/statements.py",
        "UPDATE runs SET fence = max(fence, ?7) + 1, owner = ?1",
        "UPDATE runs SET fence = max(fence, ?7, 1), owner = ?1",
        _STORES,
    ),
    Mutation(
        _LATE,
        "a heartbeat renews a lease that is lost",
        "stores/sqlite/statements.py",
        "SET beat = beat + 1, beat_at = ? WHERE run = ? AND fence = ? AND owner <> ''",
        "SET beat = beat + 1, beat_at = ? WHERE run = ? AND fence >= ? AND owner <> ''",
        _STORES,
    ),
    Mutation(
        _LATE,
        "a run under the name of a deleted one starts with fence 0",
        "stores/sqlite/statements.py",
        "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, fences, ?9",
        "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?9",
        _STORES,
    ),
    Mutation(
        _LATE,
        "silence for a tenth of the lease is death",
        "engine/journal/lease.py",
        "    while clock.monotonic() - began < held.lease_s:\n",
        "    while clock.monotonic() - began < held.lease_s / 10:\n",
        ("tests/race",),
    ),
    Mutation(
        _LATE,
        "a process that lost its lease keeps what its `once` call returned to itself",
        "engine/steps/in_doubt.py",
        '        if work.call_options.effect != "read":  # the new holder simply makes a read again\n',
        "        if False:\n",
        (
            "tests/behaviour/steps/test_known_outcomes.py::test_a_lost_lease_ends_it_and_the_outcome_goes_to_the_inbox",
        ),
    ),
    # -- 5 ----------------------------------------------------------------------------------------------------------------
    Mutation(
        _DIFFERENT,
        "an event's checksum does not cover its place",
        "model/events.py",
        "    return crc32(_PLACE.pack(seq, at, fence) + texts + body)\n\n\ndef is_intact",
        "    return crc32(_PLACE.pack(0, at, fence) + texts + body)\n\n\ndef is_intact",
        ("tests/unit/test_events.py",),
    ),
    Mutation(
        _DIFFERENT,
        "an event of another journal fits into the chain",
        "model/events.py",
        '        return chain == link(abs(before) if before else first_link(self._birth or ""), event.crc)',
        "        return True",
        ("tests/unit/test_events.py", "tests/behaviour/journal/test_event_chain.py"),
    ),
    Mutation(
        _DIFFERENT,
        "a record's checksum does not cover its key",
        "stores/row_checksums.py",
        '    return crc32(body, crc32(_RECORD.pack(revision, *map(len, texts)) + b"".join(texts)))',
        "    return crc32(body, crc32(_RECORD.pack(revision, 0, 0)))",
        ("tests/faults/test_damaged_rows.py",),
    ),
    Mutation(
        _DIFFERENT,
        "a damaged row is used",
        "stores/row_checksums.py",
        "    if row.damage:\n        raise Corrupt(",
        "    if False:\n        raise Corrupt(",
        ("tests/faults/test_damaged_rows.py", "tests/contract/test_stores.py"),
    ),
    Mutation(
        _DIFFERENT,
        "a content is not compared with its address",
        "codec/blobs.py",
        "    if address_of(data) != address:\n",
        "    if False:\n",
        ("tests/unit/test_codec_blobs.py",),
    ),
    Mutation(
        _DIFFERENT,
        "an unknown tag is returned as it is",
        "codec/untag.py",
        '        raise UnreadableError(str(name), "a tag that this Holdfast does not know")',
        "        return lambda fields: fields",
        ("tests/unit/test_codec_values.py",),
    ),
    Mutation(
        _DIFFERENT,
        "an import goes on with a run of another birth",
        "engine/transfer/import_.py",
        '        if row.birth != part.birth or "flattens" in facts_of(row):\n',
        '        if "flattens" in facts_of(row):\n',
        ("tests/behaviour/transfer/test_exports.py",),
    ),
    Mutation(
        _DIFFERENT,
        "a moved export can be imported twice",
        "engine/transfer/moves.py",
        "    if given is not None and given.owner != owner:\n",
        "    if False:\n",
        ("tests/behaviour/transfer/test_single_use_exports.py",),
    ),
    # -- data from others -----------------------------------------------------------------------------------------------------------
    Mutation(
        _SAFE,
        "a frame may claim any size",
        "codec/blobs.py",
        "        if size is None or size > BLOB_SIZE_BYTES_MAX:\n",
        "        if False:\n",
        ("tests/unit/test_codec_blobs.py",),
    ),
    Mutation(
        _SAFE,
        "the inspector answers to any Host",
        "ui/access.py",
        "        if self._hosts is not None and not self._is_ours(_name(host)):\n",
        "        if False:\n",
        ("tests/ui/test_access.py",),
    ),
    Mutation(
        _SAFE,
        "another site may post to the inspector",
        "ui/access.py",
        '        if scope["method"] not in _SAFE and not _is_own(headers, host):\n',
        "        if False:\n",
        ("tests/ui/test_access.py",),
    ),
    Mutation(
        _SAFE,
        "any token is accepted",
        "ui/access.py",
        "        if given and _same(given, self._token):\n",
        "        if given:\n",
        ("tests/ui/test_access.py",),
    ),
    Mutation(
        _SAFE,
        "scripts may read the cookie",
        "ui/access.py",
        'httponly=True, samesite="strict"',
        'httponly=False, samesite="strict"',
        ("tests/ui/test_access.py",),
    ),
    Mutation(
        _SAFE,
        "a page may load scripts from elsewhere",
        "ui/access.py",
        "default-src 'none'; script-src 'self';",
        "default-src *; script-src *;",
        ("tests/ui/test_access.py",),
    ),
    Mutation(
        _SAFE,
        "a webhook's signature is not compared",
        "core/hooks/signature.py",
        "    if not any(compare_digest(one.encode(), expected) for one in given[SIGNATURE].split()):\n",
        "    if False:\n",
        ("tests/behaviour/hooks",),
    ),
    Mutation(
        _SAFE,
        "an old webhook can be sent again",
        "core/hooks/signature.py",
        "    if abs(now - at_s) > tolerance_s:\n",
        "    if False:\n",
        ("tests/behaviour/hooks/test_delivery.py",),
    ),
    # -- forks and edits -------------------------------------------------------------------------------------------------
    Mutation(
        _GUESSED,
        "the guard takes each recorded effect for one that the program has asked for",
        "core/drift/ledger.py",
        "    return is_inside_answered(call, calls, bodies.intent_of, attempt_seq)",
        "    return True",
        ("tests/behaviour/drift/test_ledger_guard.py",),
    ),
    Mutation(
        _REPEATED,
        "a fork makes an effect again that happened behind its point",
        "core/lineage/later_effects.py",
        'entry["outcome"] else "asked"',
        'entry["outcome"] else "again"',
        (
            "tests/behaviour/lineage/test_later_effects.py",
            "tests/behaviour/lineage/test_doubts.py",
        ),
    ),
    Mutation(
        _REPEATED,
        "an effect behind a fork is listed without its outcome",
        "core/lineage/later_effects.py",
        "            outcome = {name: value for name, value in contents_of(body).items() if name in _VALUE}\n",
        "            outcome = {}\n",
        (
            "tests/behaviour/lineage/test_later_effects.py",
            "tests/behaviour/lineage/test_doubts.py",
        ),
    ),
    Mutation(
        _GUESSED,
        "a fork forgets an effect of which the program was told that nobody knows",
        "core/lineage/later_effects.py",
        "    elif not call.is_open and not _is_told_unknown(call, reader):\n",
        "    elif not call.is_open:\n",
        (
            "tests/behaviour/lineage/test_later_effects.py",
            "tests/behaviour/lineage/test_doubts.py",
        ),
    ),
    Mutation(
        _LOST,
        "a fork does not keep the contents of outcomes behind its point",
        "core/lineage/later_effects.py",
        'for e in entries if "value_blob" in e["outcome"])',
        'for e in entries if "none" in e["outcome"])',
        (
            "tests/behaviour/lineage",
            "tests/behaviour/prune",
        ),
    ),
    # -- secrets ---------------------------------------------------------------------------------------------------------
    Mutation(
        _SECRET,
        "what is written is not looked through",
        "codec/secrets.py",
        "    if not has_known(data):\n        return data\n    tree",
        "    if data:\n        return data\n    tree",
        ("tests/behaviour/secrets/test_surfaces.py",),
    ),
    Mutation(
        _SECRET,
        "messages, notes and exceptions are not masked",
        "codec/secrets.py",
        "    return text if pattern is None else pattern.sub",
        "    return text if text else pattern.sub",
        ("tests/behaviour/secrets/test_surfaces.py",),
    ),
    Mutation(
        _SECRET,
        "a stream does not hold back the beginning of a secret",
        "codec/secrets.py",
        "        return bool(_unfinished(content)[0])",
        "        return False",
        ("tests/property/test_secret_streams.py",),
    ),
    Mutation(
        _SECRET,
        "a letter for another run is posted as it is",
        "engine/journal/inbox.py",
        "    if not KNOWN:\n        return data",
        "    if data:\n        return data",
        ("tests/behaviour/secrets/test_shown.py",),
    ),
    Mutation(
        _SECRET,
        "tokens that nobody declared are shown",
        "codec/secrets.py",
        "    for start, end, begins in shapes_in(text):\n",
        "    for start, end, begins in ():\n",
        ("tests/behaviour/secrets/test_shown.py",),
    ),
    # -- encryption ------------------------------------------------------------------------------------------------------
    Mutation(
        _SEALED,
        "a record opens under any key of its space",
        "stores/encrypted/sealed_records.py",
        'place_of("record", space, key, _REVISION.pack(revision), birth)',
        'place_of("record", space, _REVISION.pack(revision), birth)',
        ("tests/faults/test_encrypted_rows.py",),
    ),
    Mutation(
        _SEALED,
        "a record opens at any revision",
        "stores/encrypted/sealed_records.py",
        'place_of("record", space, key, _REVISION.pack(revision), birth)',
        'place_of("record", space, key, birth)',
        ("tests/faults/test_encrypted_rows.py",),
    ),
    Mutation(
        _SEALED,
        "a plain record counts as a sealed one",
        "stores/encrypted/sealed_records.py",
        "        if body[: start - 1] != SEALED:\n            raise NotGenuineError",
        "        if body[: start - 1] != SEALED:\n            return _LENGTH.pack(0) + body",
        ("tests/faults/test_encrypted_rows.py",),
    ),
    Mutation(
        _SEALED,
        "the nonces of events are zeros",
        "stores/encrypted/sealed_events.py",
        "    nonces, end = urandom(NONCE_BYTES * len(events)), 0",
        "    nonces, end = bytes(NONCE_BYTES * len(events)), 0",
        ("tests/faults/test_encrypted_rows.py",),
    ),
    Mutation(
        _SEALED,
        "the nonces of rows are zeros",
        "stores/encrypted/seal.py",
        "        nonce = urandom(NONCE_BYTES)",
        "        nonce = bytes(NONCE_BYTES)",
        ("tests/faults/test_encrypted_rows.py",),
    ),
    Mutation(
        _SEALED,
        "the runs of a lineage seal their events by one key",
        "stores/encrypted/keys.py",
        "        return Cipher(self._events.digest(text_bytes(birth)))",
        "        return Cipher(self._events.digest(text_bytes(birth[:0])))",
        ("tests/faults/test_encrypted_rows.py",),
    ),
    Mutation(
        _SEALED,
        "the texts of an event may be cut elsewhere",
        "stores/encrypted/sealed_events.py",
        "        if len(kind) != kind_chars or len(hidden) != (HIDDEN_DIGITS if key_bytes else 0):\n",
        "        if False:\n",
        ("tests/faults/test_encrypted_rows.py",),
    ),
)
