"""One schedule, carried out and judged.

A world is a directory with a store, the processes at it, and the shim's log. What was acknowledged is in the log;
so a judgement needs nothing but the log and what the next process finds: in the directory itself, and in what
a power cut at any point of the log would have left of it.
"""

import fcntl
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.faults import shim
from tests.faults.acts import GATE
from tests.faults.nursery import ANSWER_S, Child, Ended, Nursery
from tests.faults.replay import Files, cached, cut
from tests.faults.run_acts import PROGRAM
from tests.faults.schedule import FOREIGN, WRITERS, Schedule, Step
from tests.faults.schedule import PROGRAM as PROGRAM_ACTOR
from tests.faults.shim import Record

from holdfast.errors import StoreError

NAME: Final = "x.db"
_KILLS: Final = frozenset(number for name, number in shim.ACTIONS.items() if name.startswith("kill"))

_STORE_ERRORS: Final = frozenset({"StoreError", *(each.__name__ for each in StoreError.__subclasses__())})


class Violation(NamedTuple):
    """A broken promise: of which kind, and the story."""

    kind: str
    text: str


class Outcome(NamedTuple):
    """What became of one schedule."""

    schedule: Schedule
    violations: list[Violation]
    faults: Counter[str]
    errors: Counter[str]
    counts: Counter[str]


class World:
    """The processes of one schedule, and their store."""

    def __init__(
        self,
        nursery: Nursery,
        place: Path,
        schedule: Schedule,
        image: Files,
        *,
        cuts: int,
        plants: Iterable[str] = (),
    ) -> None:
        self._nursery, self._place, self._schedule = nursery, place, schedule
        self._image = {} if schedule.is_new else image
        self._cuts, self._plants = cuts, tuple(plants)
        self._chance = random.Random(~schedule.seed)
        self._children: dict[str, Child] = {}
        self._examiner: Child | None = None
        self._generation = 0
        self._base: dict[int, int] = {}
        """What was promised before the last power cut, by run."""
        self._known: dict[int, int] = {}
        """The head that each writer has told last: what anybody must see who looks."""
        self._is_program_held = False
        """Whether the program's process is alive, and in its run as far as it knows."""
        self._armed: set[str] = set()
        """Whose disk is failing now."""
        self._violations: list[Violation] = []
        self._faults: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        os.mkfifo(place / GATE)
        self._gate = os.open(place / GATE, os.O_RDWR)
        self._begin(self._image)

    def run(self) -> Outcome:
        """Carry out the schedule, and judge what is left."""
        try:
            for step in self._schedule.steps:
                self._do(step)
            for actor in list(self._children):
                self._kill(actor)
            self._judge()
        finally:
            for child in [*self._children.values(), *filter(None, [self._examiner])]:
                child.kill()
            os.close(self._gate)
        return Outcome(self._schedule, self._violations, self._faults, self._errors, self._counts)

    # -- steps -----------------------------------------------------------------------------------------------

    def _do(self, step: Step) -> None:
        if step.verb == "together":
            steps = [Step(*each) for each in step.options["steps"]]
            for each in steps:
                self._child(each.actor).tell(each.verb, **each.options)
            for each in steps:
                if each.actor in self._children:
                    self._hear(each)
        elif step.verb == "cut":
            self._cut_now()
        elif step.verb in ("kill", "leave"):
            self._end(step)
        else:
            self._child(step.actor).tell(step.verb, **step.options)
            if step.verb == "strike":
                self._armed.add(step.actor)
            elif step.verb == "lift":
                self._armed.discard(step.actor)
            self._hear(step)

    def _hear(self, step: Step) -> None:
        try:
            answer = self._children[step.actor].hear()
        except Ended as ended:
            del self._children[step.actor]
            self._ended(step, ended.code)
            return
        except TimeoutError:
            self._kill(step.actor)
            self._violate("hung", f"{step.actor} {step.verb}: no answer within {ANSWER_S:.0f} s")
            return
        if step.actor == PROGRAM_ACTOR:
            self._is_program_held = "value" in answer and step.verb != "end_attempt"
        if "error" in answer:
            self._note(step, answer)
        elif step.verb in ("append", "sync", "settle"):
            self._known[WRITERS[step.actor]] = answer["value"]
        elif step.verb == "intrude" and answer["value"] and self._is_program_held:
            self._violate("two holders", "a second process entered the run that another one is in")
        elif step.verb == "read":
            for number, found in answer["value"].items():
                known = self._known.get(int(number), 0)
                if found < known:
                    self._violate("lost", f"{step.actor} sees {found} of {known} events of r{number}")

    def _note(self, step: Step, answer: dict[str, Any]) -> None:
        error, text = answer["error"], answer["text"]
        story = f"{step.actor} {step.verb}: {text}"
        if step.verb in FOREIGN:
            if "malformed" in text:
                self._violate("malformed", story)
        elif answer["is_typed"]:
            self._errors[error] += 1
            if (
                error == "Corrupt" and step.actor not in self._armed
            ):  # SQLite says so of an unreadable sector too
                self._violate("malformed", story)
            elif step.verb in ("settle", "settle_steps") and error in _STORE_ERRORS:
                self._violate("unusable", story)
        elif error == "Refused":
            self._violate("refused", story)
        else:
            self._violate("wrong content" if error == "AssertionError" else "raw error", story)

    def _ended(self, step: Step, code: int) -> None:
        self._is_program_held &= step.actor != PROGRAM_ACTOR
        if code == -signal.SIGKILL:
            self._counts["killed by a rule"] += 1
        elif code != 0:
            name = signal.Signals(-code).name if code < 0 else f"exit {code}"
            self._violate("crashed", f"{step.actor} ended with {name} in {step.verb}")

    def _end(self, step: Step) -> None:
        child = self._children.get(step.actor)
        if child is None:
            return
        if step.verb == "kill":
            self._kill(step.actor)
            self._counts["killed between two commands"] += 1
        else:
            del self._children[step.actor]
            self._ended(step, child.leave())

    def _kill(self, actor: str) -> None:
        """Not in the middle of a call: what is in the log has happened, and nothing else has."""
        self._is_program_held &= actor != PROGRAM_ACTOR
        with self._log.open("rb") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            self._children.pop(actor).kill()

    def _child(self, actor: str) -> Child:
        if actor not in self._children:
            child = self._nursery.fork()
            self._children[actor] = child
            self._armed.discard(actor)
            for name in self._plants:
                assert "error" not in child.ask("plant", name=name), name
            child.ask(
                "begin",
                database=str(self._live / NAME),
                log=str(self._log),
                behaviour=self._schedule.behaviour,
                number=WRITERS.get(actor, 0),
                ledger=str(self._place / "ledger"),
            )
            self._counts["processes"] += 1
        return self._children[actor]

    def _violate(self, kind: str, text: str) -> None:
        self._violations.append(Violation(kind, text))

    # -- power -----------------------------------------------------------------------------------------------

    def _begin(self, image: Files) -> None:
        """A store as the disk has it, and an empty log."""
        self._image = image
        self._live = self._place / f"live-{self._generation}"
        self._live.mkdir()
        for name, content in image.items():
            (self._live / name).write_bytes(content)
        self._log = shim.new_log(self._place / f"log-{self._generation}")

    def _cut_now(self) -> None:
        """The power goes in the middle of a schedule, which goes on with what is left."""
        for actor in list(self._children):
            self._kill(actor)
        records = self._read()
        left = cut(self._image, records, self._chance)
        promised = self._promised(records, synced_only=True)
        before = len(self._violations)
        self._examine_files(left, promised, "power cut in the middle")
        self._generation += 1
        self._base, self._known = promised if len(self._violations) == before else {}, {}
        self._begin(left)

    def _read(self) -> list[Record]:
        """The log of this generation: counted, and compared with the real files."""
        records = shim.read_log(self._log)
        for record in records:
            if record.type == shim.FAULT and record.flags >> 8 not in _KILLS:
                self._faults[shim.fault_name(record)] += 1
            elif record.type == shim.FAULT:
                self._faults["SIGKILL at a call"] += 1
        self._counts["acknowledged"] += sum(record.type == shim.MARK for record in records)
        longest = max(
            (each.number for each in records if each.type == shim.WRITE and each.kind == shim.FILES["wal"]),
            default=0,
        )
        if self._generation == 0:
            self._counts[f"schedules with a WAL of {_size_class(longest)}"] += 1
        for name, content in cached(self._image, records).items():
            if name.startswith(NAME) and (name == NAME or name.endswith(("-wal", "-journal"))):
                path = self._live / name
                found = path.read_bytes() if path.exists() else None
                assert found == content, f"seed {self._schedule.seed}: a call on {name} went past the shim"
        return records

    def _promised(self, records: Iterable[Record], *, synced_only: bool) -> dict[int, int]:
        promised = dict(self._base)
        for record in records:
            if record.type == shim.MARK and (record.flags or not synced_only):
                promised[record.inode] = max(promised.get(record.inode, 0), record.number)
        return promised

    # -- judgement -------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        records = self._read()
        for number, point in enumerate(self._points(records)):
            left = cut(self._image, records[:point], random.Random(f"{self._schedule.seed}/{number}"))
            promised = self._promised(records[:point], synced_only=True)
            self._examine_files(left, promised, f"power cut at {point} of {len(records)}")
        promised = self._promised(records, synced_only=False)
        self._examine(self._live, promised, "no power cut")
        if PROGRAM in promised:
            self._replay(promised[PROGRAM])
        shutil.rmtree(self._live)
        self._log.unlink()

    def _points(self, records: list[Record]) -> list[int]:
        """Where to cut: anywhere, and where it is hardest: right behind a promise, and at the end."""
        if not records:
            return []
        marks = [place + 1 for place, record in enumerate(records) if record.type == shim.MARK]
        faults = [place for place, record in enumerate(records) if record.type in (shim.LOST, shim.FAULT)]
        behind = [mark for mark in marks if faults and mark > faults[0]]
        pools = [behind or marks, range(len(records) + 1), [len(records)]]
        return [self._chance.choice(pools[number % 3] or [len(records)]) for number in range(self._cuts)]

    def _examine_files(self, files: Files, promised: dict[int, int], when: str) -> None:
        place = self._place / "cut"
        place.mkdir()
        for name, content in files.items():
            (place / name).write_bytes(content)
        self._counts["power cuts"] += 1
        self._examine(place, promised, when)
        shutil.rmtree(place)

    def _examine(self, place: Path, promised: dict[int, int], when: str) -> None:
        """Open a store in a process that has never seen it."""
        if self._examiner is None:
            self._examiner = self._nursery.fork()
        try:
            answer = self._examiner.ask("examine", database=str(place / NAME))
        except Ended as ended:
            self._examiner = None
            self._violate("crashed", f"{when}: whoever opens it ends with {ended.code}")
            return
        if "error" in answer:
            kind = "wrong content" if answer["error"] == "AssertionError" else "unusable"
            self._violate("malformed" if answer["error"] == "Corrupt" else kind, f"{when}: {answer['text']}")
            return
        found = answer["value"]
        if found["integrity"] != ["ok"]:
            self._violate("malformed", f"{when}: {found['integrity'][:3]}")
        for number, seq in promised.items():
            if number == PROGRAM:
                steps = set(found["steps"])
                missing = [f"s{n}" for n in range(seq) if f"s{n}" not in steps]
                if missing:
                    self._violate("lost", f"{when}: steps {missing} of {seq} acknowledged ones")
            elif found["runs"].get(f"r{number}", 0) < seq:
                has = found["runs"].get(f"r{number}", 0)
                self._violate("lost", f"{when}: r{number} has {has} of {seq} acknowledged events")

    def _replay(self, done: int) -> None:
        """The program once more, in a fresh process: nothing that was acknowledged is done again, no tool acts twice."""
        ledger = self._place / "ledger"
        before = Counter(ledger.read_text().split())
        try:
            child = self._child("replay")
            answer = child.ask("replay")
            self._kill("replay")
        except Ended as ended:
            del self._children["replay"]
            self._violate("crashed", f"the program's replay ended with {ended.code}")
            return
        if "error" in answer:
            self._violate("unusable" if answer["is_typed"] else "raw error", f"replay: {answer['text']}")
            return
        again = {name: n for name, n in (Counter(answer["value"]) - before).items() if int(name[1:]) < done}
        twice = [
            name for name, count in Counter(answer["value"]).items() if count > 1 and int(name[1:]) % 3 == 2
        ]
        if again:
            self._violate("repeated", f"the program did {again} again")
        if twice:
            self._violate("repeated", f"once tools acted twice: {twice}")


def _size_class(size_bytes: int) -> str:
    for limit, name in ((128 << 10, "up to 128 KiB"), (1 << 20, "128 KiB to 1 MiB"), (4 << 20, "1 to 4 MiB")):
        if size_bytes < limit:
            return name
    return "more than 4 MiB"


def new_image(place: Path) -> Files:
    """The files of a new, empty store, all of them durable."""
    from holdfast.stores.sqlite import SqliteStore

    SqliteStore(place / NAME).close()
    return {name: (place / name).read_bytes() for name in os.listdir(place)}


def story(outcome: Outcome, *, with_steps: bool = False) -> str:
    """What was broken, and how to see it again."""
    schedule = outcome.schedule
    lines = [
        f"seed {schedule.seed} ({schedule.theme}): python -m tests.faults --seeds {schedule.seed} --show"
    ]
    if with_steps:
        lines += [f"  {step.actor:7}{step.verb} {step.options or ''}" for step in schedule.steps]
    for counted in (outcome.faults, outcome.errors, outcome.counts):
        lines.append("  " + ", ".join(f"{name} {count}" for name, count in counted.items()))
    lines += [f"  {violation.kind}: {violation.text}" for violation in outcome.violations[:8]]
    return "\n".join(lines)
