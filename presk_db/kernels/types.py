"""The types of values in memory and in arithmetic, their sizes, and their safetensors names.

Storage types: f64, f32, bf16, i64, bool. Arithmetic happens in f64, f32, i64 or bool; a bf16 element is an f32 as soon
as it is loaded and is rounded when it is stored.
"""

SIZES: dict[str, int] = {"f64": 8, "f32": 4, "bf16": 2, "i64": 8, "bool": 1}
"""Bytes of one stored element, by storage type."""

REAL_TYPES: tuple[str, ...] = ("f64", "f32", "bf16")
"""The storage types that a realization may give to a real-valued site."""

COMPUTE: dict[str, str] = {"f64": "f64", "f32": "f32", "bf16": "f32", "i64": "i64", "bool": "bool"}
"""The type in which an element of a storage type is computed."""

DTYPES: dict[str, str] = {"f64": "F64", "f32": "F32", "bf16": "BF16", "i64": "I64", "bool": "BOOL"}
"""safetensors' name of a storage type."""
