"""The fingerprint of a function's tokens: it changes with the code, and not with the formatting.

It is used for functions of libraries and in large files, and to compare with records of earlier versions;
``reach`` makes the others.

It is a hash of the tokens from ``def`` to the end of the body, without comments, blank lines, docstrings, the
width of indentation and line breaks. Decorators are not part of it: what a tool declares is a premise of its
own. Strings count as they are written, and an f-string is one token in every Python version, so 3.11, 3.12
and 3.13 agree. A function is found by its line, or in a file by its qualified name. Neither imports the file.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

DIGEST_CHARS: Final = 24

_PLAIN_STRING: Final = re.compile(r"[rRbBuU]{0,2}['\"]")
_INDENT: Final = "\x01"
_DEDENT: Final = "\x02"
_NEWLINE: Final = "\x03"


def fingerprint_at(lines: Sequence[str], line: int, name: str) -> str | None:
    """The fingerprint of the function of this name whose ``def`` or first decorator is at a line (from 1).

    None if it is not there: the file was edited after it was loaded.
    """
    from tokenize import TokenError

    try:
        tokens = list(_tokens(lines[line - 1 :]))
    except (SyntaxError, IndexError, TokenError):
        return None
    if tokens[2 if tokens[:1] == ["async"] else 1 :][:1] != [name]:
        return None
    digest = sha256("\0".join(tokens).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:DIGEST_CHARS]


def fingerprints_in(text: str, qualname: str) -> list[str]:
    """The fingerprints of all functions in a file that have this qualified name. Raises SyntaxError."""
    import ast

    lines = text.splitlines(keepends=True)
    wanted = [part for part in qualname.split(".") if part != "<locals>"]
    found = (
        fingerprint_at(lines, node.lineno, node.name)
        for node in _definitions(ast.parse(text).body, wanted)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    return [one for one in found if one is not None]


def _definitions(body: Iterable[Any], wanted: Sequence[str]) -> Iterator[Any]:
    """The definitions at a path of names, including those inside ``if``, ``try`` and the like."""
    import ast

    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if node.name == wanted[0]:
                if len(wanted) == 1:
                    yield node
                else:
                    yield from _definitions(node.body, wanted[1:])
        else:
            inner = [
                part
                for part in ast.iter_child_nodes(node)
                if isinstance(part, (ast.stmt, ast.ExceptHandler, ast.match_case))
            ]
            yield from _definitions(inner, wanted)


def _tokens(lines: Sequence[str]) -> Iterator[str]:
    """The tokens of the first function in these lines, up to its end."""
    from tokenize import COMMENT, DEDENT, ENDMARKER, INDENT, NAME, NEWLINE, NL

    statement: list[str] = []
    depth, has_begun, header_is_over = 0, False, False
    for kind, text in _whole_tokens(lines):
        has_begun = has_begun or (kind == NAME and text in {"async", "def"})
        if not has_begun or kind in {COMMENT, NL}:
            continue
        if kind == ENDMARKER or (header_is_over and depth == 0 and kind != INDENT):
            return
        if kind == INDENT:
            depth += 1
            yield _INDENT
        elif kind == DEDENT:
            depth -= 1
            if depth == 0:
                return
            yield _DEDENT
        elif kind == NEWLINE:
            if not all(map(_PLAIN_STRING.match, statement)):  # a statement of strings alone is a docstring
                yield from statement
                yield _NEWLINE
            statement, header_is_over = [], True
        else:
            statement.append(text)


def _whole_tokens(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The tokens of source that may be indented, with each f-string as one token, as in Python 3.11."""
    import tokenize

    opens = {getattr(tokenize, name, -1) for name in ("FSTRING_START", "TSTRING_START")}
    closes = {getattr(tokenize, name, -1) for name in ("FSTRING_END", "TSTRING_END")}
    if lines[0][:1].isspace():  # the tokenizer refuses source that begins indented
        lines = ["if 1:\n", *lines]
    depth, began = 0, (0, 0)
    for kind, text, start, end, _ in _up_to_outer_block(tokenize.generate_tokens(iter(lines).__next__)):
        if kind in opens:
            began = began if depth else start
            depth += 1
        elif kind in closes:
            depth -= 1
            if depth == 0:
                yield tokenize.STRING, _between(lines, began, end)
        elif depth == 0:
            yield kind, text


def _up_to_outer_block(tokens: Iterator[Any]) -> Iterator[Any]:
    """The tokens of a block that was cut out of a file, up to the end of the block.

    The first line after the block has an indentation that the tokenizer did not see, so it raises there.
    """
    from tokenize import DEDENT, INDENT

    indents = 0
    try:
        for token in tokens:
            indents += (token.type == INDENT) - (token.type == DEDENT)
            yield token
    except IndentationError:
        yield from [(DEDENT, "", (0, 0), (0, 0), "")] * indents


def _between(lines: Sequence[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    (first, begin), (last, stop) = start, end
    if first == last:
        return lines[first - 1][begin:stop]
    return "".join([lines[first - 1][begin:], *lines[first : last - 1], lines[last - 1][:stop]])
