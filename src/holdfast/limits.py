"""Every bound, in one place. What has no bound here has none; ``docs/limits.md`` explains each to users.

Units come last in the names. A bound is checked at the entry, before anything is written.
"""

from typing import Final

# names
RUN_ID_CHARS_MAX: Final = 200
STEP_NAME_CHARS_MAX: Final = 200
LABEL_CHARS_MAX: Final = 100
KEY_CHARS_MAX: Final = 500

# acts of people
ACTS_KEPT: Final = 200
"""Of one run: prunes, exports, handoffs, and pins and labels taken back. The oldest goes first."""
ACT_TEXT_CHARS_MAX: Final = 500
"""For the person's name, and for what the act was about."""

# memory
SCOPE_CHARS_MAX: Final = 200
"""For a fact's scope, and for each of its tags."""
FACT_KEY_CHARS_MAX: Final = 200
FACT_TEXT_CHARS_MAX: Final = 20_000
SEARCH_EVENT_CHARS_MAX: Final = 20_000
"""How much of one event's content a history search reads."""
VECTORS_MAX: Final = 200_000
"""How many facts, and how many events, are compared by meaning: the newest. Older ones are found by words."""
EMBEDDER_BATCH_MAX: Final = 64
EMBEDDER_TIMEOUT_S: Final = 30.0
EMBEDDER_ANSWER_BYTES_MAX: Final = 64_000_000
"""For an embedding server: texts per request, its response time, and its response size."""

# one append: the same on every store, so that a program never depends on which one it runs on
APPEND_EVENTS_MAX: Final = 64
APPEND_SIZE_BYTES_MAX: Final = 1_000_000
SEALED_BYTES_MAX: Final = 512
"""By how much a sealed value may be larger than a plain one: a nonce, a tag, a header, an event's key."""
REMOVALS_MAX: Final = 64
REMOVED_RECORDS_MAX: Final = 1_000
"""How many runs, and how many records of them, a store deletes in one call."""
EVENT_PAGE_MAX: Final = 2_000
RECORD_SIZE_BYTES_MAX: Final = 1_000_000
RECORD_PAGE_MAX: Final = 1_000
RUN_PAGE_MAX: Final = 1_000
BLOB_PAGE_MAX: Final = 10_000
BLOB_SIZE_BYTES_MAX: Final = 64_000_000
OBJECT_SIZE_BYTES_MIN: Final = 256_000
"""In a DynamoDB store with a bucket, content of this size or more goes to the bucket."""

# values
VALUE_INLINE_BYTES_MAX: Final = 16_384
"""A value up to this size is readable in its event; a larger one is a compressed blob."""
VALUE_SIZE_BYTES_MAX: Final = 64_000_000
VALUE_DEPTH_MAX: Final = 200
NESTING_DEPTH_MAX: Final = 64
"""Steps inside steps."""
SERIES_RUNS_MAX: Final = 100_000
"""The highest number that ``if_finished="new"`` gives: ``daily``, ``daily.2``, …"""
BRANCHES_MAX: Final = 10_000
"""Old branches that rewinds of one run may keep: ``daily~1``, ``daily~2``, …"""
CHILDREN_BORROWED_MAX: Final = 4_000
"""Descendants that one fork may borrow: its row names each."""
TRACEBACK_CHARS_MAX: Final = 8_000

UNCLAIMED_SHOWN_MAX: Final = 20
"""How many recorded effects a stopped call is compared with in its message."""

MODULE_DATA_NAMES_MAX: Final = 16
"""How many globals of its module a call records."""
MODULE_DATA_VALUE_BYTES_MAX: Final = 200
"""The value of a larger global is recorded by its hash and its beginning."""
MODULE_DATA_CHARS_MAX: Final = 60

ARGUMENT_CHECK_EVERY: Final = 100
"""Of the calls of a step, the first one and then each of this many is checked for changed arguments."""
ARGUMENT_CHECK_ATTRIBUTES_MAX: Final = 100
"""How many attributes of a method's object are checked."""

LOOP_FACTS_MAX: Final = 300
"""How many of its last calls and thoughts a resumed run reads for loop detection."""
RECENT_CALLS_MAX: Final = 2 * LOOP_FACTS_MAX
"""How many of the last steps a view can name without looking at all: some of their outcomes may be void."""

LOOP_FACTS_COMPACTED_MAX: Final = 100
"""How many of them a compacted event carries, as digests."""

CHAIN_MEMORY_BYTES_MAX: Final = 64_000_000
"""How much of the latest chain states a process keeps in memory, as JSON."""

# exports
EXPORT_LINE_BYTES_MAX: Final = 4_000_000
"""Longer than the line of any event or letter, so that a damaged file is not read as one endless line."""
EXPORT_MANIFEST_BYTES_MAX: Final = 256_000_000

# data from outside: an import, a copy, a handoff
SEQ_MAX: Final = 2**32 - 1
"""An event's number.

A store packs it into 32 bits beside its run's number; a larger one would reach the next run.
"""
FENCE_MAX: Final = 2**40
"""For an event recorded in another store.

This store takes the run with higher fences, and needs many of them.
"""
TIME_MAX: Final = 253_402_300_799.0
"""The last second that a calendar has: 9999-12-31T23:59:59Z."""
COUNT_MAX: Final = 2**53
"""For a size or a count: the largest integer that every JSON reader has exactly."""
EVENT_NAME_CHARS_MAX: Final = 8_000
"""For an event's name, which may be a path, and for its key."""
LETTER_KEY_CHARS_MAX: Final = 1_000
BIRTH_CHARS_MAX: Final = 100
BODY_DEPTH_MAX: Final = 2 * VALUE_DEPTH_MAX + 50
"""The nesting of an event's body: a value's own depth, doubled for tags, and the levels around it."""
EXPORT_RUNS_MAX: Final = 10_000
EXPORT_LETTERS_MAX: Final = RECORD_PAGE_MAX
EXPORT_RECORDS_MAX: Final = 100_000
EXPORT_PARTS_MAX: Final = 4_000_000
"""Files in one export: more than its manifest can list."""

# time
LEASE_S: Final = 30.0
"""A holder without a heartbeat for this long may be taken over."""
BEATS_PER_LEASE: Final = 3
CHAIN_WAIT_S: Final = 10.0
"""How long the writer of a chain checkpoint waits for another process that works on the same run."""
FLUSH_SYNC_S: Final = 5.0
"""Flushed records survive power loss after at most this long."""
STREAM_FLUSH_S: Final = 0.1
STREAM_FLUSH_BYTES: Final = 2_048
"""A chunk of a streamed answer is in the journal after at most this long, or at this size."""
BUSY_TIMEOUT_S: Final = 10.0
FORK_WAIT_S: Final = 2.0
"""How long os.fork waits for threads that are in the middle of using a SQLite store."""
STATEMENT_TIMEOUT_S: Final = 60.0
"""The client gives up on a server that has not answered a statement by then."""
CONNECT_TIMEOUT_S: Final = 10.0
CONNECTIONS_MAX: Final = 8
"""Connections that one process has to a server, beside the one that listens."""
STORE_THREADS_MAX: Final = 4
"""Threads of one process in which async runs call their stores."""
LISTEN_LOOK_S: Final = 1.0
POLL_S: Final = 0.1
"""How often a waiter polls a server. Notifications come at once, but may be lost or unavailable."""
OUTCOME_HOLD_S: Final = 600.0
"""How long an unwritten outcome is held in memory: enough time to free a disk, or to restart a server."""
OUTCOME_BACKOFF_S: Final = 0.1
OUTCOME_BACKOFF_S_MAX: Final = 5.0
OUTCOME_TELL_S: Final = 60.0
"""The first pause between tries to write it, the longest one, and how often the log reports it."""
SETTLE_S: Final = 10.0
DRAIN_S: Final = 10.0
PROXY_BODY_BYTES_MAX: Final = 64_000_000
PROXY_LOST_ANSWERS_MAX: Final = 16
"""The size of a request to the proxy, and how many answers it keeps for an agent whose connection broke."""
UI_BODY_BYTES_MAX: Final = 16_000_000
"""The size of a request to the inspector: the texts and messages of one act."""
MCP_BODY_BYTES_MAX: Final = 64_000_000
"""The size of a request to the MCP server over HTTP."""
PROXY_STOP_S: Final = 5.0
"""How long a command may go on after its proxy has stopped the run, before it is ended."""
RETRY_BACKOFF_S: Final = 0.5
RETRY_BACKOFF_S_MAX: Final = 30.0
WORKER_RUNS: Final = 4
WORKER_DRAIN_S: Final = 30.0
WORKER_CRASHES_MAX: Final = 5
WORKER_POLL_S: Final = 1.0
WORKER_POLL_S_MIN: Final = 0.05
"""A worker with free capacity polls this often: at the shorter interval after it found work."""
SLEEP_S_MAX: Final = 3_153_600_000.0
"""A hundred years: a longer sleep would end behind the last time that a calendar has."""
WAIT_LOOK_S: Final = 2.0
"""A waiting run checks the clock and its inbox at least this often; a letter wakes it at once."""

# snapshots
SNAPSHOT_EVENTS_MIN: Final = 50_000
"""Below this, folding all events at once is faster than loading bodies in pages after a snapshot."""
SNAPSHOT_CHUNK_BYTES: Final = 512_000

# state
STATE_INLINE_BYTES_MAX: Final = 256
"""A part of a state up to this size is inline; a larger one is stored separately, once."""
STATE_PIECE_BYTES_MIN: Final = 1_024
STATE_PIECE_BYTES_MAX: Final = 4_096
"""A longer text is stored in pieces."""
STATE_WIDTH_MAX: Final = 64
"""An object with more keys is stored in groups of keys."""
STATE_DEPTH_MAX: Final = 32
"""Deeper parts are stored together with their container."""
STATE_PACK_BYTES: Final = 131_072
"""New parts of a checkpoint are packed together up to about this size."""
STATE_MEMORY_NODES_MAX: Final = 500_000
"""How many stored parts one attempt remembers before it forgets all and starts again."""
STATE_SHAPE_BYTES_MIN: Final = 8_192
"""Sixty-four elements of a list that are shorter as JSON are encoded for each checkpoint."""
STATE_SHAPE_LEVELS_MAX: Final = 16
"""Elements that are nested deeper are encoded for each checkpoint."""
STATE_SHAPE_LEAVES_MAX: Final = 65_536
"""Sixty-four elements with more keys and leaves are encoded for each checkpoint."""
STATE_SHAPE_LEAVES_TOTAL_MAX: Final = 1_000_000
"""How many keys and leaves of a state are remembered, at 8 bytes each; the rest is encoded each time."""

# context
CONTEXT_TOKENS: Final = 2_000
"""The length of a context where the program names none."""
CONTEXT_VALUE_BYTES_MAX: Final = 1_000_000
"""For a longer result, a context only has the size."""
CONTEXT_READ_BYTES_MAX: Final = 16_000_000
"""How much of all stored results one context reads."""

# handoffs
HANDOFF_VALUE_BYTES_MAX: Final = 1_000_000
"""A longer result, state or conversation stays with the giver and is listed as a loss."""
HANDOFF_BYTES_MAX: Final = 16_000_000
"""The total size of the values in one handoff."""
HANDOFF_ITEMS_MAX: Final = 200
"""How many decisions, failures, promises and similar items of each sort a handoff lists, latest first kept.

Effects are always complete.
"""
HANDOFF_DOCUMENT_BYTES_MAX: Final = 256_000_000
"""The size of a handoff document that is read from a file."""
HANDOFF_DOUBTS_MAX: Final = 30
"""How many effects in doubt one handoff may have."""
FACTS_FILE_BYTES_MAX: Final = 1_000_000_000
"""The size of a file of facts that is imported."""
PROMISE_CHARS_MAX: Final = 2_000
INBOX_MESSAGES_MAX: Final = 500
"""How many unread messages a run's inbox may have."""

# prune
KEPT_CHECKPOINTS: Final = 20
"""How many states a run keeps by default, besides those in use."""
COMPACT_EVENTS_MIN: Final = 5_000
"""Compaction replaces the events before the oldest kept state when there are more than this, by default."""
COMPACTED_NOTES_MAX: Final = 1_000
COMPACTED_NOTES_BYTES_MAX: Final = 256_000
"""How many decisions and discoveries a compacted event carries, and their total size: the newest that fit."""
PRUNE_CHECKPOINTS: Final = 100
PRUNE_EVENTS: Final = 5_000
"""A holder checks whether to prune its run after so many checkpoints, or so many events."""
PRUNE_PAGE_EVENTS: Final = 5_000
"""Events that one write removes."""
PRUNE_MEMORY_BYTES_MAX: Final = 64_000_000
"""How much of a lineage's journals a prune keeps in memory; the rest is read again."""
BLOB_GRACE_S: Final = 60.0
"""Content referenced this recently is not deleted: the writer may not have committed yet."""

# artifacts
ARTIFACT_BYTES_MAX: Final = 64_000_000
"""A larger file can be tracked by its hash, but is not copied."""
ARTIFACTS_BYTES_MAX: Final = 1_000_000_000
"""The total size of the copies that one run keeps, each version in full.

``artifact_bytes_max=`` changes it.
"""
ARTIFACT_PIECE_BYTES_MIN: Final = 32_768
ARTIFACT_PIECE_BYTES_MAX: Final = 524_288
"""A larger file is stored in pieces, so that a new version costs only its changes."""

# premises
PREMISE_BYTES_MAX: Final = 256_000_000
"""A larger file or directory is compared by size alone: hashing it would delay every resume."""
PREMISE_FILES_MAX: Final = 10_000
"""For a directory with more entries, only its existence is checked."""
PREMISE_SOURCE_BYTES_MAX: Final = 2_000_000
PREMISE_TREE_BYTES_MAX: Final = 400_000
"""A function in a larger file is compared by its own tokens: parsing the file would delay its first call."""
PREMISE_USES_MAX: Final = 100
"""The helpers, classes and constants that are followed from one function."""
PREMISE_DEPTH_MAX: Final = 12
"""How many names in a row are followed from a function."""
PREMISE_TEXT_CHARS_MAX: Final = 4_000
"""The source of a function and of what it uses that is kept with it, to show what changed."""
PREMISE_REACH_S: Final = 2.0
"""How long an endpoint gets to accept a connection."""
INTENT_WAITS_S: Final = 0.005
"""How often waiting intents of ``read`` steps are looked at: the second look writes them."""
DEFERRED_MAX: Final = 16
DEFERRED_BYTES_MAX: Final = 16_000
"""How many intents wait for an outcome, and how large each may be: they are one append with it."""
HOLDER_ENDS_S: Final = 5.0
"""How long a killed process gets to be gone: the kernel frees its memory first, and its locks after that."""
CALL_NOTE_BYTES_MAX: Final = 78
"""How long the note of a call may be, together with the id of its run: a slot of the side file has both.

Encryption adds four bytes to it.
"""
CLOCK_BACK_S: Final = 5.0
"""A clock that is behind the last record by less is not told: machines that share a store differ by that."""

AUTOSAVE_EVERY_S: Final = 60.0
AUTOSAVE_EVERY_STEPS: Final = 3
"""How often ``run.autosave`` saves where the program does not say."""

# hooks and mirrors
HOOKS_MAX: Final = 100
"""How many hooks a store may have."""
HOOK_TIMEOUT_S: Final = 10.0
"""How long one try of a delivery may take, unless ``timeout_s=`` says otherwise."""
HOOK_WAIT_S: Final = 5.0
"""How long leaving a run's block waits for the notices of its end."""
HOOK_TRIES_MAX: Final = 10
HOOK_PAUSE_S: Final = 5.0
HOOK_PAUSE_S_MAX: Final = 21_600.0
"""A failed delivery is tried again after the first pause; each later pause is four times as long."""
HOOK_LOG_S: Final = 2_592_000.0
"""How long ended deliveries stay in ``holdfast hooks log``."""
HOOK_POLL_S: Final = 2.0
"""How often ``holdfast hooks deliver --follow`` looks; a worker looks as often while it has hooks."""
NOTICE_TEXT_CHARS_MAX: Final = 2_000
"""What a notice has of a question, of what it is about, of a goal and of an error."""
MIRROR_PAUSE_S: Final = 0.2
"""A mirror writes the files of a run at most this often, and at the end."""
MIRROR_WAIT_S: Final = 5.0
"""How long leaving a run's block waits for its mirror."""

SECRETS_DECLARED_MAX: Final = 1_000
"""How many values of declared arguments a process keeps hiding; of more, the oldest are no longer known."""
