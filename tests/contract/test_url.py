"""From what a user writes to an open store."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import BadUrl
from holdfast.stores import url
from holdfast.stores.url import Place, lease_s_of, open_store, place_of


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
