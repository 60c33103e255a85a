"""Where schedules are run: the compiled shim, the image of a new store, and nurseries."""

import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults import shim
from tests.faults.nursery import Nursery
from tests.faults.schedule import Schedule
from tests.faults.world import Outcome, World, new_image


class Laboratory:
    """Runs schedules, from several threads if need be: each has a nursery of its own."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.library = shim.compiled(place)
        (place / "image").mkdir()
        self._image = new_image(place / "image")
        self._own = threading.local()
        self.nurseries: list[Nursery] = []

    def __call__(self, schedule: Schedule, *, cuts: int = 3, plants: Iterable[str] = ()) -> Outcome:
        if not hasattr(self._own, "nursery"):
            self._own.nursery = Nursery(self.library)
            self.nurseries.append(self._own.nursery)
        with tempfile.TemporaryDirectory(dir=self._place) as name:
            return World(self._own.nursery, Path(name), schedule, self._image, cuts=cuts, plants=plants).run()


@contextmanager
def laboratory(place: Path) -> Iterator[Laboratory]:
    made = Laboratory(place)
    try:
        yield made
    finally:
        for nursery in made.nurseries:
            nursery.close()
