"""A run's latest state and context as files: current, whole, outside of the hot path, and never the run's problem."""

import asyncio
import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import holdfast
from holdfast.core.mirror.file_names import directory_of
from holdfast.core.mirror.plain_json import state_json
from holdfast.engine.mirror import mirror
from holdfast.engine.mirror.mirror import MirrorWriter


def shown(directory: Path, run: str) -> Any:
    """The mirrored state of a run."""
    return json.loads((directory.joinpath(*directory_of(run)) / "state.json").read_text(encoding="utf-8"))


def context(directory: Path, run: str) -> str:
    """The mirrored context of a run."""
    return (directory.joinpath(*directory_of(run)) / "context.md").read_text(encoding="utf-8")


def test_the_last_state_is_there_when_the_block_is_left(url: str, tmp_path: Path) -> None:
    """State and context, without a temporary file beside them, readable by their owner alone."""
    with holdfast.run("a", store=url, goal="Explain tides", mirror=tmp_path / "m") as run:
        run.checkpoint({"n": 1})
        run.decide("Use the moon.", because="it pulls")
        run.checkpoint({"n": 2, "pair": (1, 2)})
    assert shown(tmp_path / "m", "a") == {"n": 2, "pair": [1, 2]}
    assert "Explain tides" in context(tmp_path / "m", "a")
    assert "Use the moon." in context(tmp_path / "m", "a")
    assert sorted(os.listdir(tmp_path / "m" / "a")) == ["context.md", "state.json"]
    assert stat.S_IMODE((tmp_path / "m" / "a" / "state.json").stat().st_mode) == 0o600


def test_a_burst_of_checkpoints_costs_few_writes(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand checkpoints within the rest after a write cost none: one write at the start, one at the end.

    Planted: without the rest there are 326.
    """
    monkeypatch.setattr(mirror, "MIRROR_PAUSE_S", 3600.0)
    with holdfast.run("a", store=url, mirror=tmp_path) as run:
        for number in range(1_000):
            run.checkpoint({"n": number})
        writer = run._held.session.part(MirrorWriter)
    assert shown(tmp_path, "a") == {"n": 999}
    assert writer.writes == 2


def test_a_slow_disk_delays_no_checkpoint(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one write hangs, the program goes on; only the latest state is written after it."""
    hangs, goes_on, written = Event(), Event(), []
    show = mirror.show

    def slow(held: Any, directory: str, root: Any, *, is_held: bool) -> None:
        written.append(root)
        if len(written) == 2:  # the first is that of entering
            hangs.set()
            assert goes_on.wait(60)
        show(held, directory, root, is_held=is_held)

    monkeypatch.setattr(mirror, "show", slow)
    with holdfast.run("a", store=url, mirror=tmp_path) as run:
        run.checkpoint({"n": 0})
        assert hangs.wait(60)
        for number in range(1, 100):
            run.checkpoint({"n": number})
        goes_on.set()
    assert shown(tmp_path, "a") == {"n": 99}
    assert len(written) <= 4


def test_it_is_current_when_a_run_is_entered_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if an earlier attempt had no mirror; and the variable is as good as the option."""
    with pytest.raises(KeyError), holdfast.run("a", store=url) as run:
        run.checkpoint({"n": 1})
        raise KeyError("stop")
    monkeypatch.setenv("HOLDFAST_MIRROR", str(tmp_path / "env"))
    with holdfast.run("a", store=url) as run:
        assert shown(tmp_path / "env", "a") == {"n": 1}
        run.restore({})


def test_a_rewind_behind_the_first_state_shows_none(url: str, tmp_path: Path) -> None:
    """The file of a state that is not the run's any more is removed when the run is entered."""
    with pytest.raises(KeyError), holdfast.run("a", store=url, mirror=tmp_path) as run:
        run.step("look", len, "x")
        run.checkpoint({"n": 1})
        raise KeyError("stop")
    assert shown(tmp_path, "a") == {"n": 1}
    store = holdfast.store(url)
    store.rewind("a@1")
    with holdfast.run("a", store=url, mirror=tmp_path) as run:
        assert not (tmp_path / "a" / "state.json").exists()
        run.step("look", len, "x")


def test_a_fork_and_a_child_have_their_own(url: str, tmp_path: Path) -> None:
    """A child lies below its parent."""
    with holdfast.run("a", store=url, mirror=tmp_path) as run:
        run.checkpoint({"who": "a"})
        with holdfast.run("kid", store=url, mirror=tmp_path) as kid:
            kid.checkpoint({"who": "kid"})
    holdfast.store(url).fork("a", as_="b")
    with holdfast.run("b", store=url, mirror=tmp_path) as run:
        run.checkpoint({"who": "b"})
    assert [shown(tmp_path, name)["who"] for name in ("a", "a/kid", "b")] == ["a", "kid", "b"]
    assert (tmp_path / "a" / "kid" / "state.json").exists()


def test_async_and_threads(url: str, tmp_path: Path) -> None:
    """The same from a loop, and with checkpoints of several threads."""

    async def main() -> None:
        async with holdfast.run("a", store=url, mirror=tmp_path) as run:
            for number in range(50):
                await run.checkpoint({"n": number})

    asyncio.run(main())
    assert shown(tmp_path, "a") == {"n": 49}
    with holdfast.run("b", store=url, mirror=tmp_path) as run:
        threads = [Thread(target=run.bind(run.checkpoint), args=({"by": name},)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert shown(tmp_path, "b") == run.state


def test_a_directory_that_cannot_be_written_is_said_once(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file lies where the directory should be: the run is finished, and the log has one line."""
    (tmp_path / "m").write_text("a file")
    with caplog.at_level(logging.WARNING), holdfast.run("a", store=url, mirror=tmp_path / "m") as run:
        for number in range(20):
            run.checkpoint({"n": number})
    assert holdfast.store(url).get("a").status == "finished"
    assert len([line for line in caplog.messages if "mirror" in line]) == 1


def test_a_full_disk_is_said_once_and_leaves_no_part(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there stays whole."""
    with holdfast.run("a", store=url, mirror=tmp_path) as run:
        run.checkpoint({"n": 1})

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with holdfast.run("a", store=url, mirror=tmp_path, if_finished="reopen") as run:
        monkeypatch.setattr(os, "replace", full)
        run.checkpoint({"n": 2})
    monkeypatch.undo()
    assert shown(tmp_path, "a") == {"n": 1}
    assert sorted(os.listdir(tmp_path / "a")) == ["context.md", "state.json"]
    assert len([line for line in caplog.messages if "No space left" in line]) == 1


HOSTILE = [
    "..", ".", ".hidden", "a/..", "../../etc", "a\\b", "C:", "state.json", "x/context.md", "x/state.json/y",
    "nul\u200bhidden" if "nul\u200bhidden".isprintable() else "é", "trailing.", "ü/ö", "a%2Fb", "~", "x" * 200, "y" * 199 + "ü",
    "a b", "-", "*?<>|\"'`$(id)",
]  # fmt: skip


def test_no_id_leads_out_of_the_mirror(tmp_path: Path) -> None:
    """Each has a directory of its own below the mirror, and none is a file that the mirror writes."""
    base = os.path.abspath(tmp_path)
    found = {}
    for run in HOSTILE:
        parts = directory_of(run)
        place = os.path.abspath(os.path.join(base, *parts))
        assert place.startswith(base + os.sep), run
        assert len(parts) == run.count("/") + 1
        assert not {"state.json", "context.md"} & {*parts}
        assert all(len(part.encode()) <= 200 and not part.startswith(".") for part in parts)
        found[place.casefold()] = run
    assert len(found) == len(HOSTILE)


@pytest.mark.parametrize("run", ["..", "a/..", "state.json", "x/state.json", "a\\b $(id)"])
def test_a_hostile_id_is_mirrored(url: str, run: str, tmp_path: Path) -> None:
    """In its place, and nothing is written elsewhere."""
    with holdfast.run(run, store=url, mirror=tmp_path / "m") as entered:
        entered.checkpoint({"n": 1})
    assert shown(tmp_path / "m", run) == {"n": 1}
    assert [one for one in tmp_path.iterdir() if one.suffix == ".json"] == []


def test_types_are_shown_plainly() -> None:
    """Whatever JSON lacks shows its content; keys are texts; half a surrogate pair is escaped."""
    tree = {
        "$": "dict",
        "v": [
            ["when", {"$": "datetime", "v": "2026-01-01T00:00:00"}],
            [7, {"$": "set", "v": [1]}],
            ["kind", {"$": "enum", "type": "m:E", "name": "A"}],
            ["it", {"$": "dataclass", "type": "m:D", "v": {"x": {"$": "tuple", "v": [1]}}}],
            ["count", {"$": "counter", "v": [["a", 2]]}],
            ["gone", {"$": "ephemeral"}],
        ],
    }
    assert json.loads(state_json(tree)) == {
        "when": "2026-01-01T00:00:00",
        "7": [1],
        "kind": "A",
        "it": {"x": [1]},
        "count": {"a": 2},
        "gone": None,
    }
    assert state_json({"a": [1]}) == b'{\n  "a": [\n    1\n  ]\n}\n'
    assert json.loads(state_json("\ud800")) == "\ud800"


WITHOUT = """
import sys, holdfast
with holdfast.run("a", store="memory://x") as run:
    run.checkpoint({"n": 1})
print(*(name for name in sys.modules if ".mirror" in name or ".hooks" in name))
"""


def test_a_run_without_them_loads_neither_mirror_nor_hooks(tmp_path: Path) -> None:
    """Neither module is imported by a run that checkpoints."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == []
