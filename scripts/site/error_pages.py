"""The reference of errors: each with what it says, why it is raised, and what to do, from the error tree."""

import inspect
import re
from collections.abc import Iterator
from typing import Final

from holdfast import errors
from holdfast.model.explained_error import Explained

PAGES: Final = {
    "misuse": ("The call itself is wrong", errors.Misuse),
    "runs": ("The run's state does not allow it", errors.RunRefused),
    "stores": ("The store refused", errors.StoreError),
    "signals": ("Stop-signals: the attempt must stop", errors.StopSignal),
    "others": ("Other errors", errors.HoldfastError),
}
CURES: Final = {
    "Misuse": "The hint of the error says it: it depends on what was called.",
    "Unjournaled": "Wrap the client that the hint names, or record the call with `run.model(name, call, request)`.",
    "NotStorable": "Return plain data; or pass the value at that path as `holdfast.ephemeral(value)`, or name it in `ignore=`.",
    "ImportClash": "Import it under another name: `holdfast import FILE --as NAME`.",
    "RunSealed": "Continue the run where it went. If it never got there, `store.unseal(run)` takes it back.",
    "StoreError": "Look at the problem that it names; `holdfast doctor` checks the store.",
    "KeyRefused": "Set the key of this store in `HOLDFAST_KEY`, `HOLDFAST_KEY_FILE` or `HOLDFAST_KEY_COMMAND`, or none.",
    "ExportError": "Look at the path that it names; nothing was imported.",
    "ExportTaken": "Continue the run where it went; `holdfast import FILE --again` if that copy is gone.",
    "ThreadsUnreadable": "Open the database with the framework's own version first; it is unchanged.",
    "ForeignCommand": "If you trust it: `holdfast resume RUN --trust`.",
    "EffectUnknown": "Look in the outside world whether it happened, and then do it, or go on.",
}
"""What to do about errors whose hint only the code that raises them knows."""


def error_pages() -> dict[str, str]:
    """A page for each family, by name."""
    return {name: _page(title, family, name) for name, (title, family) in PAGES.items()}


def index_page() -> str:
    """The tree, and the way to each family."""
    drawing = inspect.cleandoc(errors.__doc__ or "").partition("::\n")[2]
    families = "\n".join(f"- [{title}](errors/{name}.md)" for name, (title, _) in PAGES.items())
    return (
        "# Errors, their causes and cures\n\n"
        "An error says what was refused, on which thing, and the state that refused it. Its `hint` is what to do next; a "
        "traceback prints it. Its facts are attributes, and it can be pickled to another process.\n\n"
        f"{families}\n\n## The tree\n\n```text\n{inspect.cleandoc(drawing)}\n```\n"
    )


def errors_of(page: str) -> Iterator[type[BaseException]]:
    """The errors of one page, in the order of the tree: each error has one page."""
    family = PAGES[page][1]
    others = tuple(cls for name, (_, cls) in PAGES.items() if name != "others")
    for cls in every_error():
        if issubclass(cls, family) and (page != "others" or not issubclass(cls, others)):
            yield cls
    if page == "signals":
        yield errors.Terminated


def every_error() -> list[type[Explained]]:
    """All errors, in the order in which they are written."""
    return [
        value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Explained) and not name.startswith("_")
    ]


def _page(title: str, family: type[BaseException], name: str) -> str:
    lines = [
        f"# {title}",
        "",
        f"`{family.__name__}`, and what derives from it. {_text(inspect.getdoc(family))}",
        "",
    ]
    for cls in errors_of(name):
        if cls is family:
            continue
        lines += [f"## {cls.__name__}", "", _text(inspect.getdoc(cls)), ""]
        if issubclass(cls, Explained):
            if (
                cls.says and cls.says.removeprefix("store {store}: ") != "{problem}"
            ):  # else it only says what happened
                lines += [f"**It says:** {_template(cls.says)}", ""]
            lines += [f"**What to do:** {cure(cls)}", ""]
        parent = cls.__bases__[0]
        if parent is not family and parent in every_error():
            lines += [f"It is a `{parent.__name__}`.", ""]
    return "\n".join(lines)


def cure(cls: type[Explained]) -> str:
    """What the hint of the error says, with its fields in capitals."""
    return CURES.get(cls.__name__) or _template(cls.advises)


def _template(text: str) -> str:
    """A text with fields, for a reader: ``{store!r}`` is STORE. Commands keep their backticks; the rest is text.

    A field that directly follows another is a part that may be missing, with its own separator: it is left out.
    """
    text = re.sub(r"(?<=[\w]\})\{\w+\}", "", text)
    plain = re.sub(
        r"\{(\w+)[^}]*\}", lambda found: found[1].upper(), text.replace("{{", "«").replace("}}", "»")
    )
    return plain.replace("«", "{").replace("»", "}").replace("*", r"\*").replace("<", "&lt;").replace("_", r"\_") \
        if "`" not in plain else plain.replace("«", "{").replace("»", "}")  # fmt: skip


def _text(docstring: str | None) -> str:
    return (docstring or "").replace("``", "`")
