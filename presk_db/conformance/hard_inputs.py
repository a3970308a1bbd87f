"""f64 inputs whose function value lies close to the middle of two doubles: found here, and published ones.

`python -m presk_db.conformance.hard_inputs FOLDER [NAME…]` writes NAME_f64.bin for every function: pairs of
little-endian f64, an input and its correctly rounded value. Three kinds: neighbours of random starts, found by
interpolation; short numbers, whose series tie in their first terms (log1p's x - x*x / 2, sigmoid's 1/2 + x / 4) so
that a term of 2**-100 or less decides; published ones.
"""

import math
import struct
import sys
from pathlib import Path

import gmpy2
import numpy as np
from gmpy2 import mpfr

from presk_db.conformance.math_reference import NAMES, REAL, exact, hardness

SPAN = 1 << 20  # neighbouring doubles searched around one start
_DOMAIN = {  # log2 of the smallest and the largest magnitude searched, and the signs
    "exp": (-28, 9.4, "+-"),
    "expm1": (-28, 9.4, "+-"),
    "log": (-1000, 1000, "+"),
    "log1p": (-28, 1000, "+"),
    "tanh": (-20, 4.1, "+-"),
    "sin": (-20, 8, "+-"),
    "cos": (-20, 8, "+-"),
    "erf": (-500, 2.5, "+-"),
    "sigmoid": (-20, 9.3, "+-"),
    "silu": (-28, 9.3, "+-"),
    "gelu": (-28, 5.2, "+-"),
}

PUBLISHED = {
    # from CORE-MATH's lists (Lefevre, Zimmermann and others) of hard cases for the four rounding directions
    "exp": (
        "0x1.9e9cbbfd6080bp-31", "0x1.0122ef37212ebp-1", "0x1.00d48a707b93ep-1", "0x1.00e0e33c8c3fdp-1",
        "0x1.00bcc31ebded7p-1", "0x1.012c061237773p-1", "0x1.00c3594568d32p-1", "0x1.005ae04256babp-1",
        "0x1.008eb56314daap+0", "0x1.0138c96e1a075p+0", "0x1.0133cf37485cfp+0", "0x1.001e6892695eep+0",
    ),
    "expm1": (
        "0x1.274bbf1efb1a2p-10", "0x1.1e3779b97f4a7p-50", "0x1.0a64abf09dc3ap+5", "0x1.003ff801ff5aep-43",
        "0x1.2548eb9151e82p-48", "0x1.08f61e2cdac9ap+6", "0x1.18e5f7ad51533p+1", "0x1.05fcdfe2ea461p+4",
    ),
    "log": (
        "0x1.15956b273c365p+8", "0x1.295700a79d1cbp+30", "0x1.6de110c79fac5p+2", "0x1.0bb1a825d53dp+30",
        "0x1.11867637cbd03p+4", "0x1.2053889b642ccp+21", "0x1.0092086ce40eap+27", "0x1.62a88613629b5p+678",
    ),
    "log1p": (
        "0x1.200000000001bp-46", "0x1.080000000016bp-42", "0x1.1400000000633p-40", "0x1.2c00000000753p-40",
        "0x1.02000000015abp-38", "0x1.1e3779b97f4a8p-50", "0x1.0a1636f8aeb6ep+93", "0x1.17730e99cd1a2p+63",
        "0x1.2c342ad3773b3p+78", "0x1.27773e7108461p+61",
    ),
    "tanh": (
        "0x1.1d3523fce55b9p-23", "0x1.02a3ad2ef6f4ap-24", "0x1.3bacd6561ff5fp-25", "0x1.1ecf55daa68a8p-24",
        "0x1.0e000000280b9p-16", "0x1.36733423f8b8bp-14", "0x1.30fc1931f09cbp+4", "0x1.0d4e2911ff0a4p+3",
        "0x1.00a0f3cf999acp+2",
    ),
    "erf": (
        "0x1.6d5ad4307dd52p-7", "0x1.037b548d9d7a6p-61", "0x1.059a3d07be48cp-61", "0x1.037d31a64bf9fp-61",
        "0x1.07bb029a8d96bp-61", "0x1.1aadc610c1606p-61", "0x1.3c734d93cf5p-61", "0x1.59febe53f8a2p-61",
    ),
    # from LLVM libc's tests; the last is 6381956970095103 * 2**797, the double nearest to a multiple of pi / 2 (Kahan)
    "sin": (
        "-0x1.14823229799c2p+7", "-0x1.0285070f9f1bcp-5", "0x1.23f40dccdef72p+0", "-0x1.f7898d5a756ddp+2",
        "-0x1.ab514bfc61c76p+7", "0x1.fd4da4ef37075p+29", "0x1.85fc0f04c0128p+101", "0x1.6ac5b262ca1ffp+849",
    ),
    "cos": (
        "0x1.8000000000009p-23", "0x1.20000000000f3p-20", "0x1.1685973506319p+3", "0x1.23f40dccdef72p+0",
        "-0x1.14823229799c2p+7", "0x1.fd4da4ef37075p+29", "0x1.85fc0f04c0128p+101", "0x1.6ac5b262ca1ffp+849",
    ),
}  # fmt: skip


def near_middles(name: str, start: float, keep: int) -> list[float]:
    """Returns the `keep` inputs among SPAN neighbours of start whose values are nearest to a middle of two doubles.

    The value in units of its last place is interpolated by a cubic, taken modulo 1 in 64-bit integers.
    """
    unit = math.ulp(start)
    half = SPAN // 2
    with gmpy2.context(precision=300):
        y = REAL[name](mpfr(start))
        scale = mpfr(2) ** (52 - int(gmpy2.floor(gmpy2.log2(abs(y)))))
        v = [REAL[name](mpfr(start) + i * half * mpfr(unit)) * scale + mpfr("0.5") for i in (-1, 0, 1, 2)]
        n = mpfr(half)
        cubic = (v[3] - 3 * v[2] + 3 * v[1] - v[0]) / (6 * n**3)
        square = (v[2] - 2 * v[1] + v[0]) / (2 * n**2)
        linear = (v[2] - v[0]) / (2 * n) - cubic * n**2
        c0, c1, c2, c3 = (
            int(gmpy2.floor(c * mpfr(2) ** 64)) % (1 << 64) for c in (v[1], linear, square, cubic)
        )  # fmt: skip
    i = np.arange(-half + 1, half, dtype=np.int64).view(np.uint64)
    f = ((np.uint64(c3) * i + np.uint64(c2)) * i + np.uint64(c1)) * i + np.uint64(c0)
    distance = np.abs(f.view(np.int64).astype(np.float64))
    best = np.argsort(distance, kind="stable")[:keep]
    return [start + int(k) * unit for k in i.view(np.int64)[best]]


def searched(name: str, starts: int, keep: int, seed: int) -> list[float]:
    """Returns hard inputs from `starts` random places of the function's domain, `keep` from each."""
    low, high, signs = _DOMAIN[name]
    generator = np.random.default_rng([seed, *name.encode()])
    found: list[float] = []
    for k in range(starts):
        start = 2.0 ** generator.uniform(low, high) * (-1.0 if signs[k % len(signs)] == "-" else 1.0)
        found += near_middles(name, start, keep)
    return found


def short(name: str, keep: int) -> list[float]:
    """Returns the `keep` hardest among numbers of few bits, and a few units of the last place beside such."""
    _, _, signs = _DOMAIN[name]
    sizes = {a * 2.0**-k for a in range(1, 64, 2) for k in range(16, 60)}
    sizes |= {a * 2.0**-k * (1 + i * 2.0**-52) for a in (1, 3, 9) for k in range(16, 60) for i in (-2, -1, 1, 2, 3)}
    numbers = [size if sign == "+" else -size for size in sorted(sizes) for sign in signs]
    return sorted(numbers, key=lambda x: (hardness(name, x), x))[:keep]


def main(arguments: list[str]) -> int:
    """Writes the vectors (of the functions named, or all) and prints how many there are and how hard the hardest is."""
    folder = Path(arguments[0])
    for name in arguments[1:] or NAMES:
        published = map(float.fromhex, PUBLISHED.get(name, ()))
        inputs = sorted({*published, *short(name, 16), *searched(name, 60, 3, 1)})
        pairs = [(x, exact(name, x, "f64")) for x in inputs]
        (folder / f"{name}_f64.bin").write_bytes(b"".join(struct.pack("<dd", *pair) for pair in pairs))
        print(f"{name:8} {len(pairs)} inputs, hardest 2**{min(hardness(name, x) for x in inputs):.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
