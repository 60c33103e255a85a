"""Opens the store that a user names: URLs, bare paths, the environment, the nearest ``.holdfast``.

It knows the forms of a URL and which module opens each; it imports a backend only when one of its URLs is
opened, and neither ``pathlib`` nor ``urllib`` for a path: they take 4 ms. The invariant: one open store per
place and process, shared by all callers that name that place.
"""

import os
import re
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final, Protocol

from holdfast.errors import BadUrl, NotDurable
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import KEY_VARIABLES, MARK_KEY, MARK_SPACE
from holdfast.stores.own_files import own_files
from holdfast.stores.port import StorePort

if TYPE_CHECKING:
    from _typeshed import StrPath

    from holdfast.model.salvage import Remains
    from holdfast.stores.encryption_mark import Key

ENVIRONMENT: Final = "HOLDFAST_URL"
DIRECTORY: Final = ".holdfast"
FILE: Final = "holdfast.db"

_ENCODE: Final = (
    "in a password write / as %2F, ? as %3F, # as %23, @ as %40 and % as %25; or leave it to PGPASSWORD"
)
# As texts: a path needs none of them, and each would take 0.1 ms to compile.
_USERINFO: Final = r"(?s::.*@)"
_PASSWORD_OPTION: Final = (
    r"(?s:(?:(?<=\?)|&)(?:(?:ssl)?password|[a-z_]*(?:secret|token)[a-z_]*)=.*?(?=&[A-Za-z_]+=|$))"  # noqa: S105 - a pattern
)
_SCHEME: Final = r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>[^?#]*)(?:\?(?P<query>[^#]*))?"


class Place(NamedTuple):
    """The place of a store: its scheme, and a canonical path or name."""

    scheme: str
    name: str
    lease_s: float | None = None
    password: str | None = None
    """Not percent-encoded. Not part of the identity: a later URL of the same place need not repeat it."""


class _Store(StorePort, Protocol):
    @property
    def is_open(self) -> bool: ...


def open_store(
    url: "StrPath | None" = None,
    *,
    start_dir: "StrPath | None" = None,
    on_new: Callable[[str], None] = lambda _: None,
    key: "Key | None" = None,
    may_be_plain: bool = False,
) -> StorePort:
    """The open store at a URL or path, shared within this process; one that was closed is opened again.

    None means ``HOLDFAST_URL``, else the nearest ``.holdfast`` upwards from ``start_dir``, else a new one
    there. ``on_new`` gets the path of a file that is made. ``key`` and ``may_be_plain`` are those of
    ``encryption_mark.with_keys``. Raises BadUrl, KeyRefused, and whatever opening raises.
    """
    place = place_of(url, start_dir=start_dir)
    with _opening:
        found = _open.get(place[:2])
        if found is not None and found.is_open and key is not None:
            from holdfast.stores.encryption_mark import with_keys

            with_keys(getattr(found, "inner", found), key)  # the same store, under this key as well
        elif found is None or not found.is_open:
            is_new = place.scheme == "sqlite" and not os.path.exists(place.name)
            found = _with_keys(_OPENERS[place.scheme](place), key, is_new=is_new, may_be_plain=may_be_plain)
            _open[place[:2]] = found
            if is_new:
                on_new(place.name)
        return found


def _with_keys(store: "_Store", key: "Key | None", *, is_new: bool, may_be_plain: bool) -> "_Store":
    try:
        # most stores are plain: for them nothing is loaded
        has_key = key is not None or any(map(os.environ.get, KEY_VARIABLES))
        if not has_key and (is_new or store.get_record(MARK_SPACE, MARK_KEY) is None):
            return store
        from holdfast.stores.encryption_mark import with_keys

        sealed: _Store = with_keys(store, key, is_new=is_new, may_be_plain=may_be_plain)
    except BaseException:
        store.close()
        raise
    return sealed


def lease_s_of(url: "StrPath | None" = None) -> float | None:
    """The ``lease_s`` of a URL, or None for the default."""
    return place_of(url).lease_s


def place_of(url: "StrPath | None" = None, *, start_dir: "StrPath | None" = None) -> Place:
    """The place of a URL or path, without opening anything. Raises BadUrl."""
    start = os.getcwd() if start_dir is None else os.fspath(start_dir)
    if url is None:
        url = os.environ.get(ENVIRONMENT) or _nearest(start)
    text = os.fspath(url)
    if "://" not in text:
        return _sqlite_place(text, text, start)
    _check_text(text, text)
    from urllib.parse import parse_qs, unquote

    found = re.fullmatch(_SCHEME, text)
    if found is None:
        advice = {"advice": _ENCODE} if "@" in text else {}
        raise BadUrl(url=without_password(text), problem="is malformed", **advice)
    scheme = found["scheme"].lower()
    if scheme in {"postgresql", "postgres"}:
        return _postgres_place(text, found["rest"], found["query"] or "")
    if scheme == "dynamodb":
        return _dynamodb_place(text, found["rest"], found["query"] or "")
    lease_s = _lease_s(text, parse_qs(found["query"] or "", keep_blank_values=True))
    if scheme == "sqlite":
        return _sqlite_place(text, _path_in(text, found["rest"]), start)._replace(lease_s=lease_s)
    if scheme == "memory":
        return Place(scheme, unquote(found["rest"]).strip("/"), lease_s)
    problem = f"has the scheme {scheme!r}, which no store here answers to"
    raise BadUrl(url=without_password(text), problem=problem)


def url_of(place: Place) -> str:
    """The complete URL of a place, with its password: for starting a program, not for people."""
    from urllib.parse import quote

    # quoted: the plus of 1e+16 would be read as a blank
    lease = f"lease_s={quote(repr(place.lease_s).removesuffix('.0'))}" if place.lease_s else ""
    if place.scheme not in _EXTRAS:
        return f"{place.scheme}:///{quote(place.name)}" + (f"?{lease}" if lease else "")
    server, slash, rest = place.name.partition("/")
    if place.password is not None:
        user, _, host = server.rpartition("@")
        server = f"{user}:{quote(place.password, safe='')}@{host}"
    joint = "&" if "?" in place.name else "?"
    return f"{place.scheme}://{server}{slash}{rest}" + (f"{joint}{lease}" if lease else "")


def is_there(url: "StrPath | None" = None) -> bool:
    """Whether the store exists; creates nothing. Raises BadUrl, and what a server refuses."""
    place = place_of(url)
    if place.scheme == "sqlite":
        try:
            return os.stat(place.name).st_size > 0
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # it may exist: opening it gives a better error
            return True
    if place.scheme == "postgresql":
        return bool(_driver(place).is_there(place.name, place.password))
    return True


def depends_on_directory(url: "StrPath | None") -> bool:
    """Whether this URL or path names another file when the process is started in another directory."""
    text = os.fspath(os.environ.get(ENVIRONMENT, "") if url is None else url)
    scheme, separator, rest = text.partition("://")
    if separator and scheme.lower() != "sqlite":
        return False
    if not separator:
        return not os.path.isabs(_expanded(text))
    from urllib.parse import unquote

    return not os.path.isabs(_expanded(unquote(rest.partition("?")[0])[1:]))


def nearest_store(start: str) -> str | None:
    """The path of the store in the nearest ``.holdfast`` upwards from a directory, or None."""
    found = _nearest(start)
    return found if is_there(found) else None


def is_nearest(url: str) -> bool:
    """Whether a command in this directory finds the store without being given its URL. Raises BadUrl."""
    return place_of(url)[:2] == place_of(_nearest(os.getcwd()))[:2]


def is_same_place(one: str, other: str) -> bool:
    """Whether two URLs name one store; False for one that names none."""
    try:
        return place_of(one)[:2] == place_of(other)[:2] if one and other else False
    except BadUrl:
        return False


def find_open(url: "StrPath") -> StorePort | None:
    """The store at a URL, if this process has it open; opens nothing. Raises BadUrl."""
    with _opening:
        found = _open.get(place_of(url)[:2])
        return found if found is not None and found.is_open else None


def is_own_file(url: "StrPath") -> bool:
    """Whether a URL names an existing file that belongs to this user. Raises BadUrl."""
    place = place_of(url)
    if place.scheme != "sqlite":
        return False
    try:
        found = os.stat(place.name)
    except OSError:
        return False
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_size > 0
        and (os.name == "nt" or found.st_uid == os.geteuid())
    )


def create_table(url: "StrPath | None" = None) -> bool:
    """Create the table of a URL; False if it already exists. BadUrl for a store without tables."""
    place = place_of(url)
    if place.scheme != "dynamodb":
        told = os.fspath(url) if url is not None else os.environ.get(ENVIRONMENT, place.name)
        raise BadUrl(
            url=without_password(told), problem="has no table to create: only dynamodb:// has one", advice=""
        )
    return bool(_driver(place).create_table(place.name))


def open_remains(url: "StrPath | None" = None) -> "Remains":
    """The readable rest of a damaged store. BadUrl for a store on a server, which has its own tools."""
    place = place_of(url)
    if place.scheme != "sqlite":
        raise BadUrl(
            url=without_password(url_of(place)),
            problem="is on a server, which repairs its own files",
            advice="salvage a store in a file; of a server's, restore a backup",
        )
    from pathlib import Path

    from holdfast.stores.sqlite.errors import translated_os
    from holdfast.stores.sqlite.repair.salvage import SqliteRemains

    path = Path(place.name)
    try:
        found = path.stat()
        if (found.st_dev, found.st_ino) in own_files():
            # reading it would drop the locks that the open store relies on
            raise BadUrl(
                url=str(path),
                problem="is open in this process",
                advice="close it first, or use another process",
            )
        return SqliteRemains(path)
    except OSError as error:
        raise translated_os(error, path) from error


def without_password(url: str) -> str:
    """A URL as it may be shown, whatever characters are in its password.

    A password that should have been percent-encoded may contain any of ``/ ? # @ :``, and then its end is
    ambiguous: everything up to the last ``@`` is removed. A path has no password.
    """
    scheme, _, rest = url.partition("://")
    if not rest or scheme.lower() == "memory" or (scheme.lower() == "sqlite" and rest.startswith("/")):
        return url
    rest = re.sub(_PASSWORD_OPTION, "", re.sub(_USERINFO, "@", rest, count=1))
    where, _, options = rest.partition("?")
    return f"{scheme}://{where}" + (f"?{options.lstrip('&')}" if options.strip("&") else "")


def _path_in(url: str, rest: str) -> str:
    if not rest.startswith("/"):
        shown = without_password(url)
        host = shown.partition("://")[2]
        raise BadUrl(url=shown, problem=f"names a host ({host!r}); a path follows three slashes")
    from urllib.parse import unquote

    return unquote(rest[1:])


def _sqlite_place(url: str, path: str, start: str) -> Place:
    if not path or path == ":memory:" or "\0" in path:
        raise BadUrl(url=url, problem="names no file")
    place = os.path.join(start, _expanded(path))
    _check_text(url, place)
    place = os.path.realpath(place)  # first: ``gone/..`` is a directory, though ``gone`` is not there
    if os.path.isdir(place) or path.endswith(("/", os.sep)):
        place = os.path.realpath(os.path.join(place, FILE))
    return Place("sqlite", place)


def _check_text(url: str, text: str) -> None:
    """Names of files may be any bytes, and those of a store are written down as UTF-8: BadUrl for others."""
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = without_password(url).encode("utf-8", "replace").decode()
        raise BadUrl(url=shown, problem="has a name that is not UTF-8") from None


def _postgres_place(url: str, rest: str, query: str) -> Place:
    """The form of libpq, with its options and ours.

    The password is separate, so that the name can be shown.
    """
    from urllib.parse import quote, unquote, urlencode

    server, _, database = rest.partition("/")
    options = _options(query)
    if _may_hold_password(server, database, query, options):
        problem = "has an @ behind its host, as if a password were written with / or ? in it"
        raise BadUrl(url=without_password(url), problem=problem, advice=_ENCODE)
    if not database:
        raise BadUrl(
            url=without_password(url),
            problem="names no database",
            advice="use postgresql://user@host/database",
        )
    user, _, host = server.rpartition("@")
    user, _, told = user.partition(":")
    password = options.pop("password", unquote(told))
    lease_s = _lease_s(url, {key: [options.pop(key)] for key in ("lease_s",) if key in options})
    kept = urlencode(sorted(options.items()), safe="/", quote_via=quote)
    name = f"{user}{'@' if user else ''}{host}/{database}" + (f"?{kept}" if kept else "")
    return Place("postgresql", name, lease_s, password or None)


def _options(query: str) -> dict[str, str]:
    """What follows the ``?``, as libpq reads it: a plus is a plus, and of two the last counts."""
    from urllib.parse import unquote

    pairs = (one.partition("=") for one in query.split("&") if one)
    return {unquote(key): unquote(value) for key, _, value in pairs}


def _may_hold_password(server: str, database: str, query: str, options: Mapping[str, str]) -> bool:
    """Whether a part of a password may have been parsed as something else, and would be shown."""
    if "@" in database or any("@" in key for key in options):
        return True
    ports = [host.rpartition(":")[2] for host in server.split(",") if not host.endswith("]") and ":" in host]
    return "@" in query and "@" not in server and not all(port.isdecimal() for port in ports)


def _dynamodb_place(url: str, table: str, query: str) -> Place:
    from urllib.parse import parse_qs, urlencode

    from holdfast.stores.dynamodb.address import target_of

    options = parse_qs(query, keep_blank_values=True)
    lease_s = _lease_s(url, {key: options.pop(key) for key in ("lease_s",) if key in options})
    shown = without_password(url)
    return Place("dynamodb", target_of(f"{table}?{urlencode(options, doseq=True)}", shown).name, lease_s)


def _expanded(path: str) -> str:
    """With the home directory for ``~``. BadUrl if it is not known."""
    found = os.path.expanduser(path)
    if found.startswith("~"):
        raise BadUrl(url=path, problem="names a home directory that is not known", advice="")
    return found


def _nearest(start: str) -> str:
    """Like git: the first directory upwards that has one, else here. Creates nothing."""
    here = directory = os.path.realpath(start)
    while not os.path.isdir(os.path.join(directory, DIRECTORY)):
        outer = os.path.dirname(directory)
        if outer == directory:
            return os.path.join(here, DIRECTORY, FILE)
        directory = outer
    return os.path.join(directory, DIRECTORY, FILE)


def _lease_s(url: str, options: Mapping[str, list[str]]) -> float | None:
    unknown = sorted(options.keys() - {"lease_s"})
    if unknown:
        raise BadUrl(url=without_password(url), problem=f"has an unknown option {unknown[0]!r}")
    if "lease_s" not in options:
        return None
    try:
        lease_s = float(options["lease_s"][-1])
    except ValueError:
        lease_s = 0.0
    if not 0 < lease_s < float("inf"):
        raise BadUrl(
            url=without_password(url),
            problem=f"has lease_s={options['lease_s'][-1]!r}, which is no number of seconds",
            advice="",
        )
    return lease_s


def _open_sqlite(place: Place) -> _Store:
    if sys.platform == "win32":  # locks were never run there, and without them two processes may hold one run
        raise NotDurable(
            store=place.name,
            problem="Holdfast has no locks on Windows that a store in a file could rely on",
            advice="use postgresql:// or dynamodb://, or run the program in WSL or a container",
        )
    from holdfast.stores.sqlite import SqliteStore

    return SqliteStore(place.name)


def _open_memory(place: Place) -> _Store:
    from holdfast.stores.in_memory import MemoryStore

    return MemoryStore(place.name)


def _open_postgres(place: Place) -> _Store:
    store: _Store = _driver(place).PostgresStore(place.name, place.password)
    return store


def _open_dynamodb(place: Place) -> _Store:
    store: _Store = _driver(place).open_table(place.name)
    return store


def _driver(place: Place) -> ModuleType:
    """The package of a server's store, which needs an extra that may not be installed."""
    try:
        return import_module(_DRIVERS[place.scheme])
    except ImportError as error:
        raise BadUrl(
            url=without_password(f"{place.scheme}://{place.name}"),
            problem=f"needs {error.name}, which cannot be imported ({error})",
            advice=f"pip install 'holdfast[{_EXTRAS[place.scheme]}]'",
        ) from error


_EXTRAS: Final = {"postgresql": "postgres", "dynamodb": "dynamodb"}
_DRIVERS: Final = {"postgresql": "holdfast.stores.postgres", "dynamodb": "holdfast.stores.dynamodb.open"}
_OPENERS: Final[dict[str, Callable[[Place], _Store]]] = {
    "sqlite": _open_sqlite,
    "memory": _open_memory,
    "postgresql": _open_postgres,
    "dynamodb": _open_dynamodb,
}
_open: dict[tuple[str, str], _Store] = {}
_opening = threading.Lock()


def _reset_after_fork() -> None:
    """Inherited stores report that they are not open here; only the lock may be stuck."""
    global _opening  # noqa: PLW0603
    _opening = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
