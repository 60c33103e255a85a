"""What stands for a secret: a reference in recorded data, a mask in text.

A name may end with ``|json`` or ``|repr``: so it was written inside a longer text.

A reference is a tag: ``{"$":"secrets","v":["Bearer ","OPENAI_API_KEY",""]}`` has text and names of secrets in
turn, beginning and ending with text. Base64 and escaped text have the same list inside their own tags. A mask
is ``<secret NAME>``. It is never read back: what looks like one is text.

It knows no secret and no value.
"""

from collections.abc import Sequence
from typing import Any, Final

TAG: Final = "secrets"
MASKED: Final = b"<secret "
"""So a mask begins."""
_TAGGED: Final = frozenset({TAG, "bytes", "bytearray", "str"})


def mask_of(name: str) -> str:
    """What people and models see in place of a value."""
    return f"<secret {name.partition('|')[0]}>"


def names_in(tree: Any) -> set[str]:
    """The names of all secrets that a tree refers to."""
    if type(tree) is list:
        return set().union(*map(names_in, tree)) if tree else set()
    if type(tree) is not dict:
        return set()
    parts = tree.get("v")
    if tree.get("$") in _TAGGED and type(parts) is list:
        return {one for one in parts[1::2] if type(one) is str}
    return set().union(*map(names_in, tree.values())) if tree else set()


def masked_text(tree: Any) -> str | None:
    """A text with references, as people see it; None for any other tree."""
    if type(tree) is not dict or tree.get("$") != TAG:
        return None
    return joined(tree.get("v"))


def joined(parts: Any) -> str:
    """Text and names in turn, as people see them. Damage may have put anything there."""
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        return mask_of("?")
    return "".join(mask_of(str(one)) if number % 2 else str(one) for number, one in enumerate(parts))


def shown(tree: Any) -> Any:
    """The tree with masks in place of references: plain text again, for readers that expect text."""
    if type(tree) is list:
        return [shown(part) for part in tree]
    if type(tree) is not dict:
        return tree
    text = masked_text(tree)
    if text is not None:
        return text
    if tree.get("$") in _TAGGED and type(tree.get("v")) is list:
        return joined(tree["v"])
    return {name: shown(part) for name, part in tree.items()}
