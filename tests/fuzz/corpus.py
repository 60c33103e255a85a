"""The inputs that are kept: a folder a surface. ``valid-…`` are sound, ``found-…`` did harm once, the others lead to rare lines."""

from pathlib import Path

DIRECTORY = Path(__file__).parent / "corpus"


def inputs_of(surface: str) -> list[bytes]:
    """All inputs that are kept for a surface, in order of name."""
    return [path.read_bytes() for path in sorted((DIRECTORY / surface).iterdir())]
