"""Prints on stderr that a new store was made, if the working directory decided which one.

The program's runs may be in another store: then everything would run again, and the user would not notice. If
a URL or an absolute path says where the store is, nothing is printed.
"""

import os
import sys
from typing import TYPE_CHECKING

from holdfast.stores.port import StorePort
from holdfast.stores.url import ENVIRONMENT, depends_on_directory, nearest_store, open_store

if TYPE_CHECKING:
    from holdfast.stores.encryption_mark import Key


def open_or_make(url: "str | os.PathLike[str] | None", key: "Key | None" = None) -> StorePort:
    """As ``open_store``. The path of a new store is printed if it depends on the directory."""
    made: list[str] = []
    store = open_store(url, on_new=made.append, key=key)
    if made and sys.stderr is not None and depends_on_directory(url):
        sys.stderr.write(f"holdfast: made a new store, {made[0]}{_other(url, made[0])}\n")
    return store


def _other(url: "str | os.PathLike[str] | None", made: str) -> str:
    """A hint at the store that the same program would find if it were started in its own directory."""
    program = getattr(sys.modules["__main__"], "__file__", None)
    if url is not None or os.environ.get(ENVIRONMENT) or not program:
        return ""
    found = nearest_store(os.path.dirname(os.path.abspath(program)))  # noqa: PTH100, PTH120 - pathlib is not loaded for this
    if found is None or found == made:
        return ""
    from shlex import quote

    return f"; there is one at {found}, near the program: {ENVIRONMENT}={quote(found)} uses that one"
