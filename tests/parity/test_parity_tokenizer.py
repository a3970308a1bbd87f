"""SmolLM2's tokenizer and chat against transformers, which reads the GGUF file in its own way."""

import pytest
from test_parity_checkpoints import smollm2
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer

from presk_db.checkpoints.tokenizer_data import tokenizer_bytes
from presk_db.checkpoints.tokenizer_open import open_tokenizer
from presk_db.native.tokenizer import Tokenizer
from tests.tokenizer.tokenizer_corpus import document

pytestmark = pytest.mark.parity


def test_smollm2_as_transformers_reads_it() -> None:
    file = smollm2()
    theirs = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    ours = Tokenizer(tokenizer_bytes(open_tokenizer(str(file))))
    # transformers cuts the text of every GGUF file as GPT-2 does; the model's own tokenizer.json takes digits apart first.
    cuts = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    theirs.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(cuts)
    for number in range(100):
        text = document(number, 4000)
        assert ours.encoded(text.encode()).tolist() == theirs(text).input_ids, number
    for talk in (
        [{"role": "user", "content": "What is 2 + 2?"}],
        [{"role": "system", "content": " Be brief.\n"}, {"role": "user", "content": "Hi <|im_end|>"}],
    ):
        system = talk[0]["content"].encode() if len(talk) > 1 else None
        text = ours.chat_begin(system) + ours.chat_message("user", talk[-1]["content"].encode()) + ours.chat_answer()
        assert text == theirs.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
        expected = theirs.apply_chat_template(talk, add_generation_prompt=True, return_dict=True)["input_ids"]
        assert ours.encoded(text.encode(), whole=False).tolist() == expected
