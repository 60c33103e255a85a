"""Children of the demo and of crash tests: none is left behind by Ctrl-C."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.child_process import Spawned


def test_an_interrupt_while_a_child_starts_ends_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the fork and the return of ``Popen``. Seen before: the child ran on, and nobody knew it."""
    started: list[int] = []

    class Interrupted(subprocess.Popen[Any]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self.pid)
            signal.raise_signal(signal.SIGINT)

    script = tmp_path / "sleeps.py"
    script.write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        Spawned().run(
            [str(script)], cwd=tmp_path, env=dict(os.environ), output=tmp_path / "out", timeout_s=60
        )
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
