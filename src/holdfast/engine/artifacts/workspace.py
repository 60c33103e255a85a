"""Decides where a run may write: its declared roots, and where a path leads among them.

A path is checked twice: as it is written, and with every link followed. When the file is opened,
``file_operations`` walks the checked path without following links and refuses a link created since.
"""

# ruff: noqa: PTH109, PTH110, PTH116, PTH117, PTH118, PTH120, PTH206 - pathlib is not loaded for a few names
import os

from holdfast.engine.premises.probes import is_of_open_store, name_of
from holdfast.errors import FileFailed, PathRefused
from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.own_files import is_own_name


class ResolvedPath(NamedTuple):
    """A checked path: its name in the records, the path as written, and the real path from a root."""

    name: str
    at: str
    root: str
    below: tuple[str, ...]
    """The directories between the root and the file, all links followed."""
    file: str
    inner: str
    """Its path below a directory that a restore writes to."""
    is_declared: bool
    """Whether its root is a declared one of the run."""

    @property
    def directory(self) -> str:
        """The real path of the file's directory."""
        return os.path.join(self.root, *self.below)


def spot_in(call: str, text: str, roots: tuple[str, ...], *, is_there: bool) -> ResolvedPath:
    """Resolve a path among the roots; ``is_there`` for an existing file. PathRefused where it leads out.

    A relative path counts from the current directory if that leads into a root, and otherwise from the roots.
    """
    cwd = os.getcwd()
    places = roots or (cwd,)
    if ".." in text.replace("\\", "/").split("/"):
        raise _refused(call, text, "holds '..'", places)
    paths = [os.path.normpath(os.path.join(base, text)) for base in (cwd, *places)]
    inside = [path for path in paths if any(_is_inside(path, root) for root in places)]
    if not inside:
        raise _refused(call, text, "is outside of the run's workspace", places)
    chosen = next((path for path in inside if is_there and os.path.lexists(path)), inside[0])
    real = os.path.realpath(chosen)
    root = next((root for root in map(os.path.realpath, places) if _is_inside(real, root)), None)
    if root is None:
        raise _refused(call, text, f"leads out of the run's workspace, to {real}", places)
    if is_own_name(*os.path.split(real)) or (os.path.exists(real) and is_of_open_store(os.stat(real))):
        raise _refused(call, text, "is a file of a store that is open here", places)
    *below, file = os.path.relpath(real, root).split(os.sep)
    name = name_of(chosen, cwd)
    written = next(root for root in places if _is_inside(chosen, root))
    # A file below the current directory keeps its relative path, so that a program run in the restored
    # directory finds it.
    beside = os.path.dirname(written) if len(places) > 1 else written
    inner = os.path.relpath(chosen, beside) if os.path.isabs(name) else name
    return ResolvedPath(name, chosen, root, tuple(below), file, inner, bool(roots))


def spot_at(path: str) -> ResolvedPath:
    """An absolute path as it is, for a run without declared roots."""
    real = os.path.realpath(path)
    root, file = os.path.split(real)
    name = name_of(path, os.getcwd())
    return ResolvedPath(name, path, root, (), file, os.path.splitdrive(name)[1].lstrip(os.sep), False)


def refused_on_the_way(call: str, text: str, error: OSError, spot: ResolvedPath) -> PathRefused | FileFailed:
    """The error for a failed open: PathRefused where a link has appeared since the check, else FileFailed."""
    import errno

    if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.EMLINK} and spot.is_declared:
        return _refused(
            call, text, f"meets a link on the way that was not there before ({error})", (spot.root,)
        )
    return file_failed(call, text, error)


def file_failed(call: str, text: str, error: OSError) -> FileFailed:
    """A FileFailed with the errno of the system's error, so that a handler of OSError works with it."""
    if isinstance(error, FileFailed):
        return error
    made = FileFailed(call=call, path=text, problem=str(error))
    made.errno, made.strerror, made.filename = error.errno, error.strerror, error.filename
    return made


def _is_inside(path: str, root: str) -> bool:
    return path.startswith(os.path.join(os.path.normpath(root), "")) and path != os.path.normpath(root)


def _refused(call: str, text: str, problem: str, roots: tuple[str, ...]) -> PathRefused:
    return PathRefused(call=call, path=text, problem=problem, roots=", ".join(roots))
