"""Names that a person can type back: runs, steps, labels, keys."""

from holdfast.errors import BadName
from holdfast.limits import KEY_CHARS_MAX, RUN_ID_CHARS_MAX


def check_name(what: str, name: object, length_max: int) -> str:
    """The name, if it can be used: printable, not blank at its ends, and not too long."""
    if not isinstance(name, str):
        problem = f"is of type {type(name).__name__}, not text"
    elif not name:
        problem = "is empty"
    elif len(name) > length_max:
        problem = f"is {len(name)} characters long"
    elif not name.isprintable():
        problem = "holds characters that cannot be printed"
    elif name != name.strip():
        problem = "begins or ends with a blank"
    else:
        return name
    shown = name if isinstance(name, str) and len(name) <= 60 else str(name)[:60] + "…"
    raise BadName(what=what, name=shown, problem=problem, length_max=length_max, advice="")


def check_run_id(run: object) -> str:
    """A run's id; ``@`` and ``#`` are how people name a point inside a run, and ``/`` stands between parent and child."""
    name = check_name("run", run, RUN_ID_CHARS_MAX)
    for sign, use in (("@", "separates a run from a point in it"), ("#", "marks an event")):
        if sign in name:
            raise BadName(
                what="run",
                name=name,
                problem=f"holds {sign!r}, which {use}",
                length_max=RUN_ID_CHARS_MAX,
                advice="",
            )
    if name.startswith(("/", "-")) or name.endswith("/") or "//" in name:
        problem = "has an empty part or begins with a dash"
        raise BadName(what="run", name=name, problem=problem, length_max=RUN_ID_CHARS_MAX, advice="")
    return name


def check_key(key: object) -> str:
    """An explicit key of a call."""
    return check_name("key", key, KEY_CHARS_MAX)
