"""Templates and the texts in them. Everything that comes from a run is escaped; no markup is made of it."""

import json
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from holdfast.codec.secrets import mask, masked_data
from holdfast.core.text.times import is_told
from holdfast.core.text.value_text import money
from holdfast.views.value_text import ago, clock_time, count, moment, one_line, size, span, status_word

_TONES: Final = {
    "running": "live",
    "finished": "good",
    "queued": "dim",
    "idle": "dim",
    "sealed": "dim",
    "cancelled": "dim",
    "not_begun": "dim",
    "set_aside": "dim",
    "importing": "dim",
    "crashed": "bad",
    "stale": "bad",
    "failed": "bad",
    "damaged": "bad",
    "in_doubt": "doubt",
    "parked": "doubt",
    "interrupted": "doubt",
    "diverged": "doubt",
}


def _without_secrets(value: Any) -> Any:
    """Texts are masked before they are escaped; markup of ours stays."""
    return mask(value) if type(value) is str else value


def _dumped(content: Any, **options: Any) -> str:
    return json.dumps(masked_data(content), **options)


def environment() -> Environment:
    """The templates, with escaping everywhere and an error for a name that is not there."""
    made = Environment(
        loader=PackageLoader("holdfast.ui"),
        autoescape=True,
        finalize=_without_secrets,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # JSON is marked as safe before ``finalize`` sees it.
    made.policies["json.dumps_function"] = _dumped
    made.filters.update(
        ago=ago,
        clock=clock_time,
        count=count,
        line=one_line,
        moment=moment,
        money=money,
        percent=percent,
        run_url=run_url,
        size=size,
        span=span,
        status=status_word,
        time=time_tag,
        tone=tone,
    )
    made.globals.update(static=static_url)
    for name in made.list_templates():
        # Before the first request: it is compiled by a parser that only one thread may use in Python 3.11.
        made.get_template(name)
    return made


def tone(status: str) -> str:
    """The colour class of a status; the word beside it says the same."""
    return _TONES.get(status, "dim")


def percent(share: float) -> str:
    """A share of the width, as SVG takes it."""
    return f"{100 * min(1.0, max(0.0, share)):.3f}%"


def run_url(run: str, **query: Any) -> str:
    """The page of a run."""
    asked = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
    return f"/run/{quote(run, safe='/')}" + (f"?{asked}" if asked else "")


def time_tag(at: float) -> Markup:
    """A moment as an element that the page turns into the reader's own time zone."""
    if not is_told(at):
        return Markup("{}").format(moment(at))
    iso = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso, moment(at), clock_time(at))


_VERSIONS: Final[dict[str, str]] = {}


def static_url(name: str) -> str:
    """The address of a static file; it changes with the file, so that a browser may keep it."""
    if name not in _VERSIONS:
        data = files("holdfast.ui").joinpath("static", name).read_bytes()
        _VERSIONS[name] = sha256(data).hexdigest()[:12]
    return f"/static/{name}?v={_VERSIONS[name]}"
