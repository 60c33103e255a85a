"""What a watch did: a line for people or an object for programs, on stderr."""

from typing import Final

from holdfast.cli.errors import with_store
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Lines, Mood, Span
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.json_shape import as_plain, iso
from holdfast.views.value_text import clock_time

_MOODS: Final[dict[str, Mood]] = {
    "started": "busy",
    "finished": "good",
    "crashed": "bad",
    "restarting": "plain",
    "waiting": "plain",
    "signalled": "plain",
    "interrupted": "plain",
    "stopped": "doubt",
    "gave_up": "bad",
    "blind": "doubt",
}


class Notice(NamedTuple):
    """One thing that a watch did or saw. ``code`` is the child's exit code, negative for a signal."""

    at: float
    event: str
    text: str
    hint: str = ""
    pid: int | None = None
    code: int | None = None
    took_s: float | None = None
    delay_s: float | None = None
    crashes: int | None = None


class NoticePrinter:
    """Prints notices as they come, on stderr, because stdout belongs to the child."""

    def __init__(self, url: str | None, *, as_json: bool) -> None:
        """``url`` is the store as it was typed; the next commands have to name it too."""
        self._named = ("--store", url) if url else ()
        self._as_json = as_json

    def tell(self, notice: Notice) -> None:
        """Print one notice now."""
        notice = notice._replace(hint=with_store(notice.hint, self._named))
        if self._as_json:
            render.report_json_line(as_plain(notice))
            return
        time = clock_time(notice.at) if render.is_stderr_terminal() else iso(notice.at)
        line = [Span(f"{time} watch: ", "dim"), Span(notice.text, _MOODS[notice.event])]
        if notice.hint:
            line.append(Span(f" ({notice.hint})"))
        render.report([Lines([line])])
