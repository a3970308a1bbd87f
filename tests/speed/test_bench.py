"""Benchmarks: rows for every launch, the views over them, and rivals that take turns."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pipeline import GPT2, Presk, config_file

from presk_db.store.engine import Engine, open_database
from presk_db.store.query import answer

Fails = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for config.json and presk.db, filled once."""
    return tmp_path_factory.mktemp("bench")


RIVAL = """#!/bin/sh
# Stands for a Python with torch: two variants, one of them twice as slow.
cat "$2/job.json" >"$HOME/job.json"
echo '{"torch fast": 0.001, "torch slow": null}'
while read -r runs name; do
    case $name in
        "torch fast") echo "[0.5, 0.25, 1.0]" ;;
        *) echo "[2.0]" ;;
    esac
done
"""


def script(folder: Path, text: str) -> str:
    path = folder / "python"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def work(folder: Path, presk: Presk, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    if not (folder / "presk.db").exists():
        config_file(folder, {**GPT2, "n_layer": 1})
        assert presk("record", "config.json", "--dim", "T=3", "--name", "tiny").status == 0
        rival = script(folder, RIVAL)
        said = presk(
            *("bench", "tiny", "--cflags", "-O1", "--threads", 1, "--threads", 2),
            *("--rounds", 2, "--runs", 2, "--torch", rival),
        )
        assert said.status == 0, said.err
        assert said.out.splitlines()[2].split()[:3] == ["1", "torch", "fast"]
    return folder


def engine(work: Path) -> Engine:
    return open_database(str(work / "presk.db"))


def test_every_launch_has_a_time(work: Path) -> None:
    launches = answer(engine(work), "select operation from launches order by 1", None).rows
    for benchmark, threads in ((1, 1), (2, 2)):
        query = f"select operation from benchmark_launches where benchmark_id = {benchmark} order by 1"
        assert answer(engine(work), query, None).rows == launches
        query = f"select threads, runs, flags, compiler, cpu from benchmarks where id = {benchmark}"
        ((found, runs, flags, compiler, cpu),) = answer(engine(work), query, None).rows
        assert (found, runs, flags) == (threads, 4, "-O1")
        assert compiler and cpu


def test_the_run_holds_its_launches(work: Path) -> None:
    query = (
        "select nanoseconds, kernel_nanoseconds, host_nanoseconds, kernel_share, share_of_peak, arithmetic,"
        " peak_operations_per_second, peak_bytes_per_second from benchmark_list order by benchmark"
    )
    rows = answer(engine(work), query, None).rows
    assert len(rows) == 2
    for whole, kernels, host, share, of_peak, arithmetic, peak, read in rows:
        assert kernels + host == whole > 0
        assert share == kernels / whole
        assert peak > 1e8 and read > 1e8, "the machine multiplies and reads"
        assert of_peak == pytest.approx(1e9 * arithmetic / whole / peak)


def test_the_rivals_medians_and_the_best_of_them(work: Path) -> None:
    query = "select name, nanoseconds from benchmark_rivals where benchmark_id = 1 order by name"
    assert answer(engine(work), query, None).rows == (("torch fast", 500_000_000), ("torch slow", 2_000_000_000))
    query = "select best_rival, ratio * rival_nanoseconds / nanoseconds from benchmark_list"
    for name, one in answer(engine(work), query, None).rows:
        assert name == "torch fast"
        assert one == pytest.approx(1)


def test_the_rival_gets_the_job(work: Path) -> None:
    job = json.loads((work / "job.json").read_text())
    assert (job["family"], job["entry"], job["config"]["n_layer"]) == ("gpt2", "forward", 1)
    assert job["weights"].endswith("weights.safetensors")


def test_the_roofline_is_the_nearer_limit(work: Path) -> None:
    query = (
        "select r.operation, r.arithmetic, r.bytes, r.nanoseconds, r.share_of_roofline, r.bound,"
        " b.peak_operations_per_second as peak, b.peak_bytes_per_second as read from roofline r"
        " join benchmarks b on b.id = r.benchmark order by 1"
    )
    rows = answer(engine(work), query, None).rows
    assert len(rows) == 2 * len(answer(engine(work), "select 1 from launches", None).rows)
    for _, arithmetic, size, taken, share, bound, peak, read in rows:
        least = {"arithmetic": arithmetic / peak, "memory": size / read}
        assert bound == max(least, key=lambda name: least[name])
        assert share == pytest.approx(1e9 * max(least.values()) / taken)


def test_the_named_queries(work: Path, presk: Presk) -> None:
    said = presk("query", "roofline", "tiny", "--json")
    rows = json.loads(said.out)
    assert {row["threads"] for row in rows} == {1, 2}
    launches = answer(engine(work), "select 1 from launches", None).rows
    assert sum(row["launches"] for row in rows) == 2 * len(launches)
    assert [r["threads"] for r in json.loads(presk("query", "benchmarks", "tiny", "--json").out)] == [1, 2]


def test_the_rival_of_a_loss_gets_it(work: Path, presk: Presk) -> None:
    db = ("--db", str(work / "loss.db"))
    spec = ("--entry", "loss", "--dim", "B=1", "--dim", "T=3", "--name", "loss")
    assert presk("record", "config.json", *spec, *db).status == 0
    rival = str(work / "python")
    said = presk(
        *("bench", "loss", "--cflags", "-O0", "--threads", 1, "--rounds", 1, "--runs", 1, "--torch", rival, *db)
    )
    assert said.status == 0, said.err
    assert [line.split()[:3] for line in said.out.splitlines()[2:]] == [["1", "torch", "fast"], ["1", "torch", "slow"]]
    job = json.loads((work / "job.json").read_text())
    assert job["entry"] == "loss"
    assert job["inputs"].endswith("inputs.safetensors")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo 'No module named torch' >&2; exit 1", "E7002 torch: No module named torch"),
        ("echo '{\"torch x\": 0.5}'; cat", "torch x computes something else"),
        (None, "cannot run it"),
    ],
)
def test_a_rival_that_fails_is_an_error(work: Path, tmp_path: Path, presk: Presk, text: str | None, said: str) -> None:
    before = answer(engine(work), "select count(*) from benchmarks", None).rows
    rival = str(tmp_path / "none") if text is None else script(tmp_path, f"#!/bin/sh\n{text}\n")
    found = presk("bench", "tiny", "--cflags", "-O0", "--rounds", 1, "--runs", 1, "--torch", rival)
    assert (found.status, found.out) == (1, "")
    assert said in found.err.splitlines()[-1]  # above it progress, where a second has passed
    assert answer(engine(work), "select count(*) from benchmarks", None).rows == before


def test_bench_needs_a_compiler(work: Path, fails: Fails) -> None:
    fails("E7001", "bench", "tiny", "--no-torch", "--cc", "no-such-compiler")
    fails("E3006", "bench", "tiny", "--no-torch", "--plan")
    fails("E1000", "bench", "tiny", "--threads", 0)
