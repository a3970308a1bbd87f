"""Plans: measured into the database, moved as JSON, used by recordings and emissions, and never a bit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pipeline import GPT2, Presk, config_file

from presk_db.conformance.plan import candidates
from presk_db.conformance.program import Build, built, ran
from presk_db.kernels.plan_file import parse_plan, plan_text, read_plan
from presk_db.kernels.plans import candidate_schedules, default_schedule, pieces_of
from presk_db.kernels.schedule import Schedule
from presk_db.store.engine import Engine, open_database
from presk_db.store.plans import measured_plan, read_plan_of
from presk_db.store.query import answer
from presk_db.store.read import read_kernels

Fails = Callable[..., str]
RECORD = ("record", "config.json", "--dim", "T=3", "--name", "tiny")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is filled once: config.json, presk.db with one measured recording, plan.json."""
    return tmp_path_factory.mktemp("plans")


@pytest.fixture
def work(measured: Path, presk: Presk, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(measured)
    if not (measured / "plan.json").exists():
        config_file(measured, {**GPT2, "n_layer": 1})
        assert presk(*RECORD).status == 0
        said = presk("plan", "tiny", "--seconds", "0", "--cflags", "-O1")
        assert said.status == 0, said.err
        assert said.out.splitlines()[-1].startswith("tiny: ")
        assert presk("plan", "tiny", "--export", "plan.json").status == 0
    return measured


def engine(work: Path, name: str = "presk.db") -> Engine:
    return open_database(str(work / name))


def test_every_candidate_has_a_row(work: Path) -> None:
    kernels = read_kernels(engine(work), 1)
    rows = answer(
        engine(work),
        "select kernel_id, packed, schedule, nanoseconds, runs, compiler, flags, cpu from measurements",
        None,
    ).rows
    packed = {row[0] for row in rows if row[1]}
    assert packed, "the weights of linear layers are packed at load"
    ids = dict(answer(engine(work), "select digest, id from kernels", None).rows)
    for kernel in kernels:
        found = {row[2] for row in rows if row[0] == ids[kernel.digest]}
        assert found == {s.text for s in candidates(kernel, ids[kernel.digest] in packed)}
    assert all(row[3] > 0 and row[4] >= 3 and row[5] and row[6] == "-O1" and row[7] for row in rows)


def test_the_plan_is_the_query_that_takes_the_best(work: Path) -> None:
    plan = measured_plan(engine(work), 1)
    least = dict(
        answer(
            engine(work),
            "select k.digest || m.packed, min(1.0 * nanoseconds / default_nanoseconds) from measurements m"
            " join kernels k on k.id = m.kernel_id group by 1",
            None,
        ).rows
    )
    assert {f"{p.kernel}{int(p.packed)}" for p in plan} == set(least)
    for p in plan:
        (m,) = p.measured
        assert m.nanoseconds / m.default_nanoseconds == least[f"{p.kernel}{int(p.packed)}"] <= 1


def test_export_and_import_are_a_round_trip(work: Path, tmp_path: Path, presk: Presk) -> None:
    plan = read_plan("plan.json")
    assert plan == tuple(sorted(measured_plan(engine(work), 1), key=lambda p: (p.kernel, p.schedule.text)))
    assert parse_plan(plan_text(plan), "again") == plan
    other = str(tmp_path / "other.db")
    assert presk(*RECORD, "--db", other).status == 0
    for _ in range(2):  # what is there is not added again
        assert presk("plan", "tiny", "--import", "plan.json", "--db", other).status == 0
    copy = str(tmp_path / "copy.json")
    assert presk("plan", "tiny", "--export", copy, "--db", other).status == 0
    assert Path(copy).read_bytes() == Path("plan.json").read_bytes()


def outputs(presk: Presk, folder: str, *emit: str, db: str = "presk.db", compiler: str) -> bytes:
    """Emits, builds and runs; the output file, which must be the native run's."""
    assert presk("emit", *emit, "-o", folder, "--db", db).status == 0
    out = Path(folder)
    program = built(out, Build(compiler, "-O1", openmp=False))
    ran(program, out / "weights.safetensors", out / "conformance/inputs.safetensors", out / "found")
    found = (out / "found").read_bytes()
    assert found == (out / "conformance/outputs.safetensors").read_bytes()
    return found


def test_a_plan_changes_the_program_and_no_bit(
    work: Path, presk: Presk, tmp_path: Path, cached_compiler: Callable[[str], str]
) -> None:
    cc, db = cached_compiler("gcc"), str(tmp_path / "planned.db")
    kernels = read_kernels(engine(work), 1)
    odd = {
        "format": "presk plan 1",
        "kernels": [{"kernel": k.digest, "schedule": candidate_schedules(k)[-2].text.splitlines()} for k in kernels],
    }
    Path("odd.json").write_text(json.dumps(odd))
    assert presk(*RECORD, "--plan", "odd.json", "--executor", "compiled", "--db", db).status == 0
    assert {p.schedule.text for p in read_plan_of(open_database(db), 1)} == {
        "".join(f"{line}\n" for line in e["schedule"]) for e in odd["kernels"]
    }
    plain = outputs(presk, "plain", "tiny", compiler=cc)
    assert outputs(presk, "measured", "tiny", "--plan", compiler=cc) == plain
    assert outputs(presk, "given", "tiny", db=db, compiler=cc) == plain
    texts = [Path(f, "kernels.c").read_text() for f in ("plain", "measured", "given")]
    assert len(set(texts)) == 3
    digests = [answer(open_database(d), "select digest from recordings", None).rows for d in ("presk.db", db)]
    assert digests[0] != digests[1], "an emission depends on the plan that a recording was given"


def test_no_plan_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, presk: Presk, fails: Fails) -> None:
    monkeypatch.chdir(tmp_path)
    config_file(tmp_path, GPT2)
    assert presk(*RECORD).status == 0
    assert "presk plan tiny" in fails("E3006", "emit", "tiny", "--plan", "-o", "out")
    assert not Path("out").exists()
    fails("E3006", "plan", "tiny", "--export", "x.json")
    fails("E1000", "plan", "tiny", "--export", "x", "--import", "y")
    fails("E7001", "plan", "tiny", "--cc", "no-such-compiler")
    fails("E7001", "plan", "tiny", "--cflags", "-fno-such-flag")


KERNEL = "0" * 64
ENTRY: dict[str, Any] = {"kernel": KERNEL, "schedule": []}
MEASURED = {"nanoseconds": 1, "default_nanoseconds": 1, "runs": 1, "compiler": "c", "flags": "", "cpu": "p"}

BAD: list[tuple[Any, str]] = [
    ("{", "bad.json: this is no JSON"),
    ("[" * 100000, "bad.json: "),
    ("\ud800".encode("utf-8", "surrogatepass"), "bad.json: cannot read"),
    ([], "bad.json: must be an object"),
    ({"format": "presk plan 2", "kernels": []}, "bad.json format: the format is not"),
    ({"format": "presk plan 1"}, "bad.json: kernels is missing"),
    ({"format": "presk plan 1", "kernels": {}}, "bad.json kernels: must be a list"),
    ({"format": "presk plan 1", "kernels": [], "x": 1}, "bad.json: unknown key 'x'"),
    ([5], "kernels[0]: must be an object"),
    ([{**ENTRY, "kernel": "abc"}], "kernels[0].kernel: a kernel is named by"),
    ([{**ENTRY, "schedule": ["warp i0"]}], "kernels[0].schedule line 1: 'warp i0' is no line"),
    ([{**ENTRY, "schedule": [3]}], "kernels[0].schedule: a schedule is a list of lines"),
    ([{**ENTRY, "schedule": [""]}], "kernels[0].schedule: a schedule is a list of lines"),
    ([ENTRY, ENTRY], "kernels[1]: this kernel has a schedule already"),
    ([ENTRY], "kernels[0].kernel: there is no kernel 0000000000000000 here"),
    ([{**ENTRY, "measured": [{**MEASURED, "nanoseconds": 0}]}], "measured[0].nanoseconds: must be a positive"),
    ([{**ENTRY, "measured": [{**MEASURED, "runs": True}]}], "measured[0].runs: must be an integer"),
    ([{**ENTRY, "measured": [{}]}], "measured[0]: nanoseconds is missing"),
]


@pytest.mark.parametrize(("content", "said"), BAD)
def test_a_bad_plan_is_one_line(work: Path, fails: Fails, tmp_path: Path, content: Any, said: str) -> None:
    path = tmp_path / "bad.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content)
    else:
        whole = {"format": "presk plan 1", "kernels": content} if isinstance(content, list) and content else content
        path.write_text(json.dumps(whole))
    before = answer(engine(work), "select count(*) from measurements", None).rows
    for command in (("record", "config.json", "--plan", str(path)), ("plan", "tiny", "--import", str(path))):
        assert said in fails("E3005", *command)
    assert answer(engine(work), "select count(*) from measurements", None).rows == before
    assert len(answer(engine(work), "select id from recordings", None).rows) == 1


def test_a_plan_that_does_not_fit(work: Path, fails: Fails, tmp_path: Path) -> None:
    kernel = next(k for k in read_kernels(engine(work), 1) if default_schedule(k).product is None)
    lines = ["product rows=4 panels=1 block=4 depth=0 group=1 right=inside"]
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"format": "presk plan 1", "kernels": [{"kernel": kernel.digest, "schedule": lines}]}))
    assert "kernels[0].schedule: the kernel is no nest of products" in fails("E3005", *RECORD, "--plan", path)
    path.write_text(json.dumps({"format": "presk plan 1", "kernels": [{"kernel": kernel.digest, "schedule": []}]}))
    assert "kernels[0]: measured is missing" in fails("E3005", "plan", "tiny", "--import", str(path))
    assert "cannot read" in fails("E3005", "record", "config.json", "--plan", "nowhere.json")
    assert "cannot be written" in fails("E1108", "plan", "tiny", "--export", "no/such/folder/p.json")


def test_measured_pieces(work: Path) -> None:
    for kernel in read_kernels(engine(work), 1):
        default, *others = candidates(kernel, False)
        assert default == default_schedule(kernel)
        assert all(pieces_of(kernel, s) >= min(8, pieces_of(kernel, default)) for s in others)
    assert Schedule() in {s for k in read_kernels(engine(work), 1) for s in candidates(k, False)}
