"""The fingerprint of a function: the same in every Python that is supported, and found in a file by its name."""

import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.core.premises import fingerprints
from holdfast.core.premises.fingerprints import fingerprint_at, fingerprints_in

TEXT = '''\
@decorated(1, lambda y: y)
def outer(a, *, b: "int" = 3) -> str:
    """Doc."""
    # comment
    class Inner:
        async def method(self, é):
            "doc"
            s = f"é {é!r:>{10}} {f'{a}'} x" "more"
            return f"""a
  {s}
b""" + s
    if a: return (1,
       2)
    return 3

def one(): return 1

try:
    def maybe(x):
        return x
except ImportError:
    def maybe(x):
        return 2
'''
KNOWN = {
    "outer": ["0f6ea660ccdd2ff9233abb78"],
    "outer.<locals>.Inner.method": ["01f6dd18df8229d891e8b9a1"],
    "one": ["628b060a36a7dd3912f29578"],
    "maybe": ["2fc07cfca5d68189344b8c52", "48da46343bf6fa4eb0e83d66"],
    "nothing": [],
}
"""Written down, so that any Python that sees it otherwise is noticed, whichever runs these tests."""


@pytest.mark.parametrize("name", KNOWN)
def test_it_is_the_same_everywhere(name: str) -> None:
    """F-strings are one token in 3.11 and many in 3.12; here they are one."""
    assert fingerprints_in(TEXT, name) == KNOWN[name]


@pytest.mark.parametrize("python", ["3.12", "3.13"])
def test_other_pythons_agree(python: str) -> None:
    """Asked themselves, where they are installed."""
    found = next(iter(map(str, Path.home().glob(f".pyenv/versions/{python}.*/bin/python"))), None)
    found = found or shutil.which(f"python{python}")
    if found is None or subprocess.run([found, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"no Python {python} here; the written hashes are compared in any case")
    code = (
        Path(fingerprints.__file__).read_text()
        + f"\nprint([fingerprints_in({TEXT!r}, n) for n in {list(KNOWN)!r}])"
    )
    told = subprocess.run([found, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == str(list(KNOWN.values()))


def test_a_place_and_a_name_give_the_same() -> None:
    """The live function is known by its line, which is that of its first decorator."""
    lines = TEXT.splitlines(keepends=True)
    assert [fingerprint_at(lines, 1, "outer")] == [fingerprint_at(lines, 2, "outer")] == KNOWN["outer"]
    assert [fingerprint_at(lines, 6, "method")] == KNOWN["outer.<locals>.Inner.method"]


@pytest.mark.parametrize(("line", "name"), [(3, "outer"), (1, "inner"), (99, "outer"), (20, "one")])
def test_a_file_that_is_not_what_was_loaded_tells_nothing(line: int, name: str) -> None:
    """Where the function should be there is another one, or none."""
    assert fingerprint_at(TEXT.splitlines(keepends=True), line, name) is None


@pytest.mark.parametrize("text", ["def f(:\n    pass\n", "def f():\n    '''\n", "def f(", "\0"])
def test_what_is_no_python_tells_nothing(text: str) -> None:
    """Cut off or broken, by place; by name the caller is told."""
    assert fingerprint_at(text.splitlines(keepends=True), 1, "f") is None
    with pytest.raises((SyntaxError, ValueError)):
        fingerprints_in(text, "f")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f():\n    return 1\n", "def f():\n\n    # why\n\treturn  1\n".replace("\t", "    ")),
        ("def f(a, b):\n    return a\n", "def f(\n    a,\n    b\n):\n        return a\n"),
        ("def f():\n    'doc'\n    return 1\n", "def f():\n    return 1\n"),
        ("class C:\n    def f(self):\n        if 1:\n            return 2\n", "class C:\n    def f(self):\n        if 1:\n            return 2\n\n    def g(self): pass\nx = 1\n"),
        ("x = 1\ndef f(): return 1\n", "def f(): return 1\nx = 1\n"),
    ],
)  # fmt: skip
def test_looks_do_not_count(one: str, other: str) -> None:
    """Blank lines, comments, docstrings, breaks, indentation, and what stands around it."""
    name = "C.f" if one.startswith("class") else "f"
    assert fingerprints_in(one, name) == fingerprints_in(other, name) != []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("return 1", "return 2"),
        ("return 'a b'", "return 'a  b'"),
        ("return f'{1}'", "return f'{1!r}'"),
        ("if 1:\n        x = 1\n    y = 2", "if 1:\n        x = 1\n        y = 2"),
        ("return a", "return a,"),
        ("f'{print(1)}'", "pass"),
    ],
)
def test_code_counts(one: str, other: str) -> None:
    """Every token, where blocks end, and an f-string that stands by itself: it does something."""
    assert fingerprints_in(f"def f(a=0):\n    {one}\n", "f") != fingerprints_in(
        f"def f(a=0):\n    {other}\n", "f"
    )
