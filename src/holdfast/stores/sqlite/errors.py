"""Maps the errors of SQLite and the file system to ``holdfast.errors``.

It knows every exception class of apsw; a test fails when apsw adds one that is not listed. The invariant: no
apsw exception leaves this package, and a failed write is never reported as one that did not happen.
"""

import errno
import os
from typing import TYPE_CHECKING, Final

import apsw

from holdfast.errors import (
    Corrupt,
    DiskFull,
    NotAStore,
    StoreBusy,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from _typeshed import StrPath

_NO_SPACE: Final = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_NO_WRITING: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

MAPPED: Final[dict[type[apsw.Error], type[StoreError]]] = {
    apsw.BusyError: StoreBusy,
    apsw.LockedError: StoreBusy,
    apsw.ProtocolError: StoreBusy,
    apsw.FullError: DiskFull,
    apsw.ReadOnlyError: StoreReadOnly,
    apsw.PermissionsError: StoreReadOnly,
    apsw.NotADBError: NotAStore,
    apsw.CorruptError: Corrupt,
    # The rest are I/O failures, or defects of this package: either way the outcome is unknown.
    apsw.AbortError: StoreUnavailable,
    apsw.AuthError: StoreUnavailable,
    apsw.BindingsError: StoreUnavailable,
    apsw.CantOpenError: StoreUnavailable,
    apsw.ConnectionClosedError: StoreUnavailable,
    apsw.ConnectionNotClosedError: StoreUnavailable,
    apsw.ConstraintError: StoreUnavailable,
    apsw.CursorClosedError: StoreUnavailable,
    apsw.EmptyError: StoreUnavailable,
    apsw.ExecTraceAbort: StoreUnavailable,
    apsw.ExecutionCompleteError: StoreUnavailable,
    apsw.ExtensionLoadingError: StoreUnavailable,
    apsw.ForkingViolationError: StoreUnavailable,
    apsw.FormatError: StoreUnavailable,
    apsw.IOError: StoreUnavailable,
    apsw.IncompleteExecutionError: StoreUnavailable,
    apsw.InternalError: StoreUnavailable,
    apsw.InterruptError: StoreUnavailable,
    apsw.InvalidContextError: StoreUnavailable,
    apsw.MismatchError: StoreUnavailable,
    apsw.MisuseError: StoreUnavailable,
    apsw.NoFTS5Error: StoreUnavailable,
    apsw.NoLFSError: StoreUnavailable,
    apsw.NoMemError: StoreUnavailable,
    apsw.NotFoundError: StoreUnavailable,
    apsw.RangeError: StoreUnavailable,
    apsw.SQLError: StoreUnavailable,
    apsw.SchemaChangeError: StoreUnavailable,
    apsw.ThreadingViolationError: StoreUnavailable,
    apsw.TooBigError: StoreUnavailable,
    apsw.VFSFileClosedError: StoreUnavailable,
    apsw.VFSNotImplementedError: StoreUnavailable,
}


def translated(error: apsw.Error, path: "StrPath", *, system_errno: int = 0) -> StoreError:
    """The StoreError for a SQLite error about the file at ``path``, with its cause set."""
    found = MAPPED.get(type(error), StoreUnavailable)
    if found is StoreUnavailable and system_errno in _NO_SPACE:
        found = (
            DiskFull  # a quota, or a shared-memory file that could not grow: SQLite calls these I/O errors
        )
    if isinstance(error, apsw.CantOpenError) and not is_writable(path):
        found = StoreReadOnly
    if error_code(error) == apsw.SQLITE_READONLY_DBMOVED:
        found = StoreUnavailable
    made = found(store=str(path), problem=f"{error} ({type(error).__name__}, code {error_code(error)})")
    return made.because(error)


def translated_os(error: OSError, path: "StrPath") -> StoreError:
    """The StoreError for a file system error about ``path`` or its directory, with its cause set."""
    found: type[StoreError] = StoreUnavailable
    if error.errno in _NO_SPACE:
        found = DiskFull
    elif error.errno in _NO_WRITING:
        found = StoreReadOnly
    return found(store=str(path), problem=str(error)).because(error)


def undecodable(error: UnicodeDecodeError, path: "StrPath") -> Corrupt:
    """The error for stored text that is not valid UTF-8 any more."""
    return Corrupt(store=str(path), problem=f"a text column does not decode: {error}").because(error)


def error_code(error: apsw.Error) -> int:
    """The extended result code; 0 for apsw's own classes."""
    return getattr(error, "extendedresult", 0)


def is_writable(path: "StrPath") -> bool:
    """Whether this process may write the file and create files beside it."""
    return os.access(os.path.dirname(path), os.W_OK) and (
        not os.path.exists(path) or os.access(path, os.W_OK)
    )
