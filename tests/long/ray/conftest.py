"""These tests need Ray: ``make test-ray`` makes the environment for it, and says so in ``HOLDFAST_RAY``.

They are not part of the default run: they take a minute or two, and half a gigabyte of packages.
"""

import os

collect_ignore_glob = [] if os.environ.get("HOLDFAST_RAY") else ["test_*.py"]
