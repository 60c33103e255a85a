"""How many examples property tests draw; and that no example is timed, because a busy machine proves nothing.

Imported by the ``conftest.py`` of each folder with such tests: settings count when a test is defined.
"""

import os

from hypothesis import settings

_SHARE = float(os.environ.get("HOLDFAST_TEST_EXAMPLES", "1"))


def examples(count: int) -> int:
    """That many, or the share of them that ``HOLDFAST_TEST_EXAMPLES`` asks for: ``make quick`` draws one in twenty."""
    return max(3, round(count * _SHARE))


settings.register_profile("holdfast", deadline=None, max_examples=examples(100))
settings.load_profile("holdfast")
