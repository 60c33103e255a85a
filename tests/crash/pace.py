"""How closely the long walks look: ``make test`` strikes at every third place of theirs, ``make crash`` at each."""

import os

EVERY = int(os.environ.get("HOLDFAST_CRASH_EVERY", "3"))
