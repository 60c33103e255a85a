"""A secret inside of other text: as JSON, a ``repr``, a URL or a form writes it. And the password of an address."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from tests.support.known_secrets import places

import holdfast
from holdfast.codec import secrets
from holdfast.model.markers import KNOWN

VALUE = 'ak7 Zx9"Qm\\4tÜ/@2Vb'
OLD, NEW = "paZz-Qm4t/7Lw", "n3w-Zx9tLw2Vb"
FORMS: dict[str, Callable[[str], str]] = {
    "json": lambda value: json.dumps({"key": value}, ensure_ascii=False),
    "json as the standard library writes it": lambda value: json.dumps({"key": value}),
    "JSON in JSON": lambda value: json.dumps(
        {"arguments": json.dumps({"key": value}, ensure_ascii=False)}, ensure_ascii=False
    ),
    "repr": lambda value: repr([value]),
    "repr in JSON": lambda value: json.dumps({"error": repr([value])}, ensure_ascii=False),
    "password of a URL": lambda value: f"postgresql://ada:{quote(value, safe='')}@host/db",
    "path of a URL": lambda value: f"https://host/{quote(value)}/x",
    "query of a URL": lambda value: f"https://host/?key={quote_plus(value)}&n=1",
}


@pytest.mark.parametrize("form", FORMS)
def test_other_forms_are_hidden_and_come_back(form: str, no_secret: None, tmp_path: Path) -> None:
    """Seen to fail: those of URLs, and umlauts in JSON of the standard library, were in the journal in clear."""
    holdfast.secret(VALUE, name="db.password")
    text = FORMS[form](VALUE)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="stop"), holdfast.run("r", store=tmp_path / "s.db") as run:
            assert run.step("a", lambda told: {"told": told}, text) == {"told": text}
            run.think(text)
            raise RuntimeError("stop")
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for part in (b"ak7", b"4t", b"2Vb"):
        assert part not in data


def test_the_password_of_an_address_is_a_secret(
    no_secret: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, and in the address; a rotated one changes no call. Without the variable it is named.

    Seen to fail: the address was recorded as it was.
    """

    def url(password: str) -> str:
        return f"postgresql://ada:{quote(password, safe='')}@host/db"

    def agent() -> None:
        with holdfast.run("r", store=tmp_path / "s.db") as run:
            found: list[str] = run.step("connect", lambda: [os.environ["DATABASE_URL"], "host"])
            raise RuntimeError(found[0])

    for password, expected in ((OLD, OLD), (NEW, NEW)):
        monkeypatch.setenv("DATABASE_URL", url(password))
        with pytest.raises(RuntimeError) as ended:
            agent()
        assert str(ended.value) == url(expected)
    monkeypatch.delenv("DATABASE_URL")
    with pytest.raises(holdfast.SecretMissing) as missing:
        agent()
    assert "set the environment variable DATABASE_URL" in missing.value.hint
    for value in (OLD, NEW, quote(OLD, safe="")):
        assert places(value, tmp_path) == []


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ada:p%40ss%2fWord9@host/db",  # lower case
        "postgresql://ada:p%40ss!%2FWord9@host/db",  # only some characters
        "host=db user=ada password=pAss-Word9",
        "postgresql://host/db?user=ada&password=pAss-Word9",
        "jdbc:postgresql://ada:pAss-Word9@host/db",
        "AccountName=ada;AccountKey=pAss9Word/==;Suffix=net",
    ],
)
def test_an_address_is_hidden_however_it_is_written(
    address: str, no_secret: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail: passwords that are quoted otherwise than Python does it, and those among options, were in clear."""
    monkeypatch.setenv("AZURE_CONNECTION_STRING", address)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="stop"), holdfast.run("r", store=tmp_path / "s.db") as run:
            assert run.step("connect", lambda: os.environ["AZURE_CONNECTION_STRING"]) == address
            run.think(f"connect to {address}")
            raise RuntimeError("stop")
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"Word" not in data, data[max(0, data.find(b"Word") - 200) :][:300]
    monkeypatch.delenv("AZURE_CONNECTION_STRING")
    missing = pytest.raises(holdfast.SecretMissing, match="AZURE_CONNECTION_STRING")
    with missing, holdfast.run("r", store=tmp_path / "s.db") as run:
        run.step("connect", lambda: "")


@pytest.mark.parametrize(
    "value",
    ["postgresql://ada@host/db", "postgresql://ada:postgres@host/db", "https://host/a:b@c", "a@b.c", ""],
)
def test_an_address_without_a_password_has_none(no_secret: None, value: str) -> None:
    """Nor is a word one."""
    secrets.know_environment({"DATABASE_URL": value})
    assert not KNOWN
