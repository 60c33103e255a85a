"""The library's one logger. It imports ``logging`` for the first warning, since that takes 4 ms."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger


def log() -> "Logger":
    """The logger named ``holdfast``; applications decide where it goes."""
    from logging import getLogger

    return getLogger("holdfast")


def info(message: str, *args: object) -> None:
    """Log what is only for those who listen: a program that never loaded ``logging`` cannot."""
    if "logging" in sys.modules:
        log().info(message, *args)
