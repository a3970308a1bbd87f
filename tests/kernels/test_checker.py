"""check_kernel: every error code, with the line of the statement that is wrong."""

import pytest

from presk_db.errors import (
    KernelAliasBad,
    KernelBoundsBad,
    KernelLoopBad,
    KernelNameBad,
    KernelTextBad,
    KernelTypeBad,
    PreskError,
)
from presk_db.kernels.checker import check_kernel
from presk_db.kernels.parser import parse

HEAD = "in a0: f32[4,8]\nin a1: i64[4] < 8\nout a2: f32[4]\nscalar s0: f64\nextent n0 <= 4\n"  # lines 1 to 5


def check(body: str) -> None:
    check_kernel(parse(HEAD + body))


GOOD = [
    "par i0 < 4\n v0 = load a1[i0]\n v1 = load a0[i0,v0]\n store a2[i0] v1\nend\n",
    "par i0 < n0\n v0 = acc.f32 sum\n seq i1 < i0+1\n v1 = load a0[i0,i1]\n fold v0 v1\n end\n store a2[i0] v0\nend\n",
    "par i0 < 4\n v0 = acc.f32 sum\n seq i1 < 2\n seq i2 < 4\n v1 = load a0[i0,4*i1+i2]\n fold v0 v1\n end\n end\n"
    " store a2[i0] v0\nend\n",
    # an accumulator inside a seq loop is readable behind the loop that folds into it
    "par i0 < 4\n v0 = acc.f32 max\n seq i1 < 2\n v1 = acc.f32 sum\n seq i2 < 4\n v2 = load a0[i0,4*i1+i2]\n"
    " fold v1 v2\n end\n fold v0 v1\n end\n store a2[i0] v0\nend\n",
    "par i0 < 0\n v0 = load a0[i0+100,0]\n store a2[i0-7] v0\nend\n",
    "v0 = index 3\nv1 = load a0[v0,v0]\nstore a2[v0] v1\n",
    "local l0: bool[3]\nv0 = const.bool 1\nstore l0[2] v0\nv1 = load l0[2]\nv2 = not.bool v1\n",
]

BAD: list[tuple[type[PreskError], int, str]] = [
    (KernelNameBad, 7, "v0 = const.f32 0x0.0p+0\nv0 = const.f32 0x0.0p+0\n"),
    (KernelNameBad, 6, "v0 = neg.f32 v1\n"),
    (KernelNameBad, 8, "par i0 < 4\nend\nv0 = index i0\n"),
    (KernelNameBad, 7, "par i0 < 4\nv0 = load a9[i0]\nend\n"),
    (KernelNameBad, 6, "v0 = scalar n0\n"),
    (KernelNameBad, 6, "par a0 < 4\nend\n"),
    (KernelNameBad, 7, "v0 = acc.f32 sum\nv1 = neg.f32 v0\n"),
    (KernelNameBad, 9, "par i0 < 4\nv0 = const.f32 0x0.0p+0\nend\nstore a2[0] v0\n"),
    (KernelTypeBad, 7, "v0 = scalar s0\nv1 = neg.f32 v0\n"),
    (KernelTypeBad, 7, "v0 = scalar s0\nstore a2[0] v0\n"),
    (KernelTypeBad, 6, "v0 = const.f32 0x1.0p+0\n"),
    (KernelTypeBad, 6, "v0 = const.f32 0x1.0000001000000p+0\n"),
    (KernelTypeBad, 6, "v0 = const.i64 9223372036854775808\n"),
    (KernelTypeBad, 6, "v0 = const.bool 2\n"),
    (KernelTypeBad, 6, "v0 = const.bf16 0x0.0p+0\n"),
    (KernelTypeBad, 6, "local l0: f16[3]\n"),
    (KernelTypeBad, 6, "v0 = acc.i64 lanes\n"),
    (KernelTypeBad, 6, "v0 = acc.bool max\n"),
    (KernelTypeBad, 7, "v0 = index 1\nv1 = div.i64 v0 v0\n"),
    (KernelTypeBad, 7, "v0 = index 1\nv1 = exp.i64 v0\n"),
    (KernelTypeBad, 7, "v0 = index 1\nv1 = cvt.i64 v0\n"),
    (KernelTypeBad, 7, "v0 = index 1\nv1 = cvt.bool v0\n"),
    (KernelTypeBad, 7, "v0 = index 1\nv1 = and.bool v0 v0\n"),
    (KernelTypeBad, 7, "v0 = index 1\nv1 = select.i64 v0 v0 v0\n"),
    (KernelTypeBad, 7, "v0 = index 1\nv1 = add.i64 v0\n"),
    (KernelTypeBad, 9, "v0 = acc.f32 sum\nseq i0 < 4\nv1 = index i0\nfold v0 v1\nend\n"),
    (KernelBoundsBad, 7, "par i0 < 5\nv0 = load a0[i0,0]\nend\n"),
    (KernelBoundsBad, 7, "par i0 < 4\nv0 = load a0[i0,i0-1]\nend\n"),
    (KernelBoundsBad, 7, "par i0 < 4\nv0 = load a0[i0]\nend\n"),
    (KernelBoundsBad, 7, "v0 = load a1[0]\nv1 = load a0[v0,0]\n"),
    (KernelBoundsBad, 7, "v0 = const.f32 0x0.0p+0\nstore a2[n0] v0\n"),
    (KernelLoopBad, 6, "par i0 < 4\n"),
    (KernelLoopBad, 6, "end\n"),
    (KernelLoopBad, 6, "par i0 < n0-1\nend\n"),
    (KernelLoopBad, 7, "seq i0 < 4\npar i1 < 4\nend\nend\n"),
    (KernelLoopBad, 8, "v0 = acc.f32 sum\nv1 = const.f32 0x0.0p+0\nfold v0 v1\n"),
    (KernelLoopBad, 9, "v0 = acc.f32 sum\nv1 = const.f32 0x0.0p+0\npar i0 < 4\nfold v0 v1\nend\n"),
    (KernelLoopBad, 10, "v0 = acc.f32 lanes\nv1 = const.f32 0x0.0p+0\nseq i0 < 4\nseq i1 < 4\nfold v0 v1\nend\nend\n"),
    (KernelLoopBad, 11, "v0 = acc.f32 sum\nv1 = const.f32 0x0.0p+0\nseq i0 < 4\nend\nseq i1 < 4\nfold v0 v1\nend\n"),
    (KernelAliasBad, 6, "v0 = load a2[0]\n"),
    (KernelAliasBad, 7, "v0 = const.f32 0x0.0p+0\nstore a0[0,0] v0\n"),
]  # fmt: skip


@pytest.mark.parametrize("body", GOOD)
def test_good_kernels(body: str) -> None:
    check(body)


@pytest.mark.parametrize(("error", "line", "body"), BAD)
def test_bad_kernels(error: type[PreskError], line: int, body: str) -> None:
    with pytest.raises(error) as caught:
        check(body)
    assert caught.value.place == f"line {line}"
    assert str(caught.value).startswith(f"{error.code} line {line}: ")


PARAMETERS: list[tuple[type[PreskError], int, str]] = [
    (KernelTypeBad, 1, "in a0: f16[4]\n"),
    (KernelTypeBad, 1, "in a0: f32[4] < 8\n"),
    (KernelNameBad, 2, "in a0: f32[4]\nscalar a0: f64\n"),
]


@pytest.mark.parametrize(("error", "line", "text"), PARAMETERS)
def test_bad_parameters(error: type[PreskError], line: int, text: str) -> None:
    with pytest.raises(error) as caught:
        check_kernel(parse(text))
    assert caught.value.place == f"line {line}"


TEXTS = [
    (1, "into a0: f32[4]\n"),
    (2, "in a0: f32[4]\nv0 = load a0[i0*2]\n"),
    (2, "in a0: f32[4]\nv0 = load a0[2*3]\n"),
    (2, "in a0: f32[4]\nv0 = load a0[i0 + 1]\n"),
    (3, "in a0: f32[4]\npar i0 < 4\nin a1: f32[4]\n"),
    (1, "v0 = acc.f32 mean\n"),
    (1, "v0 = conv.f32 v1 v2\n"),
    (1, "v0 = add v1 v2\n"),
    (1, "par i0 < \n"),
    (1, "store a0[1]\n"),
    (1, "V0 = index 1\n"),
]


@pytest.mark.parametrize(("line", "text"), TEXTS)
def test_text_that_does_not_parse(line: int, text: str) -> None:
    with pytest.raises(KernelTextBad) as caught:
        parse(text)
    assert caught.value.place == f"line {line}"


def test_text_is_identity() -> None:
    kernel = parse(HEAD + GOOD[2])
    assert parse(kernel.text) == kernel
    assert parse(kernel.text).digest == kernel.digest
    assert kernel.text.splitlines()[5:8] == ["par i0 < 4", "  v0 = acc.f32 sum", "  seq i1 < 2"]
    assert kernel.digest != parse(HEAD + GOOD[1]).digest
