"""Exports, imports and erasures that are killed: ``parcels.py WHAT PREPARED``.

``PREPARED`` holds stores and files that the test has made; the store that WHAT begins with is copied before anything
else, which is no call of the port.
"""

import contextlib
import shutil
import sys
from pathlib import Path

import holdfast

what, prepared = sys.argv[1], Path(sys.argv[2])
begin = {
    "import": "empty",
    "import-move": "empty",
    "extend": "with-copy",
    "return": "moved-away",
}.get(what, "source")
if not Path("holdfast.db").exists():
    shutil.copy(prepared / f"{begin}.db", "holdfast.db")

store = holdfast.store()
if what in {"export", "export-dir", "move"}:
    store.export("deep", "out.holdfast", directory=what == "export-dir", move=what == "move")
elif what in {"erase", "flatten"}:
    with contextlib.suppress(holdfast.UnknownRun):  # the kill came behind the last trace
        store.erase("bystander" if what == "erase" else "daily", flatten=what == "flatten")
else:
    file = {"import": "plain", "import-move": "moved", "extend": "later", "return": "back"}[what]
    store.import_(prepared / f"{file}.holdfast")
store.close()
