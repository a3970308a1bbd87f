"""`make check-decoding` on a small model: equal logits, and weights that differ in one bit are found."""

from pathlib import Path

from pipeline import LLAMA, config_file

from tests.decoding.check_decoding import Library, differing_positions, drawn_prompts, library


def test_the_step_against_the_forward_pass(tmp_path: Path) -> None:
    config, flags = str(config_file(tmp_path, LLAMA)), {"dims": {"T": 6}, "seed": 4}
    forward, step = (library(tmp_path, config, None, "-O0", entry=e, **flags) for e in ("forward", "decode"))
    prompts = drawn_prompts(11, 3, 6)
    assert not differing_positions(forward, step, prompts, 2)
    weights = bytearray((tmp_path / "decode" / "weights.safetensors").read_bytes())
    weights[-2] ^= 1
    other = tmp_path / "other.safetensors"
    other.write_bytes(weights)
    altered = Library(tmp_path / "decode", other, "-O0")
    assert differing_positions(forward, altered, prompts, 1)
    for used in (forward, step, altered):
        used.close()
