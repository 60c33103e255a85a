"""The stores that processes share, for suites that must hold over each of them.

A test, or a module by its ``pytestmark``, says ``over_shared_stores``; the fixture ``shared_url`` of ``tests/conftest.py``, which
it uses or its fixtures do, is then each of these in turn. Without the mark it is SQLite.
"""

import pytest

STORES = ("sqlite", "postgresql", "dynamodb")

over_shared_stores = pytest.mark.parametrize("shared_url", STORES, indirect=True)
over_postgresql = pytest.mark.parametrize("shared_url", ["postgresql"], indirect=True)
over_dynamodb = pytest.mark.parametrize("shared_url", ["dynamodb"], indirect=True)
"""For what has a test of its own over SQLite already."""
