"""Specs: keys, flags, paths, and every way in which one can be wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest

from presk_db.errors import PreskError, RealizationUnreadable, SpecKeyUnknown, SpecUnreadable, SpecValueBad, TypeUnknown
from presk_db.specs.record import default_name
from presk_db.specs.spec import seed_of, spec_from

Write = Callable[[str], str]


@pytest.fixture
def toml(tmp_path: Path) -> Write:
    def write(text: str) -> str:
        path = tmp_path / "spec.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_every_key(toml: Write, tmp_path: Path) -> None:
    text = (
        'model="m.json"\nentry="loss"\ndims={B=2,T=3}\ntype="f64"\nweights="w.safetensors"\ninputs="seed:4"\nseed=5\n'
    )
    spec = spec_from(toml(text + 'name="n"\n'), {})
    assert spec.model == str(tmp_path / "m.json")
    assert spec.weights == str(tmp_path / "w.safetensors")
    assert (spec.entry, dict(spec.dims), spec.realization.default) == ("loss", {"B": 2, "T": 3}, "f64")
    assert (spec.inputs, spec.seed, spec.name) == ("seed:4", 5, "n")


def test_defaults() -> None:
    spec = spec_from("config.json", {})
    assert (spec.model, spec.entry, dict(spec.dims), spec.seed) == ("config.json", "forward", {}, 1)
    assert (spec.weights, spec.inputs, spec.name, spec.realization.default) == (None, None, None, "f32")
    assert default_name("gpt2", spec) == "gpt2-forward-f32"


def test_flags_win(toml: Write, tmp_path: Path) -> None:
    path = toml('model="m.json"\ndims={B=2,T=3}\ntype="f64"\nweights="w"\nseed=5\nname="n"\n')
    flags = {"model": "other.json", "dims": {"T": 9}, "type": "bf16", "weights": "mine", "seed": 6, "name": "o"}
    spec = spec_from(path, flags)
    assert (spec.model, spec.weights) == ("other.json", "mine"), "a flag's path is relative to the working folder"
    assert (dict(spec.dims), spec.realization.default, spec.seed, spec.name) == ({"B": 2, "T": 9}, "bf16", 6, "o")


def test_a_type_replaces_a_realization_and_the_other_way(toml: Write, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text('type = "bf16"\n[sites]\n"*/mul" = "f32"\n')
    assert spec_from(toml('model="m"\nrealization="r.toml"\n'), {"type": "f64"}).realization.rules == ()
    mixed = spec_from(toml('model="m"\ntype="f64"\n'), {"realization": str(tmp_path / "r.toml")})
    assert mixed.realization.as_dict() == {"type": "bf16", "sites": {"*/mul": "f32"}}
    assert default_name("gpt2", mixed) == "gpt2-forward-mixed"


def test_absolute_paths_stay(toml: Write) -> None:
    assert spec_from(toml('model="/m.json"\n'), {}).model == "/m.json"


@pytest.mark.parametrize(
    ("target", "entry", "expected"),
    [
        ("a.py:loss", None, ("a.py", "loss")),
        ("a.py:loss", "loss", ("a.py", "loss")),
        ("a.py", "loss", ("a.py", "loss")),
        ("a.py", None, ("a.py", "forward")),
        ("odd:name", None, ("odd:name", "forward")),
    ],
)
def test_a_python_models_entry(target: str, entry: str | None, expected: tuple[str, str]) -> None:
    spec = spec_from(target, {"entry": entry})
    assert (spec.model, spec.entry) == expected


def test_two_entries() -> None:
    with pytest.raises(SpecValueBad, match="E1003 command line entry: the model names the entry loss, the spec step"):
        spec_from("a.py:loss", {"entry": "step"})


def test_seeds() -> None:
    assert seed_of("seed:0", "weights") == 0
    assert seed_of(f"seed:{2**63 - 1}", "weights") == 2**63 - 1
    assert seed_of("model.safetensors", "weights") is None
    for text in ("seed:", "seed:-1", "seed:1.5", "seed:x", f"seed:{2**63}", "seed:" + "9" * 5000, "seed:\u0663"):
        with pytest.raises(SpecValueBad, match="E1003 weights"):
            seed_of(text, "weights")


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("model = ", SpecUnreadable, "cannot read the spec"),
        ('model = "a"\nmodel = "b"\n', SpecUnreadable, "cannot read the spec"),
        (f"seed = {'9' * 5000}\n", SpecUnreadable, "cannot read the spec"),
        (f"model = {'[' * 5000}\n", SpecUnreadable, "cannot read the spec"),
        ('model = "m"\ncolour = "red"\n', SpecKeyUnknown, "unknown key colour"),
        ("", SpecValueBad, "model is missing"),
        ("model = 3\n", SpecValueBad, "model: must be a text"),
        ('model = ""\n', SpecValueBad, "model: must be a text"),
        ('model = "a\\u0000b"\n', SpecValueBad, "model: has a character"),
        ('model = "m"\nname = "a\\nb"\n', SpecValueBad, "name: has a character"),
        (f'model = "m"\nname = "{"n" * 201}"\n', SpecValueBad, "name: has 201 characters"),
        ('model = "m"\nseed = -1\n', SpecValueBad, "seed: must be an integer"),
        ('model = "m"\nseed = true\n', SpecValueBad, "seed: must be an integer"),
        (f'model = "m"\nseed = {2**63}\n', SpecValueBad, "seed: must be an integer"),
        ('model = "m"\ndims = 3\n', SpecValueBad, "dims: must be a table"),
        ('model = "m"\ndims = {T = "x"}\n', SpecValueBad, "dims.T: must be an integer"),
        ('model = "m"\ndims = {T = -1}\n', SpecValueBad, "dims.T: must be an integer"),
        ('model = "m"\nweights = "seed:x"\ntype = "f32"\nrealization = "r"\n', SpecValueBad, "not both"),
        ('model = "m"\ntype = "f16"\n', TypeUnknown, "'f16' is no type"),
        ('model = "m"\nrealization = "none.toml"\n', RealizationUnreadable, "cannot read it"),
    ],
)
def test_bad_specs(toml: Write, text: str, error: type[PreskError], said: str) -> None:
    path = toml(text)
    with pytest.raises(error) as raised:
        spec_from(path, {})
    assert said in str(raised.value)
    assert "spec.toml" in str(raised.value) or raised.value.place in ("type", str(Path(path).parent / "none.toml"))


def test_a_spec_that_is_not_there() -> None:
    with pytest.raises(SpecUnreadable, match=r"E1001 nowhere\.toml: cannot read the spec: No such file"):
        spec_from("nowhere.toml", {})


def test_the_place_of_a_flag() -> None:
    with pytest.raises(SpecValueBad, match="E1003 command line seed"):
        spec_from("m.json", {"seed": -1})
