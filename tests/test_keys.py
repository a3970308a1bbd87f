"""Keys: published vectors of ChaCha20, rand_core's expansion of a seed, and the properties of draws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk_db.draw import drawn_weight, tensor_key
from presk_db.keys import Key, chacha20

ZERO = bytes(32)
# key, stream, block, the block's bytes: the vectors of the ChaCha20 drafts (Bernstein's layout: the nonce has 64 bits)
VECTORS = [
    (ZERO, 0, 0,
     "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
     "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"),
    (ZERO, 0, 1,
     "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
     "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"),
    (bytes(31) + b"\1", 0, 0,
     "4540f05a9f1fb296d7736e7b208e3c96eb4fe1834688d2604f450952ed432d41"
     "bbe2a0b6ea7566d2a5d1e7e20d42af2c53d792b1c43fea817e9ad275ae546963"),
    (ZERO, 1 << 56, 0,
     "de9cba7bf3d69ef5e786dc63973f653a0b49e015adbff7134fcb7df137821031"
     "e85a050278a7084527214f73efc7fa5b5277062eb7a0433e445f41e3"),
]  # fmt: skip


def block(key: tuple[int, ...], stream: int, counter: int) -> list[int]:
    """One block in plain integers, as the definition has it."""
    state = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *key]
    state += [counter % 2**32, counter >> 32, stream % 2**32, stream >> 32]
    x = list(state)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for p, q, r, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[p] = (x[p] + x[q]) % 2**32
            x[r] ^= x[p]
            x[r] = (x[r] << turn | x[r] >> (32 - turn)) % 2**32

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(a + b) % 2**32 for a, b in zip(x, state, strict=True)]


@pytest.mark.parametrize(("key", "stream", "number", "expected"), VECTORS)
def test_published_vectors(key: bytes, stream: int, number: int, expected: str) -> None:
    found = chacha20(Key.from_bytes(key).key, stream, number, 1).astype("<u4").tobytes()
    assert found.hex().startswith(expected)


@given(
    st.tuples(*[st.integers(0, 2**32 - 1)] * 8),
    st.integers(0, 2**64 - 1),
    st.one_of(st.integers(0, 2**64 - 1), st.sampled_from((2**32 - 1, 2**64 - 1))),
)
def test_blocks_are_the_definition(key: tuple[int, ...], stream: int, counter: int) -> None:
    found = chacha20(key, stream, counter, 3)
    assert found.tolist() == [block(key, stream, (counter + i) % 2**64) for i in range(3)]


def test_many_blocks_are_single_blocks() -> None:
    many = chacha20((1, 2, 3, 4, 5, 6, 7, 8), 9, 2**32 - 4099, 8200)
    for i in (0, 4095, 4096, 4098, 4099, 8199):
        assert many[i].tolist() == block((1, 2, 3, 4, 5, 6, 7, 8), 9, 2**32 - 4099 + i)


def test_a_generator_of_rand_chacha() -> None:
    """The first two words that rand_chacha's own test expects of this seed."""
    seed = b"".join(int.to_bytes(i, 8, "little") for i in range(4))
    assert Key.from_bytes(seed).words(1).tolist() == [137206642]


@pytest.mark.parametrize("seed", [0, 1, 42, 2**63, 2**64 - 1])
def test_the_seed_is_expanded_as_rand_core_does(seed: int) -> None:
    """A transcription of the definition with fixed-width integers."""
    state, data = np.uint64(seed), b""
    with np.errstate(over="ignore"):
        for _ in range(8):
            state = state * np.uint64(6364136223846793005) + np.uint64(11634580027462260723)
            shifted = np.uint32((((state >> np.uint64(18)) ^ state) >> np.uint64(27)) & np.uint64(0xFFFFFFFF))
            turn = np.uint32(state >> np.uint64(59))
            data += np.uint32(shifted >> turn | shifted << (-turn & np.uint32(31))).tobytes()
    assert Key.from_seed(seed) == Key.from_bytes(data)


def test_draws_continue_where_they_are_told() -> None:
    key = Key.from_seed(7)
    words = key.words(100)
    assert words.tolist() == [w for i in range(7) for w in block(key.key, 0, i)][:100]
    for start, n in ((0, 0), (5, 0), (15, 2), (16, 16), (33, 50)):
        assert key.words(n, start).tolist() == words[start : start + n].tolist()
    draws = [int(a) | int(b) << 32 for a, b in zip(words[::2], words[1::2], strict=True)]
    assert key.integers(50).tolist() == draws
    assert key.uniform(50).tolist() == [(d >> 11) / 2**53 for d in draws]
    assert key.uniform(20, 30).tolist() == key.uniform(50)[30:].tolist()


def test_children_and_parts_are_blocks_of_their_streams() -> None:
    key = Key.from_seed(3)
    assert key.child(2**40).key == tuple(block(key.key, 1, 2**40)[:8])
    assert [k.key for k in key.split(3)] == [tuple(block(key.key, 2, i)[:8]) for i in range(3)]
    assert len({key, *key.split(50), *(key.child(i) for i in range(50)), *key.child(0).split(2)}) == 103


@pytest.mark.parametrize("bad", [-1, 2**64])
def test_numbers_out_of_range_are_refused(bad: int) -> None:
    with pytest.raises(ValueError, match=r"not in \[0, 2\*\*64\)"):
        Key.from_seed(bad)
    with pytest.raises(ValueError, match=r"not in \[0, 2\*\*64\)"):
        Key.from_seed(0).child(bad)


def test_keys_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Key.from_bytes(bytes(31))
    with pytest.raises(ValueError, match="eight words"):
        Key((1, 2, 3))


def test_a_drawn_weight_is_its_definition() -> None:
    weight = drawn_weight(5, "h.0.attn.weight", (3, 4), -0.25, 0.5)
    u = tensor_key(5, "h.0.attn.weight").uniform(12)
    assert weight.dtype == np.float32
    assert weight.shape == (3, 4)
    assert weight.reshape(-1).tolist() == [float(np.float32(-0.25 + x * 0.75)) for x in u.tolist()]
    assert weight.tobytes() != drawn_weight(5, "h.1.attn.weight", (3, 4), -0.25, 0.5).tobytes()
    assert weight.tobytes() != drawn_weight(6, "h.0.attn.weight", (3, 4), -0.25, 0.5).tobytes()


def test_a_large_weight_is_drawn_in_one_stream() -> None:
    n = (1 << 20) + 3
    whole = drawn_weight(1, "w", (n,), 0.0, 1.0)
    assert whole.tobytes() == tensor_key(1, "w").uniform(n).astype(np.float32).tobytes()


def test_an_empty_weight() -> None:
    assert drawn_weight(0, "w", (0, 4), 0.0, 1.0).shape == (0, 4)
