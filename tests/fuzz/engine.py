"""Two ways to drive a surface: seeded changes of the corpus, anywhere; and coverage with ``atheris``, where it is installed.

Either way a defect does not end the run: it is kept once a place, named by the exception and the last line of Holdfast in it.
"""

import contextlib
import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.corpus import inputs_of
from tests.fuzz.mutation import changed

HANG_S = 60
"""An input that takes longer hangs, on a busy machine too."""
MEMORY_MB = 3000

Check = Callable[[bytes], None]


def check_of(surface: str) -> Check:
    """What a surface does with an input."""
    check: Check = import_module(f"tests.fuzz.surfaces.{surface}").check
    return check


class Findings:
    """The defects of one run, and the files that hold their inputs."""

    def __init__(self, surface: str, directory: Path) -> None:
        self.surface, self.directory = surface, directory
        self.places: dict[str, str] = {}
        self.executions = 0

    def look(self, check: Check, data: bytes) -> None:
        """Run one input. Whatever it raises is a defect."""
        self.executions += 1
        try:
            check(data)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            place = _place_of(error)
            if place not in self.places:
                self.directory.mkdir(parents=True, exist_ok=True)
                path = self.directory / f"{self.surface}-{sha256(place.encode()).hexdigest()[:10]}"
                path.write_bytes(data)
                self.places[place] = str(path)
                print(f"{self.surface}: {place}\n  {path}", flush=True)


def _place_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if "/holdfast/" in one.filename] or frames
    checks = [one for one in frames if "/surfaces/" in one.filename]
    where = ", ".join(f"{Path(one.filename).name}:{one.lineno}" for one in (*checks[-1:], *own[-1:]))
    return f"{type(error).__name__} at {where}: {re.sub(r'[0-9a-f]*[0-9][0-9a-f]*', 'N', str(error)[:60])!r}"


def seeded(surface: str, findings: Findings, *, seed: int, seconds: float = 0.0, count: int = 0) -> None:
    """So many changed inputs, or for so long: the n-th is always the same, given the corpus."""
    check, inputs, end = check_of(surface), inputs_of(surface), time.monotonic() + seconds
    number = 0
    while number < count or time.monotonic() < end:
        random = Random(f"{surface} {seed} {number}")
        findings.look(check, changed(random.choice(inputs), inputs, random))
        number += 1


def guided(surface: str, findings: Findings, *, seed: int, seconds: float, kept: Path) -> None:
    """For so long, by coverage. Does not return: libFuzzer ends the process, with 0 if nothing hung or took all memory."""
    import atheris

    with atheris.instrument_imports(include=["holdfast"], enable_loader_override=False):
        check = check_of(surface)
    inputs = inputs_of(surface)
    kept.mkdir(parents=True, exist_ok=True)

    def mutate(data: bytes, size_max: int, number: int) -> bytes:
        random = Random(number)
        if random.random() < 0.3:
            mutated: bytes = atheris.Mutate(data, size_max)
            return mutated
        return changed(data, inputs, random)[:size_max]

    def look(data: bytes) -> None:
        findings.look(check, data)
        if findings.executions < 50 or findings.executions % 50 == 0:  # a slow surface may come to no more
            (findings.directory / f"{surface}.count").write_text(str(findings.executions))

    findings.directory.mkdir(parents=True, exist_ok=True)
    starts = tempfile.mkdtemp(prefix="holdfast-fuzz-")
    for number, one in enumerate(inputs):
        (Path(starts) / str(number)).write_bytes(one)
    arguments: list[Any] = [
        sys.argv[0], str(kept), starts, f"-max_total_time={int(seconds)}", f"-seed={seed + 1}", "-max_len=100000",
        f"-timeout={HANG_S}", f"-rss_limit_mb={MEMORY_MB}", f"-artifact_prefix={findings.directory}/{surface}-", "-verbosity=0",
        "-print_final_stats=0", "-len_control=0",
    ]  # fmt: skip
    with contextlib.suppress(OSError):
        os.nice(5)
    atheris.Setup(arguments, look, custom_mutator=mutate)
    atheris.Fuzz()
