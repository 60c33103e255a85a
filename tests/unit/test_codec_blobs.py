"""Blobs: packed, unpacked, and never returned unless they are what their address says."""

import threading
from hashlib import sha256

import pytest
from backports import zstd

from holdfast.codec import blobs
from holdfast.codec.blobs import address_of, pack, unpack
from holdfast.errors import Corrupt, TooLarge

MAGIC = b"\x28\xb5\x2f\xfd"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a",
        b"ab" * 31,
        b"text " * 1000,
        sha256(b"seed").digest() * 2,
        MAGIC,
        MAGIC + b"x" * 100,
        b"\x00" * 100,
    ],
    ids=lambda data: f"{data[:6]!r}x{len(data)}",
)
def test_content_comes_back(data: bytes) -> None:
    """Compressible or not, tiny or not, and even if it begins like a frame."""
    packed = pack(data)
    assert unpack(packed, address=address_of(data)) == data
    assert len(packed) <= len(data) or data.startswith(MAGIC)


def test_address_is_the_sha256_of_the_content() -> None:
    """So that anyone can check it with sha256sum."""
    assert address_of(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_packed_text_is_a_zstd_frame_and_noise_is_itself() -> None:
    """A blob taken out of a store can be read with the zstd tool, or as it is."""
    text = b"lorem ipsum " * 500
    assert zstd.decompress(pack(text)) == text
    noise = b"".join(sha256(bytes([i])).digest() for i in range(100))
    assert pack(noise) == noise


def outcome(packed: bytes, address: str) -> bytes | str:
    try:
        return unpack(packed, address=address)
    except Corrupt as error:
        return "refused" if address in str(error) else str(error)


@pytest.mark.parametrize("data", [b"plain and short", b"compressible " * 100])
def test_every_flipped_byte_is_noticed(data: bytes) -> None:
    """No damage passes, and the address is named. Planted: without the hash a flipped raw byte was returned."""
    packed = pack(data)
    address = address_of(data)
    for at in range(len(packed)):
        damaged = packed[:at] + bytes([packed[at] ^ 1]) + packed[at + 1 :]
        assert outcome(damaged, address) in (data, "refused")  # a bit of the frame may say nothing


@pytest.mark.parametrize("cut", [0, 3, 10, -1])
def test_torn_and_extended_blobs_are_noticed(cut: int) -> None:
    """Cut short anywhere, or with something behind it."""
    data = b"compressible " * 100
    for damaged in (pack(data)[:cut], pack(data) + b"x"):
        with pytest.raises(Corrupt, match=address_of(data)):
            unpack(damaged, address=address_of(data))


def test_bomb_is_not_unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that claims more than a blob may hold, or does not say how much, is refused before it takes memory."""
    monkeypatch.setattr(blobs, "BLOB_SIZE_BYTES_MAX", 1_000)
    bomb = zstd.compress(b"\x00" * 1_001)
    with pytest.raises(Corrupt, match="claims 1,001 bytes"):
        unpack(bomb, address="0" * 64)
    silent = zstd.compress(b"\x00" * 10, options={zstd.CompressionParameter.content_size_flag: 0})
    with pytest.raises(Corrupt, match="claims"):
        unpack(silent, address="0" * 64)
    with pytest.raises(TooLarge, match="a blob is 1,001 bytes"):
        pack(b"\x00" * 1_001)


def test_threads_do_not_share_tools() -> None:
    """Compressors are not thread-safe: each thread has its own, and keeps it."""
    seen: list[tuple[int, int]] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        data = threading.current_thread().name.encode() * 1000
        barrier.wait(60)
        for _ in range(50):
            assert unpack(pack(data), address=address_of(data)) == data
        first, second = blobs._of_thread().compressor, blobs._of_thread().compressor
        seen.append((id(first), id(second)))
        barrier.wait(60)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({first for first, _ in seen}) == 4
    assert all(first == second for first, second in seen)
