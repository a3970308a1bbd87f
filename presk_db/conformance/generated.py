"""generated_files: writes, or compares, the C and Python files that hold what high-precision arithmetic computes."""

from collections.abc import Callable, Mapping, Sequence

import gmpy2

from presk_db.conformance import minimax
from presk_db.resources import resource_folder


def generated_files(texts: Callable[[], Mapping[str, str]], arguments: Sequence[str]) -> int:
    """Writes each text under its name: headers to `runtime_c`, Python to `presk_db/native`.

    With `--check` among the arguments it only compares: 1 where a file is another.
    """
    gmpy2.get_context().precision = minimax.PRECISION
    runtime = resource_folder("runtime_c")
    native = runtime.parent / "presk_db" / "native"
    same = True
    for name, text in texts().items():
        path = (runtime if name.endswith(".h") else native) / name
        if "--check" in arguments:
            same = same and path.read_text(encoding="utf-8") == text
        else:
            path.write_text(text, encoding="utf-8")
    return 0 if same else 1
