"""The library's one logger. It imports ``logging`` for the first warning, since that takes 4 ms."""

import sys
from typing import TYPE_CHECKING

from holdfast.model.markers import KNOWN

if TYPE_CHECKING:
    from logging import Logger, LogRecord


def log() -> "Logger":
    """The logger named ``holdfast``; applications decide where it goes. It masks secrets."""
    from logging import getLogger

    found = getLogger("holdfast")
    if KNOWN and _without_secrets not in found.filters:
        found.addFilter(_without_secrets)
    return found


def info(message: str, *args: object) -> None:
    """Log what is only for those who listen: a program that never loaded ``logging`` cannot."""
    if "logging" in sys.modules:
        log().info(message, *args)


def _without_secrets(record: "LogRecord") -> bool:
    """Mask secrets in a record, in the error that it reports too. Every record passes."""
    if KNOWN:
        from holdfast.codec.secrets import mask

        record.msg, record.args = mask(record.getMessage()), ()
        if record.exc_info:
            from logging import Formatter

            record.exc_text = mask(Formatter().formatException(record.exc_info))
    return True
