"""What known secrets cost: 4 KB written by the codec, and a step with such a result. CPU of this thread, in blocks that alternate.

The floor is the bare search: twenty texts looked for in 4 KB of bytes, one by one. Without a secret nothing is searched, and
nothing is loaded for it: a process of its own says so.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from string import ascii_letters, digits

import holdfast
from bench.measuring import Figure
from holdfast.codec import secrets
from holdfast.codec.values import encode_quickly

ROUNDS = 25
BLOCK = 200
SECRETS = 20
ALPHABETS = {
    "tokens": ascii_letters + digits + "-_",
    "keys that a URL changes": ascii_letters + digits + "+/=",
}
_LOADED = """
import sys, holdfast
with holdfast.run("r", store="memory://r", loops=None) as run:
    run.step("work", str, "x" * 4096)
print(sum(name.startswith("holdfast.codec") and "secret" in name for name in sys.modules))
"""


def text(random: Random) -> str:
    """4 KB of words."""
    words = ["".join(random.choices(ascii_letters, k=random.randint(2, 9))) for _ in range(1_000)]
    return " ".join(words)[:4_096]


def figures(place: Path) -> Iterator[Figure]:
    """The least of the rounds: what is above it is what others did on the machine."""
    random = Random(7)
    result = {"text": text(random)}
    data = encode_quickly(result) or b""
    with _alone():
        for kind, alphabet in ALPHABETS.items():
            values = ["".join(random.choices(alphabet, k=40)) for _ in range(SECRETS)]
            plain, known = _taken(values, lambda: encode_quickly(result))
            sought = [value.encode() for value in values]
            floor, _ = _taken([], lambda sought=sought: [one for one in sought if one in data])  # type: ignore[misc]
            yield Figure(
                f"4 KB written with {SECRETS} secrets: {kind}",
                known - plain,
                40.0,
                "µs above none",
                f"{known:.1f} and {plain:.1f} µs; the floor, a bare search for {SECRETS} texts: {floor:.1f} µs",
            )
        with holdfast.run("r", store=place / "s.db", loops=None) as run:
            plain, known = _taken(values, lambda: run.step("work", dict, result))
        yield Figure(
            f"a step with 4 KB in and 4 KB out, {SECRETS} such secrets",
            known - plain,
            None,
            "µs above none",
            f"{known:.1f} and {plain:.1f} µs: three texts are searched, the result for keys that nobody knows, too",
        )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(
        [sys.executable, "-c", _LOADED], env=environment, capture_output=True, text=True, check=True
    )
    yield Figure(
        "no secret: modules loaded for them", int(told.stdout), 0.0, "modules", "in a process of its own"
    )


def _taken(values: list[str], work: Callable[[], object]) -> tuple[float, float]:
    """µs of one call without a secret, and with these."""
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for number, known in enumerate(([], values)):
            _know(known)
            work()
            began = time.thread_time()
            for _ in range(BLOCK):
                work()
            best[number] = min(best[number], (time.thread_time() - began) / BLOCK * 1e6)
    _know([])
    return best[0], best[1]


def _know(values: list[str]) -> None:
    secrets._registered.clear()
    secrets._registered.update({f"secret{number}": value for number, value in enumerate(values)})
    secrets._rebuild()


class _alone:  # noqa: N801 - a context
    """No secret of the environment is known meanwhile."""

    def __enter__(self) -> None:
        secrets.know_environment({})

    def __exit__(self, *_: object) -> None:
        secrets.know_environment()
