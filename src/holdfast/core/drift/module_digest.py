"""The digest of a module of the user's program, and whether two of them are of the same program.

A digest is ``code.text@python``: the hash of the compiled code, that of the source, and the Python that
compiled it. Within one Python only the code counts, since comments are no change. Between two Pythons the
code always differs, and equal source is the same program. Journals of before ADR 54 have the code alone.
"""


def digest_text(code: str, text: str, python: str) -> str:
    """The digest of a module; without source, that of its code."""
    return f"{code}.{text}@{python}" if text else code


def is_same_module(recorded: str, now: str) -> bool:
    """Whether both are of the same program."""
    code, _, rest = recorded.partition(".")
    code_now, _, rest_now = now.partition(".")
    if code == code_now:
        return True
    text, _, python = rest.partition("@")
    text_now, _, python_now = rest_now.partition("@")
    return bool(text) and text == text_now and python != python_now
