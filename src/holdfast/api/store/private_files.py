"""Files that a surface writes on somebody's behalf: what runs have said and done is nobody else's to read."""

import os
from typing import Final

PRIVATE: Final = 0o600


def private(path: str, flags: int) -> int:
    """For ``open(…, opener=private)``: a new file can be read and written by its owner alone, whatever the umask allows."""
    return os.open(path, flags, PRIVATE)
