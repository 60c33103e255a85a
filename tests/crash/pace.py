"""How closely the long walks look: ``make test`` strikes at every fourth place of theirs, ``make crash`` at each."""

import os

EVERY = int(os.environ.get("HOLDFAST_CRASH_EVERY", "4"))
SECOND = min(EVERY, 2)
"""For the walks through what matters most: every second place, or each."""
