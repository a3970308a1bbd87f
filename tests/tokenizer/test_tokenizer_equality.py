"""The C tokenizer gives the tokens and the texts of the `tokenizers` library, for each family's pipeline."""

import numpy as np
import pytest

from presk_db.conformance import unicode_tables
from presk_db.errors import InputBad
from presk_db.native.tokenizer import Tokenizer
from tests.tokenizer.tokenizer_corpus import code_points, document, monsters
from tests.tokenizer.tokenizer_equality import both, decoding_differences, text_differences
from tests.tokenizer.tokenizer_families import NAMES, family


@pytest.mark.parametrize("name", NAMES)
def test_texts_and_decodings_are_the_librarys(name: str) -> None:
    ours, library = both(family(name))
    texts = [document(seed, 4096) for seed in range(30)]
    assert text_differences(ours, library, [*texts, "", "\0", *monsters(3000)]) == []
    assert decoding_differences(ours, library, 1, 500) == []


def test_every_code_point() -> None:
    ours, library = both(family("qwen2"))
    assert text_differences(ours, library, code_points(("'",))) == []


def test_a_megabyte_of_spaces_takes_no_time() -> None:
    """A quadratic merge would take minutes."""
    ours, library = both(family("smollm"))
    assert text_differences(ours, library, [" " * (1 << 20) + "x"]) == []


def test_a_planted_fault_is_found() -> None:
    ours, _ = both(family("gpt2"))
    _, library = both(family("smollm"))
    texts = [document(seed, 4096) for seed in range(3)]
    assert len(text_differences(ours, library, texts)) == 3
    assert decoding_differences(ours, library, 1, 20) != []


@pytest.mark.parametrize("name", NAMES)
def test_partial_characters_wait(name: str) -> None:
    ours, library = both(family(name))
    text = "👩‍👩‍👧é한국어\u0301"
    stream = ours.stream(special=True)
    pieces = [stream.add(token) for token in ours.encoded(text.encode(), False)]
    expected = library.decode(library.encode(text, add_special_tokens=False).ids)
    assert "".join(pieces) + stream.end() == expected
    assert len(pieces) > len(text) // 2
    assert all("\ufffd" not in piece for piece in pieces) or "\ufffd" in expected


def test_an_unfinished_character_ends_as_one_replacement() -> None:
    ours, _ = both(family("gpt2"))
    first = int(ours.encoded("é".encode(), False)[0])
    tokens = [t for t in range(ours.count) if ours.decoded(np.array([t]), True) == "\ufffd"]
    assert len(tokens) >= 128
    stream = ours.stream()
    assert stream.end() == ""
    lone = next(t for t in tokens if ours.stream().add(t) == "")
    assert (stream.add(lone), stream.end(), stream.end()) == ("", "\ufffd", "")
    assert ours.stream().add(first) in ("é", "")


@pytest.mark.parametrize(
    ("data", "byte"),
    [(b"ab\xff", 2), (b"\xe2\x82", 0), (b"\xed\xa0\x80", 0), (b"\xc0\x80", 0), (b"a\xf4\x90\x80\x80", 1)],
)
def test_bytes_that_are_not_utf8_are_refused(data: bytes, byte: int) -> None:
    ours, _ = both(family("gpt2"))
    with pytest.raises(InputBad, match=f"byte {byte} of the text is not UTF-8"):
        ours.encoded(data)


def test_ids_outside_the_vocabulary_have_no_text() -> None:
    ours, _ = both(family("gpt2"))
    assert ours.decoded(np.array([-1, ours.count, 2**62])) == ""
    assert not Tokenizer.stops(ours, -1)


def test_tables_are_those_of_the_library() -> None:
    """The classes in the header are what this library answers; the normal form's parts are checked by texts."""
    folder = unicode_tables.resource_folder("runtime_c") / "generate"
    assert (folder / "presk_unicode_classes.h").read_text() == unicode_tables.classes_header()
