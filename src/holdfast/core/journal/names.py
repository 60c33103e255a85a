"""Checks names of runs, steps, labels and keys: a person must be able to type them in a shell."""

from holdfast.errors import BadName
from holdfast.limits import KEY_CHARS_MAX, RUN_ID_CHARS_MAX


def check_name(what: str, name: object, length_max: int) -> str:
    """Return the name.

    Raises BadName if it is empty, too long, not printable, or begins or ends with a blank.
    """
    advice = ""
    if not isinstance(name, str):
        problem = f"is of type {type(name).__name__}, not text"
        if what == "step" and callable(name):
            name = getattr(name, "__name__", type(name).__name__)
            advice = f"the name comes first, then the function: run.step({name!r}, {name}, …)"
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
    shown = text if len(text := str(name)) <= 60 else text[:60] + "…"
    raise BadName(what=what, name=shown, problem=problem, length_max=length_max, advice=advice)


def check_run_id(run: object) -> str:
    """Return the id of a run. Raises BadName if it is not usable.

    ``@`` and ``#`` are refused, because people name a point as ``run@44``; ``/`` separates parent and child.
    """
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
        # A command line would read a leading dash as an option.
        problem = "has an empty part or begins with a dash"
        raise BadName(what="run", name=name, problem=problem, length_max=RUN_ID_CHARS_MAX, advice="")
    return name


def check_key(key: object) -> str:
    """Return the explicit key of a call. Raises BadName if it is not usable."""
    return check_name("key", key, KEY_CHARS_MAX)
