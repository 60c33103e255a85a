"""Which program records an effect: a hash of the code of each of the user's own modules.

The code is what counts, not its looks: comments, line numbers and docstrings of functions change nothing. A
module is the user's own unless it came with Python, was installed, or is a part of Holdfast. A once intent
tells the modules that the journal does not know as they are, so an unchanged program is told once in a
run's life.

The hash is of code objects: they are at hand, where parsing sources takes milliseconds in every process.
Another Python compiles other code of the same text, so the text has a hash, too, and the Python is named: see
``core/drift/module_digest.py``, and ADR 54.
"""

import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.drift.drift_fold import DRIFT
from holdfast.core.drift.module_digest import digest_text
from holdfast.engine.run.features import Feature, Slot
from holdfast.engine.steps.own_code import is_own_file

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.steps.step import Work

_DIGEST_BYTES: Final = 8
MODULES_MAX: Final = 500
"""A table of more modules would be larger than the effect that it belongs to."""
_PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_OPTIMIZED: Final = 0x01  # the code of a function, whose first constant is its docstring or None


class Program(Feature):
    """What this process runs, told in the intents of once effects."""

    def __init__(self, held: "HeldRun") -> None:
        super().__init__(held)
        self._told = DRIFT.of(held.view).program_at(held.view.head)
        self._seen: dict[str, str] | None = None
        self._lock = Lock()

    def intent(self, work: "Work", fields: dict[str, Any]) -> dict[str, Any]:
        """The modules that the journal does not know as they are. First, so that a fold finds them."""
        return {**self.news(), **fields} if work.call_options.effect == "once" else fields

    def news(self) -> dict[str, Any]:
        """The field of an intent with these modules; nothing if the journal knows all."""
        now = modules()
        if now is self._seen:
            return {}
        with self._lock:
            self._seen = now
            news = {name: digest for name, digest in now.items() if self._told.get(name) != digest}
            self._told |= news
        return {"program": news} if news else {}


PROGRAM: Final = Slot("program", Program)

_lock = Lock()
_known: dict[str, str] = {}
_looked_at: set[str] = set()
_loaded = 0


def modules() -> dict[str, str]:
    """The user's loaded modules with the hash of their code. The same dict until another one is loaded."""
    global _loaded, _known  # noqa: PLW0603 - one process, one program
    if len(sys.modules) == _loaded:
        return _known
    with _lock:
        found = dict(_known)
        loaded = list(sys.modules.items())
        for name, module in loaded:
            if name not in _looked_at:
                _looked_at.add(name)
                if len(found) < MODULES_MAX and is_own(module) and (digest := _digest_of(name, module)):
                    found[name] = digest
        if len(found) != len(_known):
            _known = found
        _loaded = len(loaded)
        return _known


def is_own(module: ModuleType) -> bool:
    """Whether a module is the user's: not one of Python's, of an installed package or of Holdfast's."""
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and file.endswith(".py") and is_own_file(file)


def _digest_of(name: str, module: ModuleType) -> str:
    """The hash of a module's code; empty where nobody has it."""
    try:
        code = _code_of_main(module) if name == "__main__" else module.__loader__.get_code(name)  # type: ignore[union-attr]
    except Exception:  # noqa: BLE001 - a foreign loader: its module is not part of the program
        return ""
    if not isinstance(code, CodeType):
        return ""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for part in _parts(code):
        digest.update(part)
    return digest_text(digest.hexdigest(), _text_digest(module), _PYTHON)


def _text_digest(module: ModuleType) -> str:
    """The hash of a module's source; empty where there is none to read."""
    try:
        source = Path(module.__file__ or "").read_bytes()
    except OSError:
        return ""
    return blake2b(source, digest_size=_DIGEST_BYTES).hexdigest()


def _code_of_main(module: ModuleType) -> CodeType | None:
    spec = module.__spec__
    if spec is not None and spec.loader is not None:  # python -m
        return spec.loader.get_code(spec.name)  # type: ignore[attr-defined, no-any-return]
    # What runs, not what lies there now: the file may have been edited since.
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - no other way to the code of what still runs
    while frame is not None:
        if frame.f_globals is vars(module) and frame.f_code.co_name == "<module>":
            return frame.f_code
        frame = frame.f_back
    assert module.__file__ is not None
    source = Path(module.__file__).read_bytes()
    return compile(source, module.__file__, "exec", dont_inherit=True)


def _parts(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    yield repr(
        (names, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    ).encode()
    consts = code.co_consts
    if code.co_flags & _OPTIMIZED and consts and (consts[0] is None or isinstance(consts[0], str)):
        consts = consts[1:]
    for value in consts:
        if isinstance(value, CodeType):
            yield value.co_name.encode()
            yield from _parts(value)
        else:
            yield _text_of(value).encode("utf-8", "surrogatepass")


def _text_of(value: Any) -> str:
    """A constant as text that is the same in every process: a frozenset has no order of its own."""
    if isinstance(value, frozenset):
        return f"frozenset({sorted(map(_text_of, value))})"
    return f"({', '.join(map(_text_of, value))})" if isinstance(value, tuple) else repr(value)
