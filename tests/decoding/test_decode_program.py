"""The emitted program of a step: the native run's bytes, structured and as a straight line; caches in and out."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pipeline import GPT2, LLAMA, config_file

from presk_db.conformance.check import checked
from presk_db.conformance.generate import Generator, Request
from presk_db.conformance.program import Build
from presk_db.keys import Key
from presk_db.native.sampling import Sampling
from presk_db.native.session import Session
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.check import check_database
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording
from presk_db.store.read import read_launch_order

CASES = [("gpt2", "f32", 1), ("gpt2", "bf16", 3), ("llama", "f64", 4)]


@pytest.mark.parametrize(("family", "type_", "count"), CASES)
def test_bytes(tmp_path: Path, cached_compiler: Callable[[str], str], family: str, type_: str, count: int) -> None:
    config = config_file(tmp_path, {"gpt2": GPT2, "llama": LLAMA}[family])
    dims = {"C": count, "B": 2}
    database = open_database(str(tmp_path / "presk.db"), create=True)
    recording = recorded(spec_from(config, {"entry": "decode", "type": type_, "dims": dims, "seed": 5}))
    row = write_recording(database, recording)
    assert read_launch_order(database, row.id) == recording.order
    assert not check_database(str(tmp_path / "presk.db"))
    for result in checked(database, row, [Build(cached_compiler("cc"), "-O1")], straight_line=(False, True)):
        assert result.bytes > 100


def test_a_step_that_draws(tmp_path: Path, cached_compiler: Callable[[str], str]) -> None:
    """`next_token` after the same tokens gives what the loop outside a step draws; its program gives the same bytes."""
    config = {**LLAMA, "initializer_range": 0.5}
    database = open_database(str(tmp_path / "presk.db"), create=True)
    rows = {}
    for entry in ("decode", "next_token"):
        spec = spec_from(config_file(tmp_path, config), {"entry": entry, "name": entry, "seed": 5})
        rows[entry] = write_recording(database, recorded(spec))
    for result in checked(database, rows["next_token"], [Build(cached_compiler("cc"), "-O1")], (False, True)):
        assert result.bytes > 100
    generator = Generator(database, rows["decode"])
    order = read_launch_order(database, rows["next_token"].id)
    named = {b.name: generator.weights[b.id] for b in generator.order.buffers if b.id in generator.weights}
    weights = {b.id: named[b.name] for b in order.buffers if b.role == "weight"}
    for how in (Sampling(0.0), Sampling(), Sampling(2.5, 4, 0.8, 0.01)):
        prompt = (3, 1)
        wanted = generator.generated(Request(None, prompt, 4, 9, how)).tokens
        session, tokens = Session(order, weights), list(prompt)
        numbers = {"temperature": how.temperature, "top_p": how.top_p, "min_p": how.min_p, "top_k": how.top_k}
        given = {n: np.array(v) for n, v in numbers.items()}
        for at in range(len(prompt) + 3):
            key = np.array(Key.from_seed(9).child(max(at + 1 - len(prompt), 0)).key, np.int64)
            session.run({"tokens": np.array([[tokens[at]]]), "pos": np.array(at), "key": key, **given})
            if at + 1 >= len(prompt):
                tokens.append(int(session.output("token")[0]))
        assert tuple(tokens[len(prompt) :]) == wanted
