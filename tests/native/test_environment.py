"""check_float_environment: true here, and false where floats are tampered with or computed by x87."""

import platform
import subprocess
import sys

import numpy as np
import pytest

from presk_db.errors import FloatEnvironmentBad
from presk_db.native.environment import check_float_environment, check_rounding
from presk_db.native.numbers import Array

# Sets bits of MXCSR from inside the process, as a library linked with -ffast-math does on load.
TAMPER = """
import cffi, pathlib, subprocess, sys
folder, bits = pathlib.Path(sys.argv[1]), int(sys.argv[2], 16)
(folder / "tamper.c").write_text('''
#include <xmmintrin.h>
unsigned tamper(unsigned bits) { unsigned old = _mm_getcsr(); _mm_setcsr(old | bits); return old; }
void restore(unsigned old) { _mm_setcsr(old); }
''')
subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "tamper.so", folder / "tamper.c"], check=True)
from presk_db.errors import FloatEnvironmentBad
from presk_db.native.environment import check_float_environment
ffi = cffi.FFI()
ffi.cdef("unsigned tamper(unsigned bits); void restore(unsigned old);")
library = ffi.dlopen(str(folder / "tamper.so"))
check_float_environment()
old = library.tamper(bits)
try:
    check_float_environment()
    found = "nothing"
except FloatEnvironmentBad as e:
    found = str(e)
library.restore(old)
check_float_environment()
print(found)
"""

MODES = [
    ("8000", "subnormal results of f32 become zero"),
    ("0040", "subnormal operands of f32 are taken as zero"),
    ("8040", "subnormal results of f32 become zero"),
    ("2000", "f32 does not round to nearest"),
    ("4000", "f32 does not round to nearest"),
    ("6000", "f32 does not round to nearest"),
    ("0000", "nothing"),
]


def test_this_process_is_right() -> None:
    check_float_environment()


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="MXCSR is x86's")
@pytest.mark.parametrize(("bits", "message"), MODES)
def test_a_tampered_process(tmp_path: object, bits: str, message: str) -> None:
    command = [sys.executable, "-c", TAMPER, str(tmp_path), bits]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert message in done.stdout
    assert ("E4001" in done.stdout) == (bits != "0000")


def extended(a: Array, b: Array) -> Array:
    """The sum as x87 computes it: to 64 bits, then to the type's."""
    return (a.astype(np.longdouble) + b.astype(np.longdouble)).astype(a.dtype)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="long double is not x87's here")
def test_x87_is_refused() -> None:
    with pytest.raises(FloatEnvironmentBad, match="E4001 f64 is rounded twice, as x87 does"):
        check_rounding("f64", extended)
    check_rounding("f32", extended)  # 64 bits are enough for f32


@pytest.mark.parametrize(
    ("type_", "wrong"),
    [
        ("f32", lambda a, b: np.where(b > 0, np.nextafter(a + b, np.inf, dtype=a.dtype), a + b)),
        ("f64", lambda a, b: (a.astype(np.float32) + b.astype(np.float32)).astype(a.dtype)),
    ],
)
def test_another_sum_is_refused(type_: str, wrong: object) -> None:
    with pytest.raises(FloatEnvironmentBad, match="E4001"):
        check_rounding(type_, wrong)  # type: ignore[arg-type]  # a lambda of a parameter
