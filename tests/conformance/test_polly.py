"""Polly's verdict on nests beside presk's: they agree; a nest made non-affine behind presk's back is seen."""

import json
from pathlib import Path

import pytest
from pipeline import GPT2, config_file, stored, training_step
from sqlalchemy import Engine

from presk_db.conformance import scop_matrix
from presk_db.conformance.polly import nests_of, polly_verdicts
from presk_db.conformance.scop import scop_checked, summary_line
from presk_db.emit.render import rendered
from presk_db.errors import BuildFailed, ScopsDisagree
from presk_db.kernels.c_nest import c_nest, nest_prototype
from presk_db.kernels.parser import parse
from presk_db.resources import resource_folder
from presk_db.store.engine import reading
from presk_db.store.recordings import find_recording
from tests.kernels.schedule_kernels import NESTS
from tests.tools import needs

pytestmark = pytest.mark.usefixtures("clang")

ONE_TOKEN = """in a0: i64[1] < 8
in a1: f32[8,4]
out a2: f32[1,4]
par i0 < 1
  v0 = load a0[i0]
  par i1 < 4
    v1 = load a1[v0,i1]
    store a2[i0,i1] v1
  end
end
"""


@pytest.fixture(scope="module")
def clang() -> None:
    needs("clang-19")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return training_step(tmp_path_factory.mktemp("polly"))


def test_they_agree_on_every_nest_of_a_training_step(engine: Engine) -> None:
    found = scop_checked(engine, find_recording(engine, "latest"))
    assert [(j.presk is None) == (j.polly is None) for j in found] == [True] * len(found)
    refused = [j.nest for j in found if j.polly is not None]
    assert len(refused) == 2
    assert (
        summary_line(found) == f"{len(found)} nests: presk and Polly agree on each; {len(found) - 2} are static control"
    )
    with reading(engine) as connection:
        query = "select tool, count(*), sum(static_control), count(reason) from nest_matrix group by tool order by tool"
        rows = [tuple(row) for row in connection.exec_driver_sql(query)]
    assert rows == [(tool, len(found), len(found) - 2, 2) for tool in ("polly", "presk")]


def nests(folder: Path, **texts: str) -> None:
    """Writes kernels as nests.c."""
    (folder / "scop.h").write_text(rendered(resource_folder("generators") / "scop", "scop.h.mako", {}))
    lines = ['#include "scop.h"']
    for name, text in texts.items():
        lines += [*nest_prototype(parse(text), name), *c_nest(parse(text), name)]
    (folder / "nests.c").write_text("\n".join(lines) + "\n")


def test_nests_of_every_kind(tmp_path: Path) -> None:
    names = {name: f"k{number}" for number, name in enumerate(NESTS)}
    nests(tmp_path, **{names[n]: k.text for n, k in NESTS.items()}, one_token=ONE_TOKEN)
    found = polly_verdicts(tmp_path)
    assert list(found) == [*names.values(), "one_token"]
    assert [name for name, refusal in found.items() if refusal is not None] == [names["gather"]]
    assert "not affine" in str(found[names["gather"]])


def test_a_disagreement_is_an_error(empty: Engine, tmp_path: Path) -> None:
    recording = stored(empty, config_file(tmp_path, GPT2), dims={"T": 3})

    def tamper(folder: Path) -> None:
        """Reads a product's column through what another array holds."""
        text = (folder / "nests.c").read_text()
        assert "a1[i2][i1]" in text
        (folder / "nests.c").write_text(text.replace("a1[i2][i1]", "a1[i2][(int)a0[i0][i1] & 1]"))

    with pytest.raises(ScopsDisagree, match=r"E7022 k_\w+ [0-9a-f]{16}: presk says: static control; Polly says: "):
        scop_checked(empty, recording, tamper=tamper)


def test_a_region_that_ends_where_the_next_loop_begins_does_not_hold_it(tmp_path: Path) -> None:
    text = (
        "in a0: f32[8]\nin a1: i64[8] < 8\nout a2: f32[8]\nout a3: f32[8]\npar i0 < 8\nv0 = load a0[i0]\nstore a2[i0] v0\nend\n"
        "par i1 < 8\nv1 = load a1[i1]\nv2 = load a0[v1]\nstore a3[i1] v2\nend\n"
    )
    nests(tmp_path, two=text)
    (nest,) = nests_of((tmp_path / "nests.c").read_text())
    assert len(nest.loops) == 2
    assert polly_verdicts(tmp_path)["two"] is not None


def test_a_compiler_without_polly(tmp_path: Path) -> None:
    nests(tmp_path, one_token=ONE_TOKEN)
    with pytest.raises(BuildFailed, match=r"E7001 no-such-clang: cannot run it.*clang-19 has Polly"):
        polly_verdicts(tmp_path, "no-such-clang")
    with pytest.raises(BuildFailed, match=r"E7001 gcc: .*clang-19 has Polly"):
        polly_verdicts(tmp_path, "gcc")


def test_the_page_has_a_row_a_nest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    small = json.loads(Path(config_file(tmp_path, GPT2)).read_text())
    monkeypatch.setattr(
        scop_matrix,
        "programs",
        lambda folder: iter([("small", lambda: scop_matrix.unrun(small, {"B": 1, "T": 4}, "f32", "small"))]),
    )
    lines = scop_matrix.matrix_text(tmp_path).splitlines()
    assert lines[0] == "### small"
    total = int(lines[2].split()[0])
    assert lines[2] == f"{total} nests: presk and Polly agree on each; {total - 1} are static control."
    rows = lines[6:]
    assert len(rows) == total
    assert sum(row.endswith("| static control | static control |") for row in rows) == total - 1
