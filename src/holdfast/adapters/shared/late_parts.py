"""Loads the parts of an adapter, and with them the engine, when the program first uses them.

A program names its adapter at the top, and may end before it needs a run: a command line, a test, a worker
that is only asked for its version. So importing an adapter looks for its framework, and loads neither.
"""

import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.errors import AdapterNotInstalled


class LateParts:
    """The modules of one adapter. ``package`` is what its framework is imported as; ``extra`` installs it."""

    def __init__(self, adapter: str, package: str, extra: str) -> None:
        """AdapterNotInstalled if the framework is not there."""
        self._adapter = adapter
        self._extra = extra
        try:
            _look_for(package)
        except ImportError as error:
            raise self._not_installed(error) from error

    def load(self, module: str) -> Any:
        """A module of the adapter. AdapterNotInstalled if its framework is older than it needs."""
        name = f"{self._adapter}.{module}"
        found = sys.modules.get(name)
        if found is not None:
            return found
        was_on = gc.isenabled()
        gc.disable()  # or it would walk all objects of the framework, for some modules that stay
        try:
            return import_module(name)
        except ImportError as error:
            raise self._not_installed(error) from error
        finally:
            if was_on:
                gc.enable()

    def find(self, name: str, places: dict[str, str]) -> Any:
        """A name of the adapter's package, by the module that has it. AttributeError for another one."""
        if name not in places:
            raise AttributeError(f"module {self._adapter!r} has no attribute {name!r}")
        value = getattr(self.load(places[name]), name)
        setattr(sys.modules[self._adapter], name, value)  # the next read does not come here
        return value

    def _not_installed(self, error: ImportError) -> "AdapterNotInstalled":
        from holdfast.errors import AdapterNotInstalled

        package = (error.name or self._extra).partition(".")[0]
        return AdapterNotInstalled(
            adapter=self._adapter, package=package, extra=self._extra, problem=str(error), advice=""
        )


def _look_for(package: str) -> None:
    """ModuleNotFoundError if it is not there. Its parents are loaded, and it is not."""
    if sys.modules.get(package) is not None:
        return
    from importlib.util import find_spec

    try:
        is_there = package not in sys.modules and find_spec(package) is not None
    except (ModuleNotFoundError, ValueError):  # a parent is not there, or was put in its place by hand
        is_there = False
    if not is_there:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
