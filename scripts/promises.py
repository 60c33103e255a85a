"""Each promise, what tries to break it, and what is not covered: ``make guarantees`` makes docs/guarantees.md of this table.

A trial names a test file, a folder of tests or a ``make`` target. A test compares the names with what there is.
"""

from typing import Final, NamedTuple


class Trial(NamedTuple):
    """What tries to break a promise."""

    where: str
    how: str


class Promise(NamedTuple):
    """A promise, in the words of the tour where it is one of its six."""

    title: str
    says: str
    trials: tuple[Trial, ...]
    not_covered: tuple[str, ...]


PROMISES: Final = (
    Promise(
        "Nothing acknowledged is lost",
        "When a recording call returns, the record survives SIGKILL and power loss.",
        (
            Trial(
                "make faults",
                "a shim below SQLite (`LD_PRELOAD`) fails calls with real errnos, forgets what a failed fsync left "
                "unsynced, kills, and replays power cuts from its log, in seeded schedules that combine them; "
                "`make test` plays the first 56",
            ),
            Trial("tests/faults/test_power_cuts.py", "a disk in Python, cut at any place of its log"),
            Trial(
                "tests/faults/test_lost_locks.py",
                "the holder reads and copies its own directory, and asks the views with another SQLite, while other "
                "processes open and leave the store",
            ),
            Trial(
                "tests/contract/test_sqlite_owners.py",
                "a child of `os.fork` or `multiprocessing` outlives its parent, or opens the same store",
            ),
            Trial("tests/faults/test_verbs.py", "every verb of a run in a process without a free descriptor"),
            Trial(
                "tests/faults/test_second_sqlite.py",
                "another SQLite in a thread of the holder, and threads that read the directory, without a pause",
            ),
            Trial(
                "tests/faults/test_postgres_faults.py",
                "PostgreSQL: connections cut at every message, a server that crashes and takes back what was flushed",
            ),
            Trial(
                "tests/faults/test_dynamodb.py",
                "DynamoDB: requests that fail before or after they did their work",
            ),
            Trial(
                "make soak",
                "workers on SQLite (also encrypted), PostgreSQL and DynamoDB, killed and stopped, with full disks, "
                "restarts of the server and wrong clocks",
            ),
            Trial("make crash", "processes killed before and after every call of the store's port"),
        ),
        (
            "A disk that lies about syncing loses what it lied about.",
            (
                "**Power loss and the acknowledged heads.** They are in the side file, unsynced: after a power cut they may "
                "be older than the journal, so a tail that was lost with the power is noticed only where the disk had "
                "written them. They never alarm falsely."
            ),
            (
                "**A fork made by C code without Python's hooks** keeps its parent's descriptors open: a killed parent "
                "looks alive until that child has ended."
            ),
            (
                "**Another SQLite in the process that has the store open** (the `sqlite3` module) may read it, and must not "
                "write to it or checkpoint it: inside one process no lock keeps the two apart. Other processes may do both. "
                "Where there are no locks of descriptors (macOS, Windows) it may not even read; see [ADR "
                "30](adr/030-locks-that-nobody-drops.md)."
            ),
        ),
    ),
    Promise(
        "Nothing finished is repeated",
        "A recorded outcome is returned, with its type, and its function does not run.",
        (
            Trial("make crash", "a process killed at every call of the store's port, on four stores"),
            Trial(
                "make crossings",
                "every operation on a history at every event of every program, and random walks",
            ),
            Trial("make edits", "programs that are killed and edited, from seeds"),
            Trial("tests/crash/test_matrix.py", "agents killed again while they recover"),
            Trial("tests/behaviour/steps/test_replay.py", "what a replay returns, raises and runs"),
            Trial(
                "tests/behaviour/lineage",
                "forks, rewinds and handoffs: effects behind a fork, effects made again",
            ),
            Trial(
                "make judge-langgraph",
                "LangGraph's conformance suite and its own tests, with our checkpointer",
            ),
            Trial("tests/adapters", "the real frameworks with a scripted model, killed at each call"),
        ),
        (
            (
                "**A moved export that is imported into two stores which cannot reach each other acts twice**, under the "
                "same idempotency key: see [ADR 28](adr/028-data-from-others.md)."
            ),
            (
                "A step that failed, and that the program went past, is tried again if the process dies inside the next "
                "plain `read`, before that one's intent is written (some milliseconds): see [ADR "
                "39](adr/039-a-reads-intent-goes-with-its-outcome.md)."
            ),
            "A run that a person begins again after a loss (`--accept-loss`) may repeat what the lost events recorded.",
        ),
    ),
    Promise(
        "Nothing in doubt is guessed",
        "Your tool verifies an effect that was cut off, or a person decides.",
        (
            Trial(
                "tests/crash/test_user_code.py",
                "killed inside tools, before and after the effect, and in verifiers",
            ),
            Trial("tests/unit/test_settlement.py", "every case of the decision"),
            Trial(
                "tests/behaviour/steps/test_effects.py",
                "policies, verdicts, waits, and what a person is asked",
            ),
            Trial(
                "tests/behaviour/steps/test_known_outcomes.py",
                "an outcome that is known is held while the store refuses it",
            ),
            Trial(
                "tests/behaviour/drift/test_ledger_guard.py",
                "a program that was edited: effects that no call has claimed stop it before anything new happens",
            ),
            Trial("make kills", "a streaming agent with tools, killed at seeded moments"),
        ),
        (
            "An outside effect that was cut off cannot be made exactly-once by anybody. Holdfast makes it known.",
            (
                "**An effect that is in doubt in two branches** (a fork that began in its middle) is made in both, under "
                "one idempotency key, if a person says *retry* in one before the other has made it."
            ),
            "A verifier that says `Done` or `NotDone` wrongly is believed.",
            (
                "After a restart the wall clock says how much of `settle_s` has passed: one that was set ahead meanwhile "
                "shortens it."
            ),
        ),
    ),
    Promise(
        "Nobody writes late",
        "Every write carries a fence. A process that was stopped and replaced cannot write to the journal.",
        (
            Trial(
                "make judge-leases",
                "[a checker of linearizability](adr/053-independent-judges.md) on histories of processes that contend for "
                "one run on each shared store, are stopped and killed",
            ),
            Trial(
                "tests/race",
                "two processes and one run; processes that are stopped and wake up; wrong clocks",
            ),
            Trial("make judge-stores", "random programs over every store against a model of dicts"),
            Trial(
                "tests/contract/test_stores.py",
                "every store refuses an old fence, an old head and a lost lease",
            ),
            Trial(
                "tests/judges/test_store_model.py",
                "a store driven at random against a plain model of the port",
            ),
        ),
        (
            (
                "A process that is stopped, but not dead, may still act late on the outside world: there only the "
                "idempotency key protects."
            ),
        ),
    ),
    Promise(
        "Nothing is silently different",
        "Changed arguments, renamed types, flipped bits and other inputs give a clear error, never a wrong value.",
        (
            Trial(
                "make judge-faults",
                "more than 120 kinds of wrong answers of providers against wrapped clients, whole and streamed: nothing "
                "false is recorded as an answer, and a replay gives the same; `make test` tries a third with OpenAI's",
            ),
            Trial("tests/faults/test_damaged_rows.py", "a bit flipped in every column of every table"),
            Trial("tests/behaviour/journal/test_event_chain.py", "events swapped between copies of a run"),
            Trial("tests/faults/test_lost_tails.py", "an older copy in the place of the file; a deleted WAL"),
            Trial(
                "tests/faults/test_salvage.py",
                "what is intact of a damaged file is brought out, and the rest listed",
            ),
            Trial(
                "tests/property/test_own_fields.py", "user data that imitate every field of Holdfast's own"
            ),
            Trial("tests/property/test_values.py", "values of every storable type, there and back"),
            Trial(
                "tests/behaviour/premises", "files, prompts and settings that changed between two attempts"
            ),
            Trial("tests/migrations", "stores and exports of every earlier format"),
            Trial(
                "tests/migrations/test_newer_formats.py",
                "each mark of a newer format: stores, the side file, keys, journals, exports, handoffs, facts",
            ),
            Trial(
                "tests/migrations/test_two_versions.py",
                "older states of the package beside today's, on one store",
            ),
            Trial(
                "make upgrade",
                "the last three on every store, killed while they migrate; and runs that go on under another Python",
            ),
            Trial("tests/behaviour/limits/test_edges.py", "each limit at its edge"),
        ),
        (
            "**Checksums are against accidents**, not against a person who can write the files; encryption is.",
            (
                "Lease columns, due times and revisions have no checksum: they change with every beat. A fence below that "
                "of the last event is refused."
            ),
            (
                "**An older Holdfast on a DynamoDB table of format 2** fails with `KeyError: 'fence'` instead of a "
                "sentence. It takes, appends to, forks and deletes no run of format 2, and lists none. It can begin runs "
                "of its own; they are runs of format 1, which this version reads, and changes to format 2 with the first "
                "write. What it writes to memories has no checksum."
            ),
        ),
    ),
    Promise(
        "A half-written answer is not lost",
        "A streamed model answer is in the journal a quarter of a second after it arrived.",
        (
            Trial(
                "make kills", "a streaming agent, killed at seeded moments; the provider knows what it sent"
            ),
            Trial(
                "tests/property/test_stream_parts.py", "any stream, any way to cut it, any moment of the kill"
            ),
            Trial("tests/crash/test_model_calls.py", "killed at every write of a model call"),
            Trial(
                "make test-clients",
                "the clients of seven other providers, killed in the middle of their streams; `make test` has Bedrock's",
            ),
            Trial(
                "make judge-faults",
                "120 ways in which servers of models answer wrongly, against wrapped clients",
            ),
            Trial("make e2e", "a real local model, killed with its agent"),
        ),
        (
            "Whether a provider can continue in the middle of a sentence is the provider's: see [models](models.md).",
        ),
    ),
    Promise(
        "All of them together",
        "The promises hold when everything happens at once.",
        (
            Trial(
                "make judge-stores",
                "random programs over every store, plain and encrypted, against a model of dicts",
            ),
            Trial(
                "make judge-langgraph",
                "LangGraph's conformance suite and LangGraph's own tests, with our checkpointer",
            ),
            Trial(
                "make simulate",
                "[the simulator](adr/048-a-seeded-simulator.md): several processes, people, power cuts, failing "
                "stores, takeovers and code changes from one seed; `make test` plays the first 100, and finds each of "
                "nine planted defects",
            ),
            Trial("make crossings", "random walks over programs that use five features at once"),
            Trial("make soak", "real processes, with forks, rewinds, prunes and exports meanwhile"),
            Trial(
                "make mutants", "lines that a promise rests on are broken, one by one: a test notices each"
            ),
        ),
        (
            "The simulator replaces the store by one in memory: what SQL does is tried by `make faults` and the contract.",
            "macOS and Windows: these tests have been run on Linux only.",
        ),
    ),
    Promise(
        "Secrets never reach the disk",
        "Known secrets become references before anything is encoded: [secrets](secrets.md).",
        (
            Trial(
                "tests/behaviour/secrets",
                "every surface that writes, every way out, other forms of a value, names, erasing",
            ),
            Trial("tests/crash/test_erased_secrets.py", "an erasure that is killed at each of its writes"),
            Trial(
                "tests/property/test_secret_streams.py",
                "a streamed answer, cut at every boundary of a secret",
            ),
            Trial(
                "tests/unit/test_token_shapes.py",
                "the shapes of well-known tokens, and what only looks like one",
            ),
        ),
        (
            (
                "Contents of files; values that the program transforms; secrets that are registered after they were recorded: "
                "[the whole list](secrets.md#what-is-not-covered)."
            ),
        ),
    ),
    Promise(
        "What is encrypted cannot be read, changed or swapped",
        "Every row is sealed and authenticated with its place: [encryption](encryption.md).",
        (
            Trial(
                "tests/faults/test_encrypted_rows.py",
                "rows that are flipped, cut, swapped, moved, put in or replaced by plaintext; forged letters, notes and keys",
            ),
            Trial(
                "tests/crash/test_encrypted.py",
                "agents and families in an encrypted store, killed before and after every call of its port",
            ),
            Trial("tests/contract/test_encrypted_stores.py", "the contract of stores over an encrypted one"),
            Trial("tests/behaviour/encryption", "keys, rotation, erasure, and what a wrong key sees"),
            Trial(
                "tests/behaviour",
                "every behaviour over an encrypted store: a third of them in one run of three, all in `make crash`",
            ),
        ),
        (
            (
                "A whole store, or a whole run, that is put back to an earlier copy. Names, times and sizes are in clear: "
                "[the whole list](encryption.md#what-it-does-not-do)."
            ),
            (
                "A large content is sealed by a key that is made from its address and not from its lineage's key: it is "
                "shared, and read by its address alone."
            ),
        ),
    ),
    Promise(
        "Data from others cannot hurt",
        "Imports, handoffs, pages and model output are data: [threat model](../SECURITY.md).",
        (
            Trial(
                "make fuzz",
                "ten surfaces that read what others wrote, by coverage: typed errors only, no hang, nothing half-written",
            ),
            Trial(
                "tests/faults/test_hostile_exports.py",
                "exports made by hand: sizes, types, cycles, bombs, claims",
            ),
            Trial("tests/faults/test_hostile_handoffs.py", "handoff documents made by hand"),
            Trial("tests/faults/test_hostile_facts.py", "facts made by hand"),
            Trial("tests/cli/test_trust.py", "recorded command lines of others"),
            Trial("tests/ui/test_access.py", "rebinding, cross-site posts, framing, tokens"),
            Trial("make test-ui", "hostile text in a real browser"),
            Trial("tests/behaviour/hooks", "webhooks that are forged or sent again"),
            Trial("tests/unit/test_codec_blobs.py", "frames that claim more than they hold"),
        ),
        ("Your process and your machine; a million small things: [what is not defended](../SECURITY.md).",),
    ),
)
