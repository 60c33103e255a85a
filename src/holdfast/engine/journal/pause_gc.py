"""Pauses Python's garbage collector while a function makes very many objects.

The collector would scan all of them again and again, and none is garbage yet: that took a third of the time
to enter a run of 10,000 events.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collecting() -> Iterator[None]:
    """Keep the collector off during the block; for work that is bounded and makes no garbage.

    The switch belongs to the whole process. Threads that overlap here are safe: the one that found the
    collector on turns it on again, so at worst the objects of the other thread are scanned after all.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
