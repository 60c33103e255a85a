"""What a store tells of itself, by its public commands and handles, as plain data: for the manifests of golden stores.

What changes with the time, the place or the machine of whoever looks is left out.
"""

import json
from typing import Any

import tests.migrations.values_1  # noqa: F401 - facts and states hold its classes
from click.testing import CliRunner

import holdfast

_MOVING = frozenset({"store", "age_s", "quiet_s", "liveness", "next", "size_bytes", "hints"})


def told_by(url: str) -> dict[str, Any]:
    """All that a reader must see."""
    store = holdfast.store(url)
    runs = sorted(info.run for info in store.runs())
    memory = store.memory
    told: dict[str, Any] = json.loads(  # as JSON has it: the manifest is read so
        json.dumps(
            {
                "runs": {run: _run(url, store, run) for run in runs},
                "facts": [
                    [fact.scope, fact.id, fact.text, list(fact.tags), fact.importance, repr(fact.value), fact.run, fact.superseded_by]
                    for fact in sorted(memory.list(limit=100), key=lambda fact: (fact.scope, fact.id))
                ],
                "pins": sorted(str(pin.place) for pin in store.pins()),
            },
            default=repr,
        )
    )  # fmt: skip
    return told


def _run(url: str, store: holdfast.Store, run: str) -> dict[str, Any]:
    return {
        "show": _still(_said("show", run, "--all", "--json", "--store", url)),
        "log": [_still(json.loads(line)) for line in _lines("log", run, "--json", "--store", url)],
        "checkpoints": _still(_said("checkpoints", run, "--json", "--store", url)),
        "promises": store.promises(run)._asdict(),
        "questions": [[one.id, one.question, repr(one.pending)] for one in store.questions(run)],
        "letters": sorted(_letters(store, run)),
    }


def _letters(store: holdfast.Store, run: str) -> list[str]:
    from holdfast.model.store_rows import inbox_space

    return [record.key for record in store._port.scan_records(inbox_space(run), limit=100)]


def _said(*args: str) -> Any:
    return json.loads("\n".join(_lines(*args)))


def _lines(*args: str) -> list[str]:
    from holdfast.cli.app import app

    found = CliRunner().invoke(app, list(args), env={"HOLDFAST_URL": None})
    assert found.exit_code == 0, (args, found.output, found.exception)
    return [line for line in found.stdout.split("\n") if line]


def _still(told: Any) -> Any:
    if isinstance(told, dict):
        return {name: _still(part) for name, part in told.items() if name not in _MOVING}
    return [_still(part) for part in told] if isinstance(told, list) else told
