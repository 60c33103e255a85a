"""Creates files with recorded data so that only their owner can read them."""

import os
from typing import Final

PRIVATE: Final = 0o600


def private(path: str, flags: int) -> int:
    """For ``open(…, opener=private)``: only the owner can read a new file, whatever the umask is."""
    return os.open(path, flags, PRIVATE)
