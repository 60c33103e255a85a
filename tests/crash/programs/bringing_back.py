"""Files brought back by a rewind, a fork and a restoring, killed wherever: what is there is whole, and doing it again ends it."""

import logging
import sys
from pathlib import Path

import holdfast
from holdfast.errors import RunExists

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.crash.programs import file_kills

logging.basicConfig(format="%(message)s")

if not Path("made").exists():
    with holdfast.run("agent") as run:
        for text in ("first\n", "second\n"):
            with run.open("out/report.md") as file:
                file.write(text)
            run.checkpoint(text, label=text.strip())
        run.finish("done")
    Path("made").touch()

file_kills.install()
store = holdfast.store()
store.restore_artifacts("agent@first", "then")
try:
    store.fork("agent@first", as_="other", files="forked")
except RunExists:  # the fork was made, and its files may not have come: they are brought as any others are
    store.restore_artifacts("other", "forked")
if not Path("rewound").exists():
    store.rewind("agent@first", files=True)
    Path("rewound").touch()
