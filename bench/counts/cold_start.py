"""What is loaded until the first step is durable: ``python -m bench.counts.cold_start PATH`` prints it as JSON."""

import builtins
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_NAMED = {"NamedTuple", "_NamedTuple"}
"""The names of the base class: that of ``typing``, and ours, which takes a tenth of the time."""
_built: Counter[str] = Counter()


def _count_classes() -> None:
    """Count the classes that are built in our modules, and the NamedTuples among them: see ``model.named_tuple``."""
    build = builtins.__build_class__

    def counting(function: Any, name: str, *bases: Any, **options: Any) -> Any:
        if function.__globals__.get("__name__", "").partition(".")[0] == "holdfast":
            _built["classes"] += 1
            _built["named_tuples"] += any(getattr(base, "__name__", "") in _NAMED for base in bases)
        return build(function, name, *bases, **options)

    builtins.__build_class__ = counting  # type: ignore[assignment]


def work(number: int) -> dict[str, int]:
    return {"number": number}


def main(path: Path) -> None:
    """Count to the end of the first step."""
    _count_classes()
    import holdfast

    with holdfast.run("cold", store=path) as run:
        run.step("work", work, 1)
        modules = [name.partition(".")[0] for name in sys.modules]
        counts = {"ours": modules.count("holdfast"), "all": len(modules), **_built}
        json.dump(counts, sys.stdout)
        sys.stdout.flush()
        os._exit(0)


def import_times(code: str, environment: Mapping[str, str]) -> dict[str, float]:
    """The time that ``python -X importtime`` tells for importing our modules, each without what it imports; in ms."""
    command = [sys.executable, "-X", "importtime", "-c", code]
    done = subprocess.run(command, check=True, env=dict(environment), stderr=subprocess.PIPE, text=True)
    found: dict[str, float] = {}
    for line in done.stderr.splitlines():
        if line.startswith("import time:") and line.count("|") == 2:
            own, _, name = line.removeprefix("import time:").split("|")
            if own.strip().isdigit():
                found[name.strip()] = int(own) / 1e3
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
