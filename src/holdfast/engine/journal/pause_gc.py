"""Pauses Python's garbage collector while a function makes very many objects.

The collector would scan all of them again and again, and none is garbage yet: that took a third of the time
to enter a run of 10,000 events.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MANY: Final = 10_000


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


@contextmanager
def without_collecting_what_is_made() -> Iterator[None]:
    """The same for a function that makes what a run keeps, once: if that is much, it is old from the start.

    Else the next collection of the young would go through all of it, which took a tenth of the time to enter
    a run. Young garbage becomes old with it, so this is nothing for what is done again and again.
    """
    with without_collecting():
        yield
        # Frozen and thawed, all objects are old without a look at them. What a program has frozen stays so.
        if gc.get_count()[0] > _MANY and not gc.isenabled() and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
