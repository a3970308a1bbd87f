"""run_kernel: extents, lanes, maxima, masks, gathers and scatters, chunks, and what it refuses."""

from typing import Any

import numpy as np
import pytest

from presk_db.errors import InputBad
from presk_db.kernels.checker import check_kernel
from presk_db.kernels.ir import Kernel
from presk_db.kernels.parser import parse
from presk_db.native import access
from presk_db.native.execute import run_kernel
from presk_db.native.numbers import canonical
from presk_db.native.vectorize import vectorized_loops
from tests.kernels.oracle import interpret


def kernel_of(text: str) -> Kernel:
    kernel = parse(text)
    check_kernel(kernel)
    return kernel


def both(text: str, *arrays: np.ndarray[Any, Any], **scalars: float | int) -> list[np.ndarray[Any, Any]]:
    """The arrays after a run; asserts that the oracle agrees, whole and in chunks of a few elements."""
    kernel = kernel_of(text)
    expected, found, pieces = ([a.copy() for a in arrays] for _ in range(3))
    interpret(kernel, expected, scalars)
    run_kernel(kernel, found, scalars)
    run_kernel(kernel, pieces, scalars, chunk=5)
    for p, x, y, z in zip(kernel.arrays, expected, found, pieces, strict=True):
        bits = canonical(x, p.type).tobytes()
        assert bits == canonical(y, p.type).tobytes() == canonical(z, p.type).tobytes(), p.name
    return found


def rows(n: int, seed: int = 0, count: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((count, n)).astype(np.float32)


REDUCTION = """in a0: f32[3,{n}]
out a1: {type}[3]
par i0 < 3
v0 = acc.f32 {kind}
seq i1 < {n}
v1 = load a0[i0,i1]
fold v0 v1
end
store a1[i0] v0
end
"""


@pytest.mark.parametrize("n", [0, 1, 2, 31, 32, 33, 64, 100])
@pytest.mark.parametrize("kind", ["sum", "lanes", "max", "argmax"])
def test_reductions(n: int, kind: str) -> None:
    type_ = "i64" if kind == "argmax" else "f32"
    out = np.zeros(3, np.int64 if kind == "argmax" else np.float32)
    result = both(REDUCTION.format(n=n, kind=kind, type=type_), rows(n), out)[1]
    if n == 0:
        assert result.tolist() == [-np.inf if kind == "max" else 0] * 3


def test_lanes_are_the_rule() -> None:
    x = rows(70)
    lanes = np.zeros((3, 32), np.float32)
    lanes += x[:, :32]
    lanes += x[:, 32:64]
    lanes[:, :6] += x[:, 64:]
    for w in (16, 8, 4, 2, 1):
        lanes = lanes[:, :w] + lanes[:, w : 2 * w]
    found = both(REDUCTION.format(n=70, kind="lanes", type="f32"), x, np.zeros(3, np.float32))[1]
    assert found.tobytes() == lanes[:, 0].tobytes()


def test_a_sum_of_negative_zeros_is_zero() -> None:
    x = np.full((3, 33), -0.0, np.float32)
    for kind in ("sum", "lanes"):
        found = both(REDUCTION.format(n=33, kind=kind, type="f32"), x, np.ones(3, np.float32))[1]
        assert found.tobytes() == bytes(12)


def test_the_maximum_knows_nan_and_zeros() -> None:
    x = np.array([[-0.0, 0.0, -0.0], [1, np.nan, np.inf], [-np.inf, -np.inf, -np.inf]], np.float32)
    largest = both(REDUCTION.format(n=3, kind="max", type="f32"), x, np.zeros(3, np.float32))[1]
    first = both(REDUCTION.format(n=3, kind="argmax", type="i64"), x, np.zeros(3, np.int64))[1]
    assert largest.view(np.uint32).tolist() == [0, 0x7FC00000, 0xFF800000]
    assert first.tolist() == [1, 1, 0]


TRIANGLE = """in a0: f32[6,6]
out a1: f32[6,6]
out a2: i64[6]
par i0 < 6
v0 = acc.f32 lanes
v1 = acc.f32 argmax
v2 = acc.f32 max
seq i1 < {extent}
v3 = load a0[i0,i1]
fold v0 v3
fold v1 v3
fold v2 v3
end
par i2 < {extent}
v4 = load a0[i0,i2]
v5 = sub.f32 v4 v2
v6 = div.f32 v5 v0
store a1[i0,i2] v6
end
store a2[i0] v1
end
"""


@pytest.mark.parametrize("extent", ["i0+1", "i0", "-1*i0+5"])
def test_triangles_touch_nothing_else(extent: str) -> None:
    x = rows(6, count=6)
    found = both(TRIANGLE.format(extent=extent), x, np.full((6, 6), 7, np.float32), np.zeros(6, np.int64))
    assert (found[1][0] == 7).sum() == {"i0+1": 5, "i0": 6, "-1*i0+5": 1}[extent]


@pytest.mark.parametrize("n", [0, 1, 4])
def test_run_time_extents(n: int) -> None:
    text = "in a0: f32[4]\nscalar s0: f64\nextent n0 <= 4\nout a1: f64[4]\npar i0 < n0\nv0 = load a0[-1*i0+n0-1]\n"
    with pytest.raises(Exception, match="E2004"):
        kernel_of(text + "store a1[i0] v0\nend\n")
    text = text.replace("[-1*i0+n0-1]", "[i0]")
    text += "v1 = cvt.f64 v0\nv2 = scalar s0\nv3 = mul.f64 v1 v2\nstore a1[i0] v3\nend\n"
    found = both(text, rows(4, count=1)[0], np.full(4, 9.0), s0=0.1, n0=n)
    assert (found[1] == 9).sum() == 4 - n


def test_gather_and_scatter() -> None:
    text = """in a0: i64[5] < 4
in a1: f32[4,3]
out a2: f32[5,3]
out a3: f32[4]
par i0 < 5
v0 = load a0[i0]
par i1 < 3
v1 = load a1[v0,i1]
store a2[i0,i1] v1
end
end
seq i2 < 5
v2 = load a0[i2]
v3 = load a1[v2,2]
v4 = index i2
v5 = cvt.f32 v4
v6 = add.f32 v3 v5
store a3[v2] v6
end
"""
    tokens = np.array([3, 1, 3, 0, 1], np.int64)
    table = rows(3, count=4)
    found = both(text, tokens, table, np.zeros((5, 3), np.float32), np.zeros(4, np.float32))
    assert found[2].tobytes() == table[tokens].tobytes()
    assert found[3][3] == np.float32(table[3, 2] + np.float32(2))  # the last of two stores stays


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("type_", ["f32", "bf16", "f64"])
def test_products(transposed: bool, type_: str) -> None:
    m, k, n = 5, 37, 130
    text = f"""in a0: {type_}[{m},{k}]
in a1: {type_}[{f"{n},{k}" if transposed else f"{k},{n}"}]
out a2: {type_}[{m},{n}]
par i0 < {m}
par i1 < {n}
v0 = acc.{"f64" if type_ == "f64" else "f32"} sum
seq i2 < {k}
v1 = load a0[i0,i2]
v2 = load a1[{"i1,i2" if transposed else "i2,i1"}]
v3 = mul.{"f64" if type_ == "f64" else "f32"} v1 v2
fold v0 v3
end
store a2[i0,i1] v0
end
end
"""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    dtype: Any = np.float64 if type_ == "f64" else np.float32
    x, y = a.astype(dtype), np.ascontiguousarray((b.T if transposed else b).astype(dtype))
    if type_ == "bf16":
        x, y = ((z.view(np.uint32) >> 16).astype(np.uint16) for z in (x, y))
    both(text, x, y, np.zeros((m, n), x.dtype))


def test_which_loops_run_at_once() -> None:
    def found(body: str, local: str = "local l0: f32[9]\n") -> bool:
        head = f"in a0: f32[9]\nout a1: f32[9]\nout a2: f32[1]\n{local}v0 = load a0[0]\nstore l0[0] v0\n"
        return "i0" in vectorized_loops(kernel_of(head + f"seq i0 < 8\n{body}end\n"))

    assert found("v1 = load a0[i0]\nstore a1[i0] v1\n")
    assert found("v1 = load l0[i0]\nv2 = neg.f32 v1\nstore l0[i0] v2\n")
    assert found("seq i1 < 1\nv1 = load a0[i0]\nstore l0[i0+i1] v1\nend\n")
    assert not found("v1 = load a0[i0]\nstore a2[0] v1\n")
    assert not found("v1 = load l0[i0]\nstore l0[i0+1] v1\n")
    assert not found("store l0[i0] v0\nstore l0[i0+1] v0\n")
    assert not found("seq i1 < 2\nv1 = load a0[i0]\nstore l0[i0+i1] v1\nend\n")


def test_a_value_outlives_a_store_to_its_place() -> None:
    text = """in a0: f32[4]
out a1: f32[4]
local l0: f32[1]
v0 = load a0[3]
store l0[0] v0
seq i0 < 4
v1 = load l0[0]
v2 = load a0[i0]
store l0[0] v2
store a1[i0] v1
end
"""
    x = rows(4, count=1)[0]
    assert both(text, x, np.zeros(4, np.float32))[1].tolist() == [x[3], x[0], x[1], x[2]]


def test_flat_and_shaped_arrays_and_no_warnings() -> None:
    text = "in a0: f32[2,2]\nout a1: f32[2,2]\npar i0 < 2\npar i1 < 2\nv0 = load a0[i0,i1]\nv1 = div.f32 v0 v0\n"
    kernel = kernel_of(text + "store a1[i0,i1] v1\nend\nend\n")
    out = np.zeros(4, np.float32)
    with np.errstate(all="raise"):
        run_kernel(kernel, [np.array([[0, np.inf], [1, 2]], np.float32), out], {})
    assert np.isnan(out[:2]).all()
    assert out[2:].tolist() == [1, 1]


ONE = "in a0: f32[2,3]\nextent n0 <= 2\nout a1: f32[2]\npar i0 < n0\nv0 = load a0[i0,0]\nstore a1[i0] v0\nend\n"


@pytest.mark.parametrize(
    ("arrays", "scalars", "message"),
    [
        ([np.zeros(6, np.float32)], {"n0": 1}, "1 arrays for a kernel of 2"),
        ([np.zeros(6), np.zeros(2, np.float32)], {"n0": 1}, "a0 is f32 and takes float32, not float64"),
        ([np.zeros(5, np.float32), np.zeros(2, np.float32)], {"n0": 1}, "a0 has 6 elements, not 5"),
        ([np.zeros((3, 2), np.float32).T, np.zeros(2, np.float32)], {"n0": 1}, "a0 must be contiguous"),
        ([np.zeros(6, np.float32), np.zeros(2, np.float32)], {}, "the number n0 is missing"),
        ([np.zeros(6, np.float32), np.zeros(2, np.float32)], {"n0": 3}, "n0 is 3 and must be from 0 to 2"),
    ],
)
def test_arguments_that_do_not_fit(arrays: list[Any], scalars: dict[str, int], message: str) -> None:
    with pytest.raises(InputBad, match=message):
        run_kernel(kernel_of(ONE), arrays, scalars)


def test_an_output_must_be_writeable() -> None:
    out = np.zeros(2, np.float32)
    out.flags.writeable = False
    with pytest.raises(InputBad, match="a1 is written"):
        run_kernel(kernel_of(ONE), [np.zeros(6, np.float32), out], {"n0": 1})


FILLED_AGAIN = """
in a0: f32[3,40,20]
out a1: f32[3,40,20]
par i0 < 3
  par i1 < 40
    local l0: f32[20]
    par i2 < 20
      v0 = load a0[i0,i1,i2]
      v1 = mul.f32 v0 v0
      store l0[i2] v1
    end
    par i3 < 20
      v2 = acc.f32 sum
      seq i4 < i3+1
        v3 = load l0[i4]
        fold v2 v3
      end
      store a1[i0,i1,i3] v2
    end
  end
end
"""


@pytest.mark.parametrize("chunk", [1, 60, 1 << 14])
def test_a_local_is_read_as_it_is_now(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "PACKED", 1)
    x = np.arange(2400, dtype=np.float32).reshape(3, 40, 20) / 64
    found = np.zeros_like(x)
    run_kernel(kernel_of(FILLED_AGAIN.lstrip()), [x.reshape(-1), found.reshape(-1)], {}, chunk=chunk)
    expected, total = np.zeros_like(x), np.zeros((3, 40), np.float32)
    for n in range(20):
        total = total + x[..., n] * x[..., n]
        expected[..., n] = total
    assert found.tobytes() == expected.tobytes()
