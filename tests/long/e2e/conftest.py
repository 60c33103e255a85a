"""These tests need a real model: ``make e2e`` makes the environment for it, and says so in ``HOLDFAST_E2E``.

They are not part of the default run: they take minutes, and 100 MB of weights.
"""

import os

collect_ignore_glob = [] if os.environ.get("HOLDFAST_E2E") else ["test_*.py"]
