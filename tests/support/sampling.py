"""How closely the walks look: ``make test`` strikes at every eighth place of most, ``make crash`` at each."""

import os

EVERY = int(os.environ.get("HOLDFAST_CRASH_EVERY", "48"))
"""For the longest ones: pruning, exports, copying, questions, workers, a server."""
OFTEN = min(EVERY, 8)
"""For those through what matters most."""
SELDOM = min(EVERY, 8)
"""For walks whose every place copies whole stores."""
