"""Every bound in one place. What has no bound here has none; ``docs/limits.md`` explains each to users.

Units come last in the names. A bound is checked where the thing enters, before anything is written.
"""

from typing import Final

# names
RUN_ID_CHARS_MAX: Final = 200
STEP_NAME_CHARS_MAX: Final = 200
LABEL_CHARS_MAX: Final = 100
KEY_CHARS_MAX: Final = 500

# memory
SCOPE_CHARS_MAX: Final = 200
"""Of a fact's scope, and of each of its tags."""
FACT_KEY_CHARS_MAX: Final = 200
FACT_TEXT_CHARS_MAX: Final = 20_000
SEARCH_EVENT_CHARS_MAX: Final = 20_000
"""How much of one event's content a search over history looks at."""
VECTORS_MAX: Final = 200_000
"""How many facts, and how many events, are compared by meaning: the newest. Older ones are found by their words."""
EMBEDDER_BATCH_MAX: Final = 64
EMBEDDER_TIMEOUT_S: Final = 30.0
EMBEDDER_ANSWER_BYTES_MAX: Final = 64_000_000
"""Of a server that makes vectors: texts in one request, how long it may take, and how much it may answer."""

# one append: the same on every store, so that a program never depends on which one it runs on
APPEND_EVENTS_MAX: Final = 64
APPEND_SIZE_BYTES_MAX: Final = 1_000_000
EVENT_PAGE_MAX: Final = 2_000
RECORD_SIZE_BYTES_MAX: Final = 1_000_000
RECORD_PAGE_MAX: Final = 1_000
RUN_PAGE_MAX: Final = 1_000
BLOB_PAGE_MAX: Final = 10_000
BLOB_SIZE_BYTES_MAX: Final = 64_000_000
OBJECT_SIZE_BYTES_MIN: Final = 256_000
"""Where a DynamoDB store has a bucket, content of this size or more lies in it."""

# values
VALUE_INLINE_BYTES_MAX: Final = 16_384
"""A value up to this size stands readable in its event; a larger one is a compressed blob."""
VALUE_SIZE_BYTES_MAX: Final = 64_000_000
VALUE_DEPTH_MAX: Final = 200
NESTING_DEPTH_MAX: Final = 64
"""Steps inside steps."""
SERIES_RUNS_MAX: Final = 100_000
"""How far ``if_finished="new"`` counts: ``daily``, ``daily.2``, …"""
BRANCHES_MAX: Final = 10_000
"""Old branches that rewinds of one run may keep: ``daily~1``, ``daily~2``, …"""
TRACEBACK_CHARS_MAX: Final = 8_000

LOOP_FACTS_MAX: Final = 300
"""How many of its last calls and thoughts a resumed run looks at to know whether it goes in circles."""

CHAIN_MEMORY_BYTES_MAX: Final = 64_000_000
"""How much of the latest states of chains a process keeps in memory, as JSON."""

# exports
EXPORT_LINE_BYTES_MAX: Final = 4_000_000
"""More than any event or letter takes as a line, so that a damaged file is not read as one endless one."""
EXPORT_MANIFEST_BYTES_MAX: Final = 256_000_000

# what comes from elsewhere: an import, a copy, a handoff
SEQ_MAX: Final = 2**32 - 1
"""The number of an event: a store keeps it in 32 bits beside its run's, so that a larger one would be another run's."""
FENCE_MAX: Final = 2**40
"""Of an event that was recorded elsewhere: the run is taken here above it, and then many more times."""
TIME_MAX: Final = 253_402_300_799.0
"""The last second that a calendar has: 9999-12-31T23:59:59Z."""
COUNT_MAX: Final = 2**53
"""Of a size or a count: what every reader of JSON has exactly."""
EVENT_NAME_CHARS_MAX: Final = 8_000
"""Of an event's name, which may be a path, and of its key."""
LETTER_KEY_CHARS_MAX: Final = 1_000
BIRTH_CHARS_MAX: Final = 100
BODY_DEPTH_MAX: Final = 2 * VALUE_DEPTH_MAX + 50
"""How deep the body of an event is nested: a value's own depth, twice where every level has a type, and what is around it."""
EXPORT_RUNS_MAX: Final = 10_000
EXPORT_LETTERS_MAX: Final = RECORD_PAGE_MAX

# time
LEASE_S: Final = 30.0
"""A holder that shows no beat for this long may be taken over."""
BEATS_PER_LEASE: Final = 3
CHAIN_WAIT_S: Final = 10.0
"""How long whoever hands over a checkpoint of a chain waits for another process that works on the same run."""
FLUSH_SYNC_S: Final = 5.0
"""Flushed records survive power loss after at most this long."""
STREAM_FLUSH_S: Final = 0.1
STREAM_FLUSH_BYTES: Final = 2_048
"""A piece of a streamed answer is in the journal after at most this long, or once this much has come."""
BUSY_TIMEOUT_S: Final = 10.0
STATEMENT_TIMEOUT_S: Final = 60.0
"""A server that has not answered a statement by then is not waited for any longer."""
CONNECT_TIMEOUT_S: Final = 10.0
CONNECTIONS_MAX: Final = 8
"""Connections that one process has to a server, beside the one that listens."""
STORE_THREADS_MAX: Final = 4
"""Threads of one process in which async runs call their stores."""
LISTEN_LOOK_S: Final = 1.0
POLL_S: Final = 0.1
"""A waiter on a server is told of changes at once and looks by itself this often; where it cannot be told, this often."""
OUTCOME_HOLD_S: Final = 600.0
"""How long an outcome is held back that the store does not take: long enough to free a disk, or to bring a server back."""
OUTCOME_BACKOFF_S: Final = 0.1
OUTCOME_BACKOFF_S_MAX: Final = 5.0
OUTCOME_TELL_S: Final = 60.0
"""The pause before the first further try to write it, the longest one, and how often the log says that it is held back."""
SETTLE_S: Final = 10.0
DRAIN_S: Final = 10.0
RETRY_BACKOFF_S: Final = 0.5
RETRY_BACKOFF_S_MAX: Final = 30.0
WORKER_RUNS: Final = 4
WORKER_DRAIN_S: Final = 30.0
WORKER_CRASHES_MAX: Final = 5
WORKER_POLL_S: Final = 1.0
WORKER_POLL_S_MIN: Final = 0.05
"""A worker with room looks for work this often at most after it found some, and at least that often when there is none."""
WAIT_LOOK_S: Final = 2.0
"""A run that waits looks at the clock and into its inbox at least this often; a letter wakes it at once."""

# snapshots
SNAPSHOT_EVENTS_MIN: Final = 50_000
"""Below this, folding the whole journal at once is faster than paging bodies in behind a snapshot."""
SNAPSHOT_CHUNK_BYTES: Final = 512_000

# state
STATE_INLINE_BYTES_MAX: Final = 256
"""A part of a state up to this size stands where it belongs; a larger one is stored by itself, once."""
STATE_PIECE_BYTES_MIN: Final = 1_024
STATE_PIECE_BYTES_MAX: Final = 4_096
"""A longer text is stored in pieces."""
STATE_WIDTH_MAX: Final = 64
"""An object with more keys is stored in runs of them."""
STATE_DEPTH_MAX: Final = 32
"""Parts that lie deeper are stored together with what holds them."""
STATE_PACK_BYTES: Final = 131_072
"""What a checkpoint adds is packed together up to about this size."""
STATE_MEMORY_NODES_MAX: Final = 500_000
"""Stored parts that one attempt remembers before it learns its state anew."""

# context
CONTEXT_VALUE_BYTES_MAX: Final = 1_000_000
"""Of a longer result a context tells the size."""
CONTEXT_READ_BYTES_MAX: Final = 16_000_000
"""What one context reads of stored results in all."""

# handing over
HANDOFF_VALUE_BYTES_MAX: Final = 1_000_000
"""A result, a state or a conversation that is longer stays with the giver, and is told as lost."""
HANDOFF_BYTES_MAX: Final = 16_000_000
"""What the values of one handoff come to in all."""
HANDOFF_ITEMS_MAX: Final = 200
"""How many decisions, failures, promises and the like of each sort a handoff lists, the latest. Effects are all there."""
HANDOFF_DOUBTS_MAX: Final = 30
"""How many effects in doubt are handed over at once."""
PROMISE_CHARS_MAX: Final = 2_000
INBOX_MESSAGES_MAX: Final = 500
"""How many messages may lie unread in a run's inbox."""

# prune
KEPT_CHECKPOINTS: Final = 20
"""How many states a run keeps by default, beside those that somebody relies on."""
COMPACT_EVENTS_MIN: Final = 5_000
"""How many events lie before the oldest kept state, by default, until they are replaced by what they came to."""
PRUNE_CHECKPOINTS: Final = 100
PRUNE_EVENTS: Final = 5_000
"""A holder looks whether its run is to be pruned after so many checkpoints, or so many events."""
PRUNE_PAGE_EVENTS: Final = 5_000
"""Events that one write removes."""
PRUNE_MEMORY_BYTES_MAX: Final = 64_000_000
"""How much of the journals of one lineage a prune keeps in memory; what has no room is read again."""
BLOB_GRACE_S: Final = 60.0
"""Content that was referred to this recently is left alone: whoever did may not have committed yet."""

# artifacts
ARTIFACT_BYTES_MAX: Final = 64_000_000
"""A larger file can be tracked by its hash, and is not copied."""
ARTIFACTS_BYTES_MAX: Final = 1_000_000_000
"""What the copies that one run keeps may come to, each version counted whole, unless ``artifact_bytes_max=`` says otherwise."""
ARTIFACT_PIECE_BYTES_MIN: Final = 32_768
ARTIFACT_PIECE_BYTES_MAX: Final = 524_288
"""A larger file is stored in pieces, so that a new version costs what has changed."""

# premises
PREMISE_BYTES_MAX: Final = 256_000_000
"""A larger file or directory is known by its size alone: hashing it would hold up every resume."""
PREMISE_FILES_MAX: Final = 10_000
"""A directory with more entries in it is known by nothing but being there."""
PREMISE_SOURCE_BYTES_MAX: Final = 2_000_000
PREMISE_REACH_S: Final = 2.0
"""How long an endpoint gets to accept a connection."""
CLOCK_BACK_S: Final = 5.0
"""A clock that is behind the last record by less is not told: machines that share a store differ by that."""
