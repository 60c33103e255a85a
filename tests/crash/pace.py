"""How closely the walks look: ``make test`` strikes at every third or sixth place of most, ``make crash`` at each."""

import os

EVERY = int(os.environ.get("HOLDFAST_CRASH_EVERY", "6"))
"""For the longest ones."""
OFTEN = min(EVERY, 3)
"""For those through what matters most."""
