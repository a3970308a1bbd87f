"""Keys: ChaCha20 against published words, seeds against a plain reimplementation, draws and children."""

import numpy as np

from presk_db.draw import drawn_input, drawn_weight
from presk_db.keys import Key, chacha20


def test_the_zero_key_gives_the_published_block() -> None:
    # The first block of ChaCha20 under the all-zero key, nonce and counter: RFC 7539, A.1, vector 1.
    block = chacha20(bytes(32), np.array([0], np.uint64), 0)[:, 0].astype("<u4").tobytes().hex()
    assert block == (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )


def test_the_second_block_is_published_too() -> None:
    block = chacha20(bytes(32), np.array([1], np.uint64), 0)[:, 0].astype("<u4").tobytes().hex()
    assert block.startswith("9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed")


def _scalar_block(key: bytes, counter: int, stream: int) -> list[int]:
    state = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    state += [int.from_bytes(key[4 * i : 4 * i + 4], "little") for i in range(8)]
    state += [counter % 2**32, counter >> 32, stream % 2**32, stream >> 32]
    x = list(state)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for p, q, r, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[p] = (x[p] + x[q]) % 2**32
            x[r] ^= x[p]
            x[r] = ((x[r] << n) | (x[r] >> (32 - n))) % 2**32

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(a + b) % 2**32 for a, b in zip(x, state, strict=True)]


def test_counters_and_streams_of_64_bits_equal_a_scalar_implementation() -> None:
    key = bytes(range(32))
    counters = [0, 1, 2**32 - 1, 2**32, 2**63 + 5]
    for stream in (0, 1, 2**32 + 7, 2**64 - 1):
        blocks = chacha20(key, np.array(counters, np.uint64), stream)
        for column, counter in enumerate(counters):
            assert blocks[:, column].tolist() == _scalar_block(key, counter, stream)


def test_a_seed_gives_the_same_key_as_rand_core() -> None:
    # rand_core 0.6, SeedableRng::seed_from_u64, worked by hand for the first word of seed 0:
    # state = 11634580027462260723; ((state >> 18) ^ state) >> 27, rotated right by state >> 59.
    state = 11634580027462260723
    mixed, turn = (((state >> 18) ^ state) >> 27) & 0xFFFFFFFF, state >> 59
    word = ((mixed >> turn) | (mixed << (32 - turn))) & 0xFFFFFFFF
    assert Key.from_seed(0).bytes[:4] == word.to_bytes(4, "little")
    assert len({Key.from_seed(s).bytes for s in range(100)}) == 100


def test_uniform_draws_are_the_top_53_bits_low_word_first() -> None:
    key = Key.from_seed(7)
    words = key.words(6).tolist()
    draws = [(words[2 * i] | words[2 * i + 1] << 32) >> 11 for i in range(3)]
    assert key.uniform(3).tolist() == [d / 2**53 for d in draws]


def test_draws_do_not_depend_on_how_many_are_taken() -> None:
    key = Key.from_seed(3)
    assert np.array_equal(key.words(300_000)[:5000], key.words(5000))
    assert key.words(0).size == 0


def test_children_are_distinct_and_come_from_their_own_streams() -> None:
    key = Key.from_seed(1)
    assert key.split(3) == (key.child(0), key.child(1), key.child(2))
    assert key.child(0).bytes == key.words(8, stream=1).astype("<u4").tobytes()
    assert len({key.bytes, *(k.bytes for k in key.split(50))}) == 51


def test_drawn_tensors_are_fixed_by_seed_and_name() -> None:
    a = drawn_weight(1, "wte", (3, 4), -1.0, 1.0)
    assert a.dtype == np.float32 and a.shape == (3, 4) and bool((abs(a) <= 1).all())
    assert np.array_equal(a, drawn_weight(1, "wte", (3, 4), -1.0, 1.0))
    assert not np.array_equal(a, drawn_weight(1, "wpe", (3, 4), -1.0, 1.0))
    assert not np.array_equal(a, drawn_weight(2, "wte", (3, 4), -1.0, 1.0))
    tokens = drawn_input(1, "tokens", (1000,), 7)
    assert set(tokens.tolist()) == set(range(7))
    assert drawn_input(1, "x", (0, 3), None).shape == (0, 3)
