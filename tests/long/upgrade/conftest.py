"""These tests need three Pythons and environments of their own: ``make upgrade`` says so in ``HOLDFAST_UPGRADE``."""

import os

collect_ignore_glob = [] if os.environ.get("HOLDFAST_UPGRADE") else ["test_*.py"]
