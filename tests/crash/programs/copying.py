"""A copy that is killed: ``copying.py WHAT PREPARED``. It goes from the store of the case into ``other.db`` beside it.

``PREPARED`` holds the store that it begins with, which is copied as a file before anything else: no call of the port.
"""

import shutil
import sys
from pathlib import Path

import holdfast

what, prepared = sys.argv[1], Path(sys.argv[2])
if not Path("holdfast.db").exists():
    shutil.copy(prepared / what / "holdfast.db", "holdfast.db")

store = holdfast.store()
report = store.copy("other.db", move=what != "copy")
assert not report.refused, report.refused
store.close()
holdfast.store("other.db").close()
