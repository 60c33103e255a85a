"""Rules about threads: of those who want the same, exactly one gets it.

Those who want different things all do.
"""

from collections import Counter

from holdfast.model.store_rows import Append, Appended, inbox_space
from holdfast.stores.port import StorePort
from holdfast.testing.store_rules.builders import (
    AT,
    a_run,
    an_append,
    an_event,
    append,
    held,
    in_threads,
)

_THREADS = 4
_ROUNDS = 25


class RaceRules:
    """What the port promises about concurrent calls, through one handle and through two."""

    def test_of_writers_to_one_run_exactly_one_wins_each_seq(
        self, store: StorePort, other: StorePort
    ) -> None:
        """Every refused one gets a conflict, and the journal has the winners' events in order."""
        fence = held(store)
        wins: Counter[int] = Counter()

        def write(number: int) -> None:
            handle = (store, other)[number % 2]
            name = f"writer-{number}"
            for seq in range(1, _ROUNDS + 1):
                event = an_event("r", seq, name=name, fence=fence)
                (outcome,) = handle.append([Append("r", fence, seq - 1, (event,))])
                if isinstance(outcome, Appended):
                    wins[seq] += 1
                else:
                    assert outcome.reason == "conflict"

        in_threads(_THREADS, write)
        events = store.read_events("r", limit=_ROUNDS + 1)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert wins == Counter({event.seq: 1 for event in events})
        assert events, "one writer must win"

    def test_writers_to_different_runs_lose_nothing(self, store: StorePort, other: StorePort) -> None:
        """Whether or not their commits are shared, each outcome is the writer's own."""
        fences = [held(store, f"r{number}") for number in range(_THREADS)]

        def write(number: int) -> None:
            handle = (store, other)[number // (_THREADS // 2)]
            for seq in range(_ROUNDS):
                item = an_append(f"r{number}", fences[number], seq, synced=seq % 3 != 0)
                assert append(handle, item) == seq + 1

        in_threads(_THREADS, write)
        for number in range(_THREADS):
            seqs = [event.seq for event in store.read_events(f"r{number}", limit=_ROUNDS + 1)]
            assert seqs == list(range(1, _ROUNDS + 1))

    def test_of_those_who_create_a_run_one_succeeds(self, store: StorePort, other: StorePort) -> None:
        """And its row is the stored one."""
        created: list[str] = []

        def create(number: int) -> None:
            if (store, other)[number % 2].create_run(a_run("r", birth=f"b{number}")):
                created.append(f"b{number}")

        in_threads(_THREADS, create)
        found = store.find_run("r")
        assert found is not None
        assert created == [found.birth]

    def test_of_those_who_acquire_a_run_one_is_granted(self, store: StorePort, other: StorePort) -> None:
        """For each takeover of the same lease, too; the fences count the grants."""
        store.create_run(a_run("r"))
        for round_ in range(1, 6):
            seen = store.find_run("r")
            assert seen is not None
            granted: list[int] = []

            def acquire(number: int, lease: object = seen.lease, granted: list[int] = granted) -> None:
                grant = (store, other)[number % 2].acquire("r", at=AT, lease_s=30.0, over=lease)  # type: ignore[arg-type]
                if grant.granted:
                    granted.append(grant.lease.fence)

            in_threads(_THREADS, acquire)
            assert granted == [round_]

    def test_no_compare_and_set_is_lost(self, store: StorePort, other: StorePort) -> None:
        """A counter that many increment is incremented by each as often as intended."""
        store.put_record("s", "counter", b"0", revision=0)

        def count(number: int) -> None:
            handle = (store, other)[number % 2]
            for _ in range(_ROUNDS // 5):
                done = False
                while not done:
                    record = handle.get_record("s", "counter")
                    assert record is not None
                    body = str(int(record.body) + 1).encode()
                    done = handle.put_record("s", "counter", body, revision=record.revision, synced=False)

        in_threads(_THREADS, count)
        record = store.get_record("s", "counter")
        assert record is not None
        assert int(record.body) == _THREADS * (_ROUNDS // 5) == record.revision - 1

    def test_letters_posted_while_the_holder_drains_are_not_lost(
        self, store: StorePort, other: StorePort
    ) -> None:
        """Each is consumed by exactly one append: by name, not by emptying the inbox."""
        fence = held(store)
        consumed: list[str] = []

        def work(number: int) -> None:
            if number:
                for letter in range(_ROUNDS):
                    assert other.put_record(
                        inbox_space("r"), f"{number}-{letter}", b"x", revision=0, synced=False
                    )
                return
            head = 0
            while len(consumed) < (_THREADS - 1) * _ROUNDS:
                letters = tuple(record.key for record in store.scan_records(inbox_space("r"), limit=100))
                if letters:
                    head = append(store, an_append("r", fence, head, consumed=letters, synced=False))
                    consumed.extend(letters)

        in_threads(_THREADS, work)
        assert len(set(consumed)) == len(consumed) == (_THREADS - 1) * _ROUNDS
        assert store.scan_records(inbox_space("r"), limit=10) == []
