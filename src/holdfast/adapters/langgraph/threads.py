"""Which run a thread is: ``langgraph/<thread_id>``, with what a run's name cannot hold escaped as in a URL."""

from typing import Final
from urllib.parse import unquote

from holdfast.core.names import check_run_id

PREFIX: Final = "langgraph/"
_SIGNS: Final = frozenset("%@#/")
"""``/`` stands between a run and its child, and a thread is nobody's."""


def run_of(thread_id: object) -> str:
    """The run of a thread. BadName where it is empty or too long."""
    text = str(thread_id)
    escaped = "".join(_escaped(sign) if sign in _SIGNS or not sign.isprintable() else sign for sign in text)
    if escaped.endswith(" "):
        escaped = escaped[:-1] + "%20"
    return check_run_id(PREFIX + escaped)


def thread_of(run: str) -> str:
    """The thread that a run keeps."""
    return unquote(run.removeprefix(PREFIX), errors="surrogatepass")


def _escaped(sign: str) -> str:
    return "".join(f"%{byte:02X}" for byte in sign.encode("utf-8", "surrogatepass"))
