"""NESTS: a small kernel of every kind of nest."""

from presk_db.kernels.checker import check_kernel
from presk_db.kernels.ir import Kernel
from presk_db.kernels.parser import parse

LINEAR = """
in a0: TYPE[M,K]
in a1: TYPE[K,N]
in a2: TYPE[N]
in a3: TYPE[M,N]
out a4: TYPE[M,N]
v9 = const.SUM 0x1.8000000000000p+0
par i0 < M
  par i1 < N
    v0 = acc.SUM sum
    seq i2 < K
      v1 = load a0[i0,i2]
      v2 = load a1[i2,i1]
      v3 = mul.SUM v1 v2
      fold v0 v3
    end
    v4 = load a2[i1]
    v5 = add.SUM v0 v4
    v6 = tanh.SUM v5
    v7 = load a3[i0,i1]
    v8 = add.SUM v7 v6
    v10 = mul.SUM v8 v9
    store a4[i0,i1] v10
  end
end
"""


def linear(type_: str, m: int, k: int, n: int) -> str:
    """A product with bias, function and residual."""
    text = LINEAR.replace("TYPE", type_).replace("SUM", "f64" if type_ == "f64" else "f32")
    return text.replace("M", str(m)).replace("K", str(k)).replace("N", str(n))


def product(arrays: str, loops: str, left: str, right: str, k: str, stored: str, type_: str = "f32") -> str:
    """A bare product; `left` and `right` are accesses, `loops` the par loops' extents in order."""
    extents = loops.split()
    lines = [f"par i{i} < {n}" for i, n in enumerate(extents)]
    body = f"""v0 = acc.{type_} sum
seq i9 < {k}
v1 = load {left}
v2 = load {right}
v3 = mul.{type_} v1 v2
fold v0 v3
end
store {stored} v0"""
    return "\n".join([arrays.strip(), *lines, body, *["end"] * len(extents)])


SOFTMAX = """
in a0: f32[5,71]
out a1: f32[5,71]
v5 = const.f32 0x1.0000000000000p-3
v7 = const.f32 -inf
par i1 < 5
  v0 = acc.f32 max
  v2 = index 13*i1
  seq i2 < 71
    v1 = index i2
    v3 = le.i64 v1 v2
    v4 = load a0[i1,i2]
    v6 = mul.f32 v4 v5
    v8 = select.f32 v3 v6 v7
    fold v0 v8
  end
  v9 = acc.f32 lanes
  local l0: f32[71]
  seq i3 < 71
    v10 = index i3
    v11 = le.i64 v10 v2
    v12 = load a0[i1,i3]
    v13 = mul.f32 v12 v5
    v14 = select.f32 v11 v13 v7
    v15 = sub.f32 v14 v0
    v16 = exp.f32 v15
    store l0[i3] v16
    fold v9 v16
  end
  par i4 < 71
    v17 = load l0[i4]
    v18 = div.f32 v17 v9
    store a1[i1,i4] v18
  end
end
"""

NORM = """
in a0: TYPE[7,300]
out a1: TYPE[7,300]
v4 = const.SUM 0x1.2c00000000000p+8
par i0 < 7
  v0 = acc.SUM lanes
  seq i1 < 300
    v1 = load a0[i0,i1]
    v2 = mul.SUM v1 v1
    fold v0 v2
  end
  v5 = div.SUM v0 v4
  v6 = sqrt.SUM v5
  par i2 < 300
    v7 = load a0[i0,i2]
    v8 = div.SUM v7 v6
    store a1[i0,i2] v8
  end
end
"""

CONCAT = """
in a0: f32[3,40]
in a1: bf16[3,21]
out a2: f32[3,61]
par i0 < 3
  par i1 < 40
    v0 = load a0[i0,i1]
    v1 = neg.f32 v0
    store a2[i0,i1] v1
  end
end
par i2 < 3
  par i3 < 21
    v2 = load a1[i2,i3]
    store a2[i2,i3+40] v2
  end
end
"""

GATHER = """
in a0: i64[9] < 12
in a1: bf16[12,70]
in a2: f32[9,70]
out a3: bf16[9,70]
par i0 < 9
  v0 = load a0[i0]
  par i1 < 70
    v1 = load a1[v0,i1]
    v2 = load a2[i0,i1]
    v3 = max.f32 v1 v2
    store a3[i0,i1] v3
  end
end
"""

FLAT = """
in a0: f64[1000]
out a1: f64[1000]
par i0 < 1000
  v0 = load a0[i0]
  v1 = silu.f64 v0
  store a1[i0] v1
end
"""

TRIANGLE = """
in a0: f32[17,17]
in a1: f32[17,6]
out a2: f32[17,6]
out a3: i64[17]
par i0 < 17
  v8 = acc.f32 argmax
  seq i5 < 17
    v9 = load a0[i0,i5]
    fold v8 v9
  end
  store a3[i0] v8
  par i1 < 6
    v0 = acc.f32 sum
    seq i2 < i0+1
      v1 = load a0[i0,i2]
      v2 = load a1[i2,i1]
      v3 = mul.f32 v1 v2
      fold v0 v3
    end
    store a2[i0,i1] v0
  end
end
"""

SCALED = """
in a0: bf16[13,10]
in a1: i64[10,21] < 200
in a2: f64[21]
out a3: f64[13,21]
par i0 < 13
  par i1 < 21
    v9 = load a2[i1]
    v0 = acc.f64 sum
    seq i2 < 10
      v1 = load a0[i0,i2]
      v2 = cvt.f64 v1
      v3 = load a1[i2,i1]
      v4 = cvt.f64 v3
      v5 = mul.f64 v4 v9
      v6 = mul.f64 v5 v2
      fold v0 v6
    end
    store a3[i0,i1] v0
  end
end
"""

SCORES = product(
    "in a0: f32[29,96]\nout a1: f32[3,29,29]", "3 29 29", "a0[i1,16*i0+i9]", "a0[i2,16*i0+i9+48]", "16", "a1[i0,i1,i2]"
)
VALUES = product(
    "in a0: f32[3,29,30]\nin a1: f32[30,96]\nout a2: f32[29,48]", "3 29 16", "a0[i0,i1,i9]", "a1[i9,16*i0+i2+3]", "30",
    "a2[i1,16*i0+i2]",
)  # fmt: skip
TIED = product(
    "in a0: f32[14,33]\nin a1: f32[50,33]\nout a2: f32[14,50]", "14 50", "a0[i0,i9]", "a1[i1,i9]", "33", "a2[i0,i1]"
)
GRADIENT = product(
    "in a0: f32[19,26]\nin a1: f32[19,40]\nout a2: bf16[26,40]", "26 40", "a0[i9,i0]", "a1[i9,i1]", "19", "a2[i0,i1]"
)
ROW = product("in a0: f32[75]\nin a1: f32[75,90]\nout a2: f32[90]", "90", "a0[i9]", "a1[i9,i0]", "75", "a2[i0]")
ROW_F64 = ROW.replace("f32", "f64")
ROW_BF16 = product("in a0: f32[37]\nin a1: bf16[37,90]\nout a2: f32[90]", "90", "a0[i9]", "a1[i9,i0]", "37", "a2[i0]")
PACKED_BF16 = product(
    "in a0: bf16[15,37]\nin a1: bf16[40,37]\nout a2: bf16[15,40]", "15 40", "a0[i0,i9]", "a1[i1,i9]", "37", "a2[i0,i1]"
)
WIDENED_BF16 = product(
    "in a0: bf16[41,37]\nin a1: bf16[37,43]\nout a2: f32[41,43]", "41 43", "a0[i0,i9]", "a1[i9,i1]", "37", "a2[i0,i1]"
)
RUNTIME = product(
    "in a0: f32[20,30]\nin a1: f32[30,40]\nout a2: f32[20,40]\nextent n0 <= 20\nextent n1 <= 40\nextent n2 <= 30", "n0 n1",
    "a0[i0,i9]", "a1[i9,i1]", "n2", "a2[i0,i1]",
)  # fmt: skip

LATE = """
in a0: TYPE[2,K,M]
in a1: TYPE[K,2,N]
out a2: TYPE[M,2,N]
RUNTIME
v7 = const.SUM 0x0.0p+0
par i0 < 2
  par i1 < ROWS
    v4 = index i1
    par i2 < N
      v0 = acc.SUM sum
      seq i3 < TERMS
        v1 = load a0[i0,i3,i1]
        v2 = load a1[i3,i0,i2]
        v3 = mul.SUM v1 v2
        v5 = index i3
        v6 = le.i64 v4 v5
        v8 = select.SUM v6 v3 v7
        fold v0 v8
      end
      store a2[i1,i0,i2] v0
    end
  end
end
"""


def late(type_: str, m: int, k: int, n: int, runtime: str = "") -> str:
    """A product of m rows and n columns whose row r has the terms r … k - 1; `n0` terms and `n1` rows where `runtime`."""
    text = LATE.replace("TYPE", type_).replace("SUM", "f64" if type_ == "f64" else "f32")
    text = text.replace("TERMS", "n0" if runtime else str(k)).replace("ROWS", "n1" if runtime else str(m))
    text = text.replace("RUNTIME\n", f"extent n0 <= {k}\nextent n1 <= {m}\n" if runtime else "")
    return text.replace("M", str(m)).replace("K", str(k)).replace("N", str(n))


ATTENTION = """
in a0: IN[TT,HH,DD]
in a1: IN[SS,GG,DD]
in a2: IN[GG,SS,EE]
out a3: IN[TT,HH,EE]
RUNTIME
v6 = const.SUM 0x1.0000000000000p-2
par i0 < GG
  par i1 < QQ
    par i2 < ROWS
      local l0: SUM[SS]
      par i3 < KEYS
        v0 = acc.SUM sum
        seq i4 < DD
          v1 = load a0[i2,QQ*i0+i1,i4]
          v2 = load a1[i3,i0,i4]
          v3 = mul.SUM v1 v2
          fold v0 v3
        end
        store l0[i3] v0
      end
      v4 = acc.SUM max
      seq i5 < KEYS
        v5 = load l0[i5]
        v7 = mul.SUM v5 v6
        fold v4 v7
      end
      v8 = acc.SUM lanes
      local l1: SUM[SS]
      seq i6 < KEYS
        v9 = load l0[i6]
        v10 = mul.SUM v9 v6
        v11 = sub.SUM v10 v4
        v12 = exp.SUM v11
        store l1[i6] v12
        fold v8 v12
      end
      local l2: SUM[SS]
      par i7 < KEYS
        v13 = load l1[i7]
        v14 = div.SUM v13 v8
        store l2[i7] v14
      end
      v15 = index QQ*i0+i1
      par i8 < EE
        v16 = acc.SUM sum
        seq i9 < KEYS
          v17 = load l2[i9]
          v18 = load a2[i0,i9,i8]
          v19 = mul.SUM v17 v18
          fold v16 v19
        end
        store a3[i2,v15,i8] v16
      end
    end
  end
end
"""

TWO_FOLDS = """
in a0: f32[70,33]
in a1: f32[70]
out a2: f32[33]
par i0 < 33
  v0 = acc.f32 lanes
  seq i1 < 70
    v1 = load a0[i1,i0]
    fold v0 v1
    v2 = load a1[i1]
    fold v0 v2
  end
  store a2[i0] v0
end
"""


def attention(
    type_: str, t: int, s: int, h: int, g: int, d: int, e: int, keys: str, rows: str = "", runtime: str = ""
) -> str:
    """Attention of t queries to s keys, h heads in g groups, of widths d and e; `keys` is what a query sees."""
    text = ATTENTION.replace("IN", type_).replace("local l0: SUM", f"local l0: {type_}")
    text = text.replace("local l2: SUM", f"local l2: {type_}").replace("SUM", "f64" if type_ == "f64" else "f32")
    for name, value in (("TT", t), ("SS", s), ("HH", h), ("GG", g), ("DD", d), ("EE", e), ("QQ", h // g)):
        text = text.replace(name, str(value))
    text = text.replace("1*i0", "i0").replace("KEYS", keys).replace("ROWS", rows or str(t))
    return text.replace("RUNTIME\n", f"{runtime}\n" if runtime else "")


NESTS: dict[str, Kernel] = {
    name: parse(text.strip() + "\n")
    for name, text in {
        "linear f32": linear("f32", 29, 40, 50),
        "linear f64": linear("f64", 15, 9, 21),
        "linear bf16": linear("bf16", 13, 31, 35),
        "one row": linear("f32", 1, 60, 130),
        "whole tiles": linear("f32", 24, 8, 32),
        "scores": SCORES,
        "values": VALUES,
        "tied": TIED,
        "gradient": GRADIENT,
        "row": ROW,
        "row f64": ROW_F64,
        "row bf16": ROW_BF16,
        "packed bf16": PACKED_BF16,
        "packed bf16, widened": WIDENED_BF16,
        "run-time extents": RUNTIME,
        "late": late("f32", 40, 40, 50),
        "late f64": late("f64", 26, 30, 19),
        "late bf16": late("bf16", 25, 25, 16),
        "late, few rows": late("f32", 3, 29, 20),
        "late, rows without terms": late("f32", 50, 27, 33),
        "late, run-time extents": late("f32", 30, 30, 20, "n0 n1"),
        "causal attention": attention("f32", 37, 37, 2, 1, 16, 24, "i2+1"),
        "attention with a past": attention("f32", 13, 50, 2, 2, 5, 19, "i2+38"),
        "attention f64": attention("f64", 26, 35, 3, 3, 8, 11, "35"),
        "causal attention f64": attention("f64", 14, 14, 2, 2, 9, 8, "i2+1"),
        "attention bf16": attention("bf16", 25, 70, 4, 2, 12, 16, "i2+46"),
        "attention of few rows": attention("f32", 2, 40, 2, 2, 16, 16, "i2+39"),
        "attention, run-time rows": attention("f32", 30, 60, 2, 2, 8, 16, "i2+31", "n0", "extent n0 <= 30"),
        "scaled": SCALED,
        "softmax": SOFTMAX,
        "norm f32": NORM.replace("TYPE", "f32").replace("SUM", "f32"),
        "norm bf16": NORM.replace("TYPE", "bf16").replace("SUM", "f32"),
        "norm f64": NORM.replace("TYPE", "f64").replace("SUM", "f64"),
        "concat": CONCAT,
        "gather": GATHER,
        "flat": FLAT,
        "triangle": TRIANGLE,
        "two folds of one sum": TWO_FOLDS,
    }.items()
}
for _kernel in NESTS.values():
    check_kernel(_kernel)
