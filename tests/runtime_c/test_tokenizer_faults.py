"""The tokenizer's file with random faults: refused with a reason or used without a fault in memory, under sanitizers."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from c_runtime import FIXTURES, RUNTIME, SANITIZED, STRICT, compile_c

from presk_db.checkpoints.tokenizer_data import Chat, tokenizer_bytes
from presk_db.checkpoints.tokenizer_json import tokenizer_from_json
from tests.tokenizer.tokenizer_families import NAMES, family

CHAT = Chat(("<s>", "<u>", "<a>"), ("</s>",) * 3, "<s>be kind</s>", "<a>", True)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tokenizer") / "tokenizer"
    files = [
        FIXTURES / "tokenizer.c",
        RUNTIME / "presk_rt.c",
        *sorted((RUNTIME / "generate").glob("presk_tokenizer*.c")),
    ]
    done = compile_c(out, files, [*STRICT, *SANITIZED])
    assert (done.returncode, done.stderr) == (0, "")
    return out


@pytest.mark.parametrize("name", NAMES)
def test_spoilt_files(driver: Path, tmp_path: Path, name: str) -> None:
    data = tokenizer_from_json(json.loads(family(name)), "tokenizer.json")
    file = tmp_path / "tokenizer.bin"
    file.write_bytes(tokenizer_bytes(replace(data, chat=CHAT, stops=(0, 2))))
    done = subprocess.run([driver, file, "7", "400"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    words = done.stdout.split()
    opened, refused, silent, encoded = int(words[0]), int(words[2]), int(words[4]), int(words[8])
    assert opened + refused == 400
    assert silent == 0
    assert min(refused, encoded) > 20
