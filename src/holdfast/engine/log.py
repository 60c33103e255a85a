"""The library's one logger. It imports ``logging`` on first use, since that doubles the import time."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger


def log() -> "Logger":
    """The logger named ``holdfast``; applications decide where it goes."""
    from logging import getLogger

    return getLogger("holdfast")
