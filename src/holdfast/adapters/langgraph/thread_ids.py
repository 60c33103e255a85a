"""The run of a thread: ``langgraph/<thread_id>``, with forbidden characters escaped as in a URL."""

from typing import Final
from urllib.parse import unquote

PREFIX: Final = "langgraph/"
_SIGNS: Final = frozenset("%@#/")
"""``/`` separates a run and its child, and a thread has no parent."""


def run_of(thread_id: object) -> str:
    """The run of a thread. Raises BadName if it is empty or too long, or has a secret in it."""
    from holdfast.engine.run.inputs import usable_id  # late: naming the saver loads no engine

    return usable_id(PREFIX + escaped(str(thread_id)))


def thread_of(run: str) -> str:
    """The thread of a run."""
    return unescaped(run.removeprefix(PREFIX))


def escaped(text: str) -> str:
    """The text as part of a name: printable, without special characters, no blank at its end."""
    made = "".join(_byte_by_byte(sign) if sign in _SIGNS or not sign.isprintable() else sign for sign in text)
    return made[:-1] + "%20" if made.endswith(" ") else made


def unescaped(text: str) -> str:
    """The original text."""
    return unquote(text, errors="surrogatepass")


def _byte_by_byte(sign: str) -> str:
    return "".join(f"%{byte:02X}" for byte in sign.encode("utf-8", "surrogatepass"))
