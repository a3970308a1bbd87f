"""Reading back: orders, kernels from their statements, tensors, selection, views."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, text
from synthetic import Builder, recording, transformer

from presk_db.errors import DatabaseDamaged, RecordingUnknown
from presk_db.kernels.ir import Kernel
from presk_db.kernels.launches import LaunchOrder
from presk_db.kernels.parser import parse
from presk_db.recording.events import ObservedTensor
from presk_db.store.engine import open_database, reading, writing
from presk_db.store.ingest import write_recording
from presk_db.store.kernel_rows import access_rows, kernel_from_rows, loop_rows, parameter_rows, statement_rows
from presk_db.store.read import read_kernels, read_launch_order
from presk_db.store.recordings import find_recording, list_recordings, read_graph, stored_recording, summary
from presk_db.store.tensors import read_tensor, read_tensors, replace_exact_output

EVERYTHING = """\
in a0: f32[6,8]
in a1: i64[6] < 8
in a2: bf16[8]
out a3: f64[6]
out a4: f32[6,8]
scalar s0: f64
extent n0 <= 8
v0 = scalar s0
par i0 < 6
  local l0: f32[8]
  v1 = load a1[i0]
  v2 = load a2[v1]
  v3 = index 2*i0+1
  v4 = acc.f32 lanes
  v5 = const.f32 -0x1.8000000000000p+1
  v6 = cvt.f64 v3
  seq i1 < i0+1
    v7 = load a0[i0,i1]
    v8 = mul.f32 v7 v5
    fold v4 v8
    store l0[i1] v8
  end
  seq i2 < n0
    v9 = load l0[i2]
    v10 = acc.f32 max
    seq i3 < 4
      fold v10 v9
    end
    store a4[i0,i2] v10
  end
  v11 = cvt.f64 v4
  v12 = fma.f64 v0 v6 v11
  store a3[i0] v12
end
"""


def rebuilt(kernel: Kernel) -> Kernel:
    return kernel_from_rows(list(parameter_rows(kernel)), list(statement_rows(kernel)))


def test_every_statement_is_rebuilt_from_its_columns() -> None:
    kernel = parse(EVERYTHING)
    again = rebuilt(kernel)
    assert again == kernel and again.text == EVERYTHING
    empty = Kernel((), ())
    assert rebuilt(empty) == empty


def test_loops_accesses_and_counts_of_a_kernel() -> None:
    kernel = parse(EVERYTHING)
    loops = {row["var"]: row for row in loop_rows(kernel)}
    assert [(r["extent"], r["extent_value"]) for r in loops.values()] == [
        ("6", 6),
        ("i0+1", None),
        ("n0", None),
        ("4", 4),
    ]
    assert loops["i3"]["parent"] == loops["i2"]["statement"] and loops["i0"]["parent"] is None
    accesses = [(r["array"], r["mode"], r["index_text"], r["is_affine"]) for r in access_rows(kernel)]
    assert accesses[:4] == [
        ("a1", "read", "i0", 1),
        ("a2", "read", "v1", 0),
        ("a0", "read", "i0,i1", 1),
        ("l0", "write", "i1", 1),
    ]
    counts = {row["text"]: row["executions"] for row in statement_rows(kernel)}
    assert counts["v0 = scalar s0"] == 1 and counts["local l0: f32[8]"] == 6
    assert counts["fold v4 v8"] == 21 and counts["fold v10 v9"] is None


@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_counts_are_those_of_running_the_loops(extents: list[int], uses: list[int]) -> None:
    lines, names = ["v = const.f32 0x0.0p+0"], list[str]()
    for place, (extent, use) in enumerate(zip(extents, uses, strict=False)):
        names.append(f"i{place}")
        lines.append(f"seq i{place} < " + (f"i{use}+{extent}" if use < place and extent else str(extent)))
    lines += ["w = abs.f32 v"] + ["end"] * len(extents)

    def run(place: int, values: dict[str, int]) -> int:
        if place == len(names):
            return 1
        use, extent = uses[place], extents[place]
        n = extent + (values[f"i{use}"] if use < place and extent else 0)
        return sum(run(place + 1, values | {names[place]: i}) for i in range(n))

    counts = {row["text"]: row["executions"] for row in statement_rows(parse("\n".join(lines)))}
    assert counts["w = abs.f32 v"] == run(0, {})


@pytest.mark.parametrize(
    "order", [transformer(), transformer(odd=2), Builder("empty").order()], ids=["gpt", "odd", "empty"]
)
def test_an_order_comes_back(engine: Engine, order: LaunchOrder) -> None:
    write_recording(engine, recording(transformer(layers=1), "before"))
    stored = write_recording(engine, recording(order))
    assert read_launch_order(engine, stored.id) == order
    assert read_kernels(engine, stored.id) == order.kernels()


def test_a_damaged_kernel_is_not_read(stored: Engine) -> None:
    with writing(stored) as connection:
        connection.exec_driver_sql("update kernel_statements set expression = '0' where kind = 'loop' and number = 4")
    with pytest.raises(DatabaseDamaged, match="E5005 kernel"):
        read_kernels(stored, 1)


def test_tensors_come_back(engine: Engine) -> None:
    b = Builder("f")
    data = {
        "f64": np.array([0.1, -0.0, np.inf]),
        "f32": np.arange(400_000, dtype=np.float32),  # 1.6 MB: two chunks
        "bf16": np.array([[0x3F80, 0x7FC0]], dtype=np.uint16),
        "i64": np.array(-(2**63), dtype=np.int64),
        "bool": np.zeros((2, 0), dtype=np.uint8),
    }
    tensors = []
    for type_, values in data.items():
        view = b.buffer("input", type_, *values.shape, type_=type_)
        digest = hashlib.sha256(values.tobytes()).hexdigest()
        tensors.append(ObservedTensor("input", view.buffer, type_, type_, values.shape, digest, values))
    write_recording(engine, recording(b.order(), tensors=tuple(tensors)))
    for tensor in tensors:
        again = read_tensor(engine, 1, "input", tensor.buffer)
        assert again.data is not None and tensor.data is not None
        assert again.data.tobytes() == tensor.data.tobytes() and again.data.dtype == tensor.data.dtype
        assert replace(again, data=None) == replace(tensor, data=None)
    with reading(engine) as connection:
        assert connection.exec_driver_sql("select max(length(data)) from tensor_chunks").scalar() == 1 << 20


def test_tensors_by_role(stored: Engine) -> None:
    given_tensors = recording(transformer()).tensors
    found = read_tensors(stored, 1)
    assert [(t.role, t.name, t.digest) for t in found] == [(t.role, t.name, t.digest) for t in given_tensors]
    assert all(t.data is None for t in read_tensors(stored, 1, "weight"))
    (output,) = read_tensors(stored, 1, "output")
    digest = hashlib.sha256(np.zeros(output.shape).tobytes()).hexdigest()
    exact = ObservedTensor("output", output.buffer, output.name, "f64", output.shape, digest, np.zeros(output.shape))
    with writing(stored) as connection:
        for _ in range(2):  # a second one replaces the first
            replace_exact_output(connection, 1, exact)
    again = read_tensor(stored, 1, "exact_output", output.buffer)
    assert again.type == "f64" and again.digest == digest
    assert read_tensor(stored, 1, "output", output.buffer).digest == output.digest
    assert len(read_tensors(stored, 1)) == len(found)
    with pytest.raises(RecordingUnknown, match="E5003"):
        read_tensor(stored, 1, "input", output.buffer)


def test_damaged_contents_are_not_read(stored: Engine) -> None:
    with writing(stored) as connection:
        connection.exec_driver_sql("update tensor_chunks set data = zeroblob(length(data))")
    with pytest.raises(DatabaseDamaged, match="E5005"):
        read_tensors(stored, 1, "input")


def test_selection(engine: Engine) -> None:
    with pytest.raises(RecordingUnknown, match="E5003 latest: the database holds no recording yet; 'presk record'"):
        find_recording(engine, "latest")
    first = write_recording(engine, recording(transformer(), "a"))
    second = write_recording(engine, recording(transformer(odd=1), "b"))
    third = write_recording(engine, recording(transformer(), "b"))
    assert find_recording(engine, "latest") == third
    assert find_recording(engine, "a") == first and find_recording(engine, "b") == third
    assert find_recording(engine, second.digest[:8]) == second
    assert find_recording(engine, first.digest) == third  # equal recordings: the newest
    assert list_recordings(engine) == (first, second, third)
    assert third.weights_seed == 2**64 - 1 and read_graph(engine, 3) == "graph text\n"
    with pytest.raises(RecordingUnknown, match=r"E5003 zzz: .*there are b, a; 'presk list'"):
        find_recording(engine, "zzz")
    with pytest.raises(RecordingUnknown, match="E5003"):
        find_recording(engine, second.digest[:3])
    with writing(engine) as connection:
        connection.execute(text("update recordings set digest = 'abcd' || substr(digest, 5)"))
    with pytest.raises(RecordingUnknown, match=r"E5003 abcd: 2 recordings .*more digits"):
        find_recording(engine, "abcd")


def test_a_recording_that_is_not_there(stored: Engine) -> None:
    for read in (read_kernels, read_launch_order, summary, read_graph):
        with pytest.raises(RecordingUnknown, match="E5003 recording 7"):
            read(stored, 7)  # type: ignore[operator]
    with reading(stored) as connection, pytest.raises(RecordingUnknown, match="E5003"):
        stored_recording(connection, 7)


def test_the_summary(stored: Engine) -> None:
    found = summary(stored, 1)
    order = transformer()
    assert (found.functions, found.calls, found.launches, found.operations) == (7, 26, 38, 38)
    assert found.kernels == len(order.kernels()) and found.nanoseconds == 1000
    assert found.temp_bytes == sum(b.bytes for b in order.buffers if b.role == "temp")
    assert found.weight_bytes == sum(b.bytes for b in order.buffers if b.role == "weight")


def test_views_against_python(stored: Engine) -> None:
    order = transformer()
    with reading(stored) as connection:

        def rows(query: str) -> list[tuple[object, ...]]:
            return [tuple(row) for row in connection.exec_driver_sql(query)]

        uses = [
            [
                (n, a.mode)
                for n, x in enumerate(order.launches)
                for a, v in zip(x.kernel.arrays, x.arguments, strict=True)
                if v.buffer == b.id
            ]
            for b in order.buffers
        ]
        lifetimes = rows(
            "select first_definition, last_read, first_use, last_use from buffer_lifetimes order by buffer"
        )
        for use, (defined, read, first, last) in zip(uses, lifetimes, strict=True):
            assert defined == min((n for n, mode in use if mode == "out"), default=None)
            assert read == max((n for n, mode in use if mode == "in"), default=None)
            assert (first, last) == (min(n for n, _ in use), max(n for n, _ in use))
        live = [
            sum(
                b.bytes
                for b, use in zip(order.buffers, uses, strict=True)
                if b.role == "temp" and use[0][0] <= n <= use[-1][0]
            )
            for n in range(len(order.launches))
        ]
        assert rows("select live_bytes from arena_timeline order by operation") == [(n,) for n in live]
        launches = rows("select function, bytes_read, bytes_written, nanoseconds from launch_list order by operation")
        for n, (x, row) in enumerate(zip(order.launches, launches, strict=True)):
            sizes = {"in": 0, "out": 0}
            for a, v in zip(x.kernel.arrays, x.arguments, strict=True):
                sizes[a.mode] += 4 * int(np.prod(v.shape))
            function = order.functions[order.calls[x.call].function].name
            assert row == (function, sizes["in"], sizes["out"], 1000 + n)
        paths = rows("select path from call_tree order by call")
        assert paths[:5] == [
            ("gpt",),
            ("gpt/block[0]",),
            ("gpt/block[0]/norm",),
            ("gpt/block[0]/attention",),
            ("gpt/block[0]/attention/qkv",),
        ]
        assert rows("select count(*) from dead_launches") == [(0,)]
        assert rows("select sum(launches), sum(nanoseconds) from kernel_uses") == [
            (38, sum(1000 + n for n in range(38)))
        ]
        assert rows("select count(*), sum(chunks) from tensor_list where role = 'weight'") == [(7, 0)]


def test_dead_launches() -> None:
    engine = open_database("sqlite://", create=True)
    b = Builder("f")
    x, y, out = b.buffer("input", "x", 4), b.temp("y", 2, 4), b.buffer("output", "out", 4)
    z = b.temp("z", 4)
    half = [replace(y, offset=4 * n, shape=(4,)) for n in range(2)]
    b.launch("read later", [x], [half[0]])
    b.launch("other half", [x], [half[1]])
    b.launch("uses", [half[0]], [out])
    b.launch("nobody", [x], [z])
    write_recording(engine, recording(b.order()))
    with reading(engine) as connection:
        assert [row[0] for row in connection.exec_driver_sql("select operation from dead_launches order by 1")] == [
            1,
            3,
        ]
