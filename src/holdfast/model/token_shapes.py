"""What looks like a credential: the names of variables, the values they have, and well-known kinds of keys.

Pure text rules. A false alarm costs more than a miss: a word that is taken for a password riddles every
record with references. So each rule asks for length, for mixed characters and for entropy.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from math import log2
from operator import methodcaller
from typing import Final

VALUE_CHARS_MIN: Final = 8
"""The length from which the value of a variable can be a secret."""
_UNMIXED_CHARS_MIN: Final = 16
"""The length from which a value of one kind of character can be one: shorter ones are words."""
_DISTINCT_MIN: Final = 6
_BITS_MIN: Final = 2.5
"""Entropy of a character, by the counts of the value itself; a word of English has about that."""
_SHAPE_BITS_MIN: Final = 3.0

_NAME: Final = (
    r"(?:(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)S?|PASSWD|PASSPHRASE|(?:^|_)(?:PASS|PWD|PAT|AUTH))"
    r"(?:_BASE|_?\d+)?$"
)
_BEFORE_HOST: Final = r"[A-Za-z][A-Za-z0-9+.:-]*://[^:/?#@]*:([^/?#]+)@"
_AMONG_OPTIONS: Final = r"(?:password|pwd|accountkey|sharedaccesskey)=([^;&\s]+)"
"""As in a DSN of libpq, the query of an address, and the connection strings of Azure and SQL Server."""
_NO_SECRETS: Final = frozenset({"PWD", "OLDPWD", "HOLDFAST_NOT_SECRET"})
_PLACES: Final = ("/", "~", "./", "../", "http:", "https:", "file:")
"""How a value begins that says where a secret is."""

_STARTS: Final = (
    "sk-", "sk_live_", "rk_live_", "ghp_", "gho_", "ghu_", "ghs_", "github_pat_", "glpat-", "xox",
    "AKIA", "ASIA", "AIza", "hf_", "npm_", "pypi-", "eyJ", "-----BEGIN ",
)  # fmt: skip
"""What every shape begins with. A text without any of them has no shape, and is not searched further."""
_EDGES: Final = (
    b'"',
    b" ",
    b"'",
    b"=",
    b":",
    b"n",
    b"(",
    b",",
    b"/",
    b"\\",
    b"[",
    b"{",
    b"`",
    b">",
    b";",
    b"@",
)
"""What may stand before a short start; ``n`` is the end of a line break as JSON writes it."""
_ends_before_dash: Final[Callable[[bytes], bool]] = methodcaller(
    "endswith",
    (b"glpat", b"pypi", *(b"xox" + bytes([one]) for one in b"abeoprs"), *(edge + b"sk" for edge in _EDGES)),
)
_ends_before_bar: Final[Callable[[bytes], bool]] = methodcaller(
    "endswith",
    (b"ghp", b"gho", b"ghu", b"ghs", b"live", b"pat", b"npm", *(edge + b"hf" for edge in _EDGES)),
)

_begins_after_a: Final[Callable[[bytes], bool]] = methodcaller("startswith", b"Iza")
_BETWEEN_AS: Final = frozenset({b"KI", b"SI"})

_SHAPES: Final = (  # nothing may begin inside of what it can run through: else the time grows with its square
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?:[A-Za-z0-9]+-)*[A-Za-z0-9_\-]{20,}|(?:sk|rk)_live_[A-Za-z0-9]{16,}|gh[opsu]_[A-Za-z0-9]{30,}"
    r"|github_pat_[A-Za-z0-9_]{40,}|glpat-[A-Za-z0-9_\-]{20,}|xox[abeoprs]-[A-Za-z0-9\-]{20,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])|AIza[A-Za-z0-9_\-]{35}|hf_[A-Za-z0-9]{30,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_\-]{50,}"
    r"|(?<![_\-])eyJ[A-Za-z0-9_\-]{10,}\.eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{16,}"
    r")"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]{40,}?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)


@cache
def names_a_credential(name: str) -> bool:
    """Whether a variable of this name has a credential, and not the place or the id of one."""
    return name not in _NO_SECRETS and re.search(_NAME, name, re.IGNORECASE) is not None


@cache
def names_a_place(name: str) -> bool:
    """Whether a variable of this name has an address, which may have a password in it."""
    return name.upper().endswith(("URL", "URI", "DSN", "CONNECTION_STRING"))


def password_in(url: str) -> tuple[str, str]:
    """The password that an address has, as it is and as it stands there; empty if there is none."""
    found = re.match(_BEFORE_HOST, url) or re.search(_AMONG_OPTIONS, url, re.IGNORECASE)
    if found is None or "%" not in found[1]:
        return ("", "") if found is None else (found[1], found[1])
    from urllib.parse import unquote

    return unquote(found[1]), found[1]


def is_credential(value: str) -> bool:
    """Whether the value of such a variable is one: long and mixed enough to be no word, number or path."""
    if len(value) < VALUE_CHARS_MIN or value.startswith(_PLACES):
        return False
    kinds = (
        any(map(str.islower, value))
        + any(map(str.isupper, value))
        + any(map(str.isdigit, value))
        + any(not (c.isalnum() or c in "-_./: ") for c in value)
    )
    is_mixed = kinds > 1 or (len(value) >= _UNMIXED_CHARS_MIN and not value.isdigit() and "-" not in value)
    return is_mixed and len(set(value)) >= _DISTINCT_MIN and entropy(value) >= _BITS_MIN


def entropy(value: str) -> float:
    """Bits of a character, by how often each occurs in the value."""
    return -sum(n / len(value) * log2(n / len(value)) for n in Counter(value).values()) if value else 0.0


def may_have_shape(data: bytes) -> bool:
    """Whether written JSON may have a token in it: a quick look, for every result of a step.

    Splitting at a rare sign takes a tenth of the time of searching for a dozen short texts.
    """
    return (
        any(map(_ends_before_dash, data.split(b"-")))
        or any(map(_ends_before_bar, data.split(b"_")))
        or any(map(_begins_after_a, parts := data.split(b"A")))
        or not _BETWEEN_AS.isdisjoint(parts)
        or (b"J" in data and b"eyJ" in data)
        or b"PRIVATE KEY-----" in data
    )


def shapes_in(text: str) -> Iterator[tuple[int, int, str]]:
    """Where tokens of a well-known kind are, and how each begins."""
    if not any(start in text for start in _STARTS):
        return
    for found in re.finditer(_SHAPES, text):
        token = found[0]
        # An example such as sk-xxxxxxxxxxxxxxxxxxxx, or words joined by dashes, is no token.
        if entropy(token) >= _SHAPE_BITS_MIN and (token.startswith("-----") or any(map(str.isdigit, token))):
            yield found.start(), found.end(), next(start for start in _STARTS if token.startswith(start))
