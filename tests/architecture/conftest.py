"""The architecture tests come first, together: one worker parses the sources, and no other."""

from pathlib import Path

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Behind the shuffling of modules."""
    here = Path(__file__).parent
    items.sort(key=lambda item: here not in item.path.parents)
