"""Small gradients against the exact reals: a loss within an ulp, gradients within a few roundings of their largest element.

An element that is small because large terms cancel has no small error of its own (a key's bias has the gradient 0), so
each tensor is measured by its largest element. The largest errors found were 0.6 ulp and 7.6 units.
"""

from pathlib import Path

import numpy as np
import pytest

from presk_db.conformance.exact import exact_report
from presk_db.conformance.exact_error import native_values
from presk_db.specs.record import recorded
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording
from presk_db.store.tensors import read_tensors
from tests.training.training_cases import spec_of

ROUNDOFF = {"f64": 2.0**-53, "f32": 2.0**-24}


@pytest.mark.parametrize("type_", ROUNDOFF)
@pytest.mark.parametrize("config", ["gpt2", "llama"])
def test_a_gradient_is_within_sixteen_roundings(tmp_path: Path, config: str, type_: str) -> None:
    database = open_database(str(tmp_path / "presk.db"), create=True)
    recording = write_recording(database, recorded(spec_of(tmp_path, config, "loss_grad", type=type_)))
    native = {t.name: t for t in read_tensors(database, recording.id, "output")}
    key_bias = slice(12, 24)  # of queries, keys and values side by side: softmax does not depend on it
    outputs = exact_report(database, recording).outputs
    assert {o.name for o in outputs} == set(native) and len(outputs) > 10
    for output in outputs:
        data = native[output.name].data
        assert data is not None and output.error.radius_ulp < 1.0
        if output.name == "loss":
            assert output.error.max_ulp < 1.0
        error = np.abs(native_values(data, output.type) - output.rounded)
        size = np.abs(output.rounded).max()
        assert size > 0.0
        assert error.max() <= 16.0 * ROUNDOFF[type_] * size, (output.name, error.max() / size / ROUNDOFF[type_])
        if output.name == "grad.h.attn.qkv.b":
            assert np.abs(output.rounded[:, key_bias]).max() < 1e-30 * size
