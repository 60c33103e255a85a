"""From what a user writes to an open store."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from holdfast.errors import BadUrl, HoldfastError, NotDurable
from holdfast.stores import url
from holdfast.stores.url import Place, lease_s_of, open_store, place_of, url_of, without_password


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test sees the developer's own store, nor leaves one open."""
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    before = set(url._open)  # other tests' stores are theirs
    yield
    for place in set(url._open) - before:
        url._open.pop(place).close()


def test_the_forms_of_a_url(tmp_path: Path) -> None:
    """Three slashes are relative, four absolute; a bare path is a path; a directory holds its file."""
    (tmp_path / "dir").mkdir()
    here = str(tmp_path)
    forms = {
        "sqlite:///x.db": f"{here}/x.db",
        "sqlite:///sub/x.db": f"{here}/sub/x.db",
        f"sqlite:///{here}/x.db": f"{here}/x.db",
        "sqlite:///with%20blank.db": f"{here}/with blank.db",
        "SQLITE:///x.db": f"{here}/x.db",
        "x.db": f"{here}/x.db",
        "./a/../x.db": f"{here}/x.db",
        f"{here}/x.db": f"{here}/x.db",
        "dir": f"{here}/dir/holdfast.db",
        "new/": f"{here}/new/holdfast.db",
        "sqlite:///dir": f"{here}/dir/holdfast.db",
    }
    assert {form: place_of(form) for form in forms} == {
        form: Place("sqlite", path) for form, path in forms.items()
    }
    assert place_of(tmp_path / "x.db") == Place("sqlite", f"{here}/x.db")
    assert place_of("~/x.db").name == os.path.realpath(Path.home() / "x.db")
    assert place_of("memory://name") == Place("memory", "name")
    assert place_of("memory://") == Place("memory", "")
    near = "dynamodb://agents?endpoint=http%3A//127.0.0.1:8000/&lease_s=5&region=eu-central-1"
    assert place_of(near) == Place(
        "dynamodb", "agents?region=eu-central-1&endpoint=http://127.0.0.1:8000", 5.0
    )
    assert place_of(f"dynamodb://{place_of(near).name}")[:2] == place_of(near)[:2]
    assert place_of("dynamodb://agents") == Place("dynamodb", "agents")


@pytest.mark.parametrize(
    "bad",
    [
        "mysql://x",
        "postgres://",
        "sqlite://host/x.db",
        "sqlite://x.db",
        "sqlite:///",
        "sqlite://",
        "sqlite:///:memory:",
        "",
        "://x",
        "9p://x",
        "sqlite:///x.db?mode=ro",
        "sqlite:///x.db?lease_s=soon",
        "sqlite:///x.db?lease_s=-1",
        "memory://x?lease_s=inf",
        "memory://x?lease_s=",
        "x\0y",
        "dynamodb://",
        "dynamodb://ab",
        "dynamodb://no/slash",
        "dynamodb://agents?ttl=1",
        "dynamodb://agents?endpoint=localhost:8000",
        "dynamodb://agents?lease_s=0",
    ],
)
def test_what_cannot_be_understood_is_named(bad: str) -> None:
    """The error says which URL and what about it; nothing is created."""
    with pytest.raises(BadUrl) as caught:
        open_store(bad)
    assert caught.value.url == bad
    assert repr(bad) in str(caught.value)
    assert caught.value.hint
    assert list(Path.cwd().iterdir()) == []


def test_lease_s_may_ride_on_any_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how long a silent holder is waited for, not where the store is."""
    assert lease_s_of("sqlite:///x.db?lease_s=2") == 2.0
    assert lease_s_of("memory://x?lease_s=0.5") == 0.5
    assert lease_s_of("x.db") is None
    assert lease_s_of() is None
    monkeypatch.setenv("HOLDFAST_URL", "memory://x?lease_s=7")
    assert lease_s_of() == 7.0
    assert open_store("memory://x?lease_s=2") is open_store("memory://x")


def test_without_a_url_the_environment_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Then the nearest .holdfast upwards, like git; then a new one here, made only when it is opened."""
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert place_of(start_dir=deep).name == str(deep / ".holdfast" / "holdfast.db")
    assert not (deep / ".holdfast").exists()
    (tmp_path / ".holdfast").mkdir()
    assert place_of(start_dir=deep).name == str(tmp_path / ".holdfast" / "holdfast.db")
    (tmp_path / "a" / ".holdfast").mkdir()
    assert place_of(start_dir=deep).name == str(tmp_path / "a" / ".holdfast" / "holdfast.db")
    monkeypatch.chdir(deep)
    assert open_store().url == f"sqlite:///{tmp_path}/a/.holdfast/holdfast.db"
    monkeypatch.setenv("HOLDFAST_URL", "sqlite:///env.db")
    assert place_of().name == str(deep / "env.db")
    monkeypatch.setenv("HOLDFAST_URL", "")
    assert place_of().name == str(tmp_path / "a" / ".holdfast" / "holdfast.db")


def test_one_open_store_per_place(tmp_path: Path) -> None:
    """However the place is written; a closed one is opened again, with what it held."""
    store = open_store("x.db")
    (tmp_path / "link.db").symlink_to("x.db")
    assert open_store("sqlite:///x.db") is open_store(tmp_path / "x.db") is open_store("link.db") is store
    assert open_store("memory://a") is open_store("memory://a")
    assert open_store("memory://a") is not open_store("memory://b")
    store.close()
    again = open_store("x.db")
    assert again is not store
    assert again.url == store.url
    assert again.list_runs(limit=1) == []


def test_the_url_of_a_store_opens_it_again(tmp_path: Path) -> None:
    """Also where the path has characters that mean something in a URL."""
    for name in ("plain.db", "50% off?#.db", "ünï cödé.db"):
        store = open_store(tmp_path / name)
        assert open_store(store.url) is store


def test_naming_a_store_imports_no_driver() -> None:
    """apsw is loaded when the first SQLite store is opened, not before."""
    child = (
        "import sys; from holdfast.stores.url import open_store, place_of; place_of('x.db'); open_store('memory://');"
        "place_of('dynamodb://agents'); assert not {'apsw', 'boto3', 'botocore'} & sys.modules.keys(); open_store('x.db'); assert 'apsw' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", child], check=True)


# -- passwords ----------------------------------------------------------------------------------------------------

PASSWORDS = [
    "plain",
    "sl/ash",
    "/",
    "a/b?c=d&e#f",
    "at@sign",
    "@",
    "co:lon",
    ":",
    "quest?ion",
    "per%cent",
    "%2F",
    "100%",
    "pl+us",
    "two words",
    "schlüssel\N{KEY}",
    "12/34",
]
MISTYPED = ["{}@host/db", "{}@host:5432/db", "{}@host", "{}@host/db?schema=x", "{}@h1:1,h2:2/db"]


@pytest.mark.parametrize("password", PASSWORDS)
def test_any_password_can_be_written_and_survives_the_way_to_a_child(password: str) -> None:
    """Percent-encoded in front of the host, or as an option; told to a child and read again, it is the same.

    On the code before, ``?password=`` was decoded twice and read a plus as a blank, and a child was given it unquoted.
    """
    secret = quote(password, safe="")
    forms = [
        f"postgresql://me:{secret}@host:5432/db?lease_s=5",
        f"postgresql://me@host:5432/db?password={secret}&lease_s=5",
        f"postgresql://me@host:5432/db?lease_s=5&password={secret}",
    ]
    places = {place_of(form) for form in forms}
    assert places == {Place("postgresql", "me@host:5432/db", 5.0, password)}
    assert {place_of(url_of(place)) for place in places} == places
    nobody = place_of(f"postgresql://host/db?password={secret}")
    assert nobody == place_of(url_of(nobody)) == Place("postgresql", "host/db", None, password)
    pytest.importorskip("psycopg")
    from holdfast.stores.postgres.address import address_of

    address = address_of(nobody.name, nobody.password)
    assert (address.conninfo["password"], address.url) == (password, "postgresql://host/db")


@pytest.mark.parametrize("form", MISTYPED)
@pytest.mark.parametrize(
    "between", ["/", "//", "?", "#", "@", ":", "%", "%2F", " ", "ü", "/@", "@/", "?@/", "&", "/?x="]
)
def test_a_password_that_is_not_encoded_is_not_shown_either(between: str, form: str) -> None:
    """Whatever comes of it: read as it was meant, or refused in words that hold no part of it, and tell how to write it.

    On the code before, everything with a slash in it was shown, by us or in libpq's words.
    """
    told = f"postgresql://me:{form.format(f'hush{between}hush')}"
    assert without_password(told) == f"postgresql://me{form.format('')}"
    shown, password = "", "hushhush"
    try:
        place = place_of(told)
    except BadUrl as bad:
        shown = f"{bad} {bad.hint} {bad.fields}"
    else:
        shown, password = place.name, place.password or ""
    assert "hush" not in shown
    assert password.count("hush") == 2


def test_what_is_shown_of_a_url() -> None:
    """Only passwords go; a path has none, whatever its characters are."""
    assert {told: without_password(told) for told in SHOWN} == SHOWN


@pytest.mark.parametrize(
    "bad",
    ["sqlite://me:hush@host/x.db", "dynamodb://key:hush@t?region=x", "dynamodb://t?region=x&secret=hush"],
)
def test_what_a_refused_url_shows_of_itself(bad: str) -> None:
    """A password in a place where this store has none. Seen to fail: the problem repeated it."""
    with pytest.raises(BadUrl) as refused:
        place_of(bad)
    assert "hush" not in f"{refused.value} {refused.value.hint} {refused.value.fields}"


SHOWN = {
    "postgresql://me:p@host/db": "postgresql://me@host/db",
    "postgresql://me@host:5432/db": "postgresql://me@host:5432/db",
    "postgresql://host:5432/db": "postgresql://host:5432/db",
    "postgresql://me@[::1]:5432/db": "postgresql://me@[::1]:5432/db",
    "postgresql://h/db?password=a/b@c&schema=x": "postgresql://h/db?schema=x",
    "postgresql://h/db?schema=x&password=a&poll=1": "postgresql://h/db?schema=x&poll=1",
    "postgresql://h/db?schema=x&sslpassword=a&sslkey=k": "postgresql://h/db?schema=x&sslkey=k",
    "postgresql://h/db?password=secret": "postgresql://h/db",
    "postgresql://h/db?password=two words&x": "postgresql://h/db",
    "mysql://me:p/q@host/db": "mysql://me@host/db",
    "sqlite:///a:b@c.db": "sqlite:///a:b@c.db",
    "sqlite://me:p@host/x.db": "sqlite://me@host/x.db",
    "dynamodb://agents?session_token=p&region=x": "dynamodb://agents?region=x",
    "dynamodb://agents?region=x&aws_secret_access_key=p": "dynamodb://agents?region=x",
    "memory://a:b@c": "memory://a:b@c",
    "a:b@c.db": "a:b@c.db",
    "dynamodb://agents?endpoint=http://127.0.0.1:8000": "dynamodb://agents?endpoint=http://127.0.0.1:8000",
}


@pytest.mark.parametrize(
    "bad",
    [
        "mysql://me:hush/hush@host/db",
        "postgresql://me:hush#hush@host/db",
        "postgresql://me:hush/hush@host/db",
        "postgresql://me:12/hush@host/db",
        "postgresql://me:x@hush/hush@host/db",
        "postgresql://me:hush?hush@host/db",
        "postgresql://me:x/hush?hush=1@host/db",
        "postgresql://me:hush@host",
        "postgresql://me:hush@host/db?lease_s=soon",
        "postgresql://me:hush@host/db?schema=pg_x",
        "postgresql://me:hush@host/db?nosuch=1",
        "postgresql://me@host:port/db?password=hush",
        "postgresql://me@host/db?poll=2&password=hush",
        "postgresql://me@host/db?nosuch=1&sslpassword=hush",
    ],
)
def test_no_refusal_shows_a_password(bad: str) -> None:
    """Neither ours nor libpq's, in the message, the hint or the fields, nor in what caused it."""
    pytest.importorskip("psycopg")
    with pytest.raises(HoldfastError) as refused:
        open_store(bad)
    error: BaseException | None = refused.value
    while error is not None:
        assert "hush" not in f"{error} {getattr(error, 'hint', '')} {getattr(error, 'fields', '')}", error
        error = error.__cause__ or error.__context__


def test_a_file_is_refused_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no locks for it there that were ever run: it says so, says where to go, and makes no file.

    Planted once: without the check the import of fcntl fails, and a user sees a ModuleNotFoundError.
    """
    monkeypatch.setattr("holdfast.stores.url.sys.platform", "win32")
    path = tmp_path / "runs.db"
    with pytest.raises(NotDurable, match="no locks on Windows") as refused:
        open_store(path)
    assert "postgresql://" in refused.value.hint
    assert "WSL" in refused.value.hint
    assert not path.exists()
    assert open_store("memory://on-windows").find_run("none") is None
