"""How closely the walks look: ``make test`` strikes at every fourth or twelfth place of most, ``make crash`` at each."""

import os

EVERY = int(os.environ.get("HOLDFAST_CRASH_EVERY", "12"))
"""For the longest ones."""
OFTEN = min(EVERY, 4)
"""For those through what matters most."""
