"""MALFORMED and ACCEPTED: safetensors files, byte by byte, that a reader must refuse and must read."""

import json
import struct
from typing import Any


def file_bytes(header: bytes | dict[str, Any], data: bytes = b"", length: int | None = None) -> bytes:
    """A file of that header; `length` instead of the true one if given."""
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def info(dtype: str, shape: list[Any], begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


SMALL = file_bytes(
    {"a": info("F32", [2, 3], 0, 24), "b": info("I16", [2], 24, 28), "__metadata__": {"k": "v"}}, bytes(range(28))
)
X = b'"dtype":"F32","shape":[1],"data_offsets":[0,4]'

# name -> (bytes, the code, a word of the message)
MALFORMED: dict[str, tuple[bytes, str, str]] = {
    "empty": (b"", "E1102", "length"),
    "seven_bytes": (b"\0" * 7, "E1102", "length"),
    "no_header": (file_bytes(b""), "E1102", "begin with '{'"),
    "header_past_the_end": (file_bytes(b"{}", length=3), "E1102", ""),
    "header_huge": (file_bytes(b"{}", length=2**63), "E1102", "100000000"),
    "header_all_ones": (file_bytes(b"{}", length=2**64 - 1), "E1102", "100000000"),
    "header_just_too_long": (file_bytes(b"{}", length=100_000_001), "E1102", "100000000"),
    "array": (file_bytes(b"[]"), "E1102", "begin with '{'"),
    "leading_space": (file_bytes(b" {}"), "E1102", "begin with '{'"),
    "rest_behind_header": (file_bytes(b"{} x"), "E1102", "behind the header"),
    "two_objects": (file_bytes(b"{}{}"), "E1102", "behind the header"),
    "rest_behind_data": (file_bytes({"a": info("U8", [1], 0, 1)}, b"12"), "E1102", "need 1 bytes"),
    "data_without_tensors": (file_bytes(b"{}", b"1"), "E1102", "need 0 bytes"),
    "reversed": (file_bytes({"a": info("F32", [1], 4, 0)}, b"1234"), "E1102", "end before they begin"),
    "overlap": (file_bytes({"a": info("F32", [1], 0, 4), "b": info("F32", [1], 2, 6)}, b"123456"), "E1102", "overlap"),
    "same_bytes": (file_bytes({"a": info("F32", [1], 0, 4), "b": info("F32", [1], 0, 4)}, b"1234"), "E1102", "overlap"),
    "hole": (file_bytes({"a": info("F32", [1], 0, 4), "b": info("F32", [1], 5, 9)}, b"123456789"), "E1102", "hole"),
    "hole_first": (file_bytes({"a": info("F32", [1], 1, 5)}, b"12345"), "E1102", "hole"),
    "past_the_data": (file_bytes({"a": info("F32", [2], 0, 8)}, b"1234"), "E1102", ""),
    "offset_2_64": (file_bytes({"a": info("U8", [1], 0, 2**64)}, b"1"), "E1102", "too large"),
    "offset_huge": (file_bytes({"a": info("U8", [2**62], 0, 2**62)}, b"1"), "E1", ""),
    "product_wrong": (file_bytes({"a": info("F32", [2], 0, 4)}, b"1234"), "E1102", "do not fill"),
    "product_overflow": (file_bytes({"a": info("F32", [2**32, 2**32, 2], 0, 4)}, b"1234"), "E1102", "overflows"),
    "product_wraps_to_fit": (file_bytes({"a": info("F32", [2**62 + 1], 0, 4)}, b"1234"), "E1102", "do not fill"),
    "dimension_negative": (file_bytes({"a": info("F32", [-1], 0, 4)}, b"1234"), "E1102", "0 or more"),
    "dimension_fraction": (file_bytes({"a": info("F32", [1.0], 0, 4)}, b"1234"), "E1102", ""),
    "dimension_2_63": (file_bytes({"a": info("F32", [2**63], 0, 4)}, b"1234"), "E1102", "too large"),
    "dimension_leading_zero": (
        file_bytes(b'{"a":{"dtype":"F32","shape":[01],"data_offsets":[0,4]}}', b"1234"),
        "E1102",
        "begins with 0",
    ),
    "nine_dimensions": (file_bytes({"a": info("F32", [1] * 9, 0, 4)}, b"1234"), "E1102", "8 dimensions"),
    "shape_nested": (file_bytes({"a": info("F32", [[1]], 0, 4)}, b"1234"), "E1102", ""),
    "deep_nesting": (file_bytes(b'{"a":' + b"[" * 100000), "E1102", ""),
    "deep_objects": (file_bytes(b'{"a":' * 50000), "E1102", ""),
    "one_offset": (file_bytes(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}', b"1234"), "E1102", "second"),
    "three_offsets": (file_bytes(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}}', b"1234"), "E1102", ""),
    "no_shape": (file_bytes(b'{"a":{"dtype":"F32","data_offsets":[0,4]}}', b"1234"), "E1102", "lacks"),
    "empty_tensor": (file_bytes(b'{"a":{}}'), "E1102", ""),
    "tensor_is_string": (file_bytes(b'{"a":"b"}'), "E1102", ""),
    "tensor_is_null": (file_bytes(b'{"a":null}'), "E1102", ""),
    "unknown_key": (file_bytes(b'{"a":{' + X + b',"more":1}}', b"1234"), "E1102", "key other"),
    "key_twice": (file_bytes(b'{"a":{' + X + b',"dtype":"F32"}}', b"1234"), "E1102", "key twice"),
    "name_twice": (file_bytes(b'{"a":{' + X + b'},"a":{' + X + b"}}", b"1234"), "E1102", "twice"),
    "name_twice_escaped": (file_bytes(b'{"a":{' + X + b'},"\\u0061":{' + X + b"}}", b"1234"), "E1102", "twice"),
    "metadata_twice": (file_bytes(b'{"__metadata__":{},"__metadata__":{}}'), "E1102", "twice"),
    "metadata_key_twice": (file_bytes(b'{"__metadata__":{"k":"1","l":"","k":"2"}}'), "E1102", "twice"),
    "metadata_number": (file_bytes(b'{"__metadata__":{"k":1}}'), "E1102", "string was expected"),
    "metadata_list": (file_bytes(b'{"__metadata__":[]}'), "E1102", "object of strings"),
    "trailing_comma": (file_bytes(b'{"a":{' + X + b"},}", b"1234"), "E1102", "string was expected"),
    "no_colon": (file_bytes(b'{"a"{' + X + b"}}", b"1234"), "E1102", "':'"),
    "unended_string": (file_bytes(b'{"a'), "E1102", "does not end"),
    "unended_escape": (file_bytes(b'{"a\\'), "E1102", "does not end"),
    "cut_unicode_escape": (file_bytes(b'{"a\\u00'), "E1102", "cut off"),
    "bad_escape": (file_bytes(b'{"\\x":{' + X + b"}}", b"1234"), "E1102", "cannot be escaped"),
    "nul_escape": (file_bytes(b'{"\\\0":{' + X + b"}}", b"1234"), "E1102", "cannot be escaped"),
    "lone_surrogate": (file_bytes(b'{"\\ud800":{' + X + b"}}", b"1234"), "E1102", "surrogate"),
    "low_surrogate": (file_bytes(b'{"\\udc00":{' + X + b"}}", b"1234"), "E1102", "surrogate"),
    "two_high_surrogates": (file_bytes(b'{"\\ud800\\ud800":{' + X + b"}}", b"1234"), "E1102", "surrogate"),
    "control_character": (file_bytes(b'{"a\nb":{' + X + b"}}", b"1234"), "E1102", "control"),
    "invalid_utf8": (file_bytes(b'{"\xff":{' + X + b"}}", b"1234"), "E1102", "UTF-8"),
    "overlong_utf8": (file_bytes(b'{"\xc0\xaf":{' + X + b"}}", b"1234"), "E1102", "UTF-8"),
    "surrogate_utf8": (file_bytes(b'{"\xed\xa0\x80":{' + X + b"}}", b"1234"), "E1102", "UTF-8"),
    "utf8_above_unicode": (file_bytes(b'{"\xf4\x90\x80\x80":{' + X + b"}}", b"1234"), "E1102", "UTF-8"),
    "utf8_cut_by_the_end": (file_bytes(b'{"\xe2\x82'), "E1102", "UTF-8"),
    "newline_in_message": (file_bytes(b'{"a\\nb\\u001b":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}', b"1234"),
                           "E1102", "a?b?"),
    "unknown_type": (file_bytes({"a": info("F77", [3], 0, 4)}, b"1234"), "E1107", "F77"),
    "type_not_read": (file_bytes({"a": info("F8_E4M3", [4], 0, 4)}, b"1234"), "E1107", "F8_E4M3"),
    "type_not_read_but_sized": (file_bytes({"a": info("U32", [2], 0, 4)}, b"1234"), "E1102", "do not fill"),
    "type_with_nul": (file_bytes({"a": info("F32\0", [1], 0, 4)}, b"1234"), "E1107", "F32"),
}  # fmt: skip

ACCEPTED: dict[str, bytes] = {
    "no_tensors": file_bytes(b"{}"),
    "padded": file_bytes(b"{}   "),
    "small": SMALL,
    "scalar": file_bytes({"a": info("F64", [], 0, 8)}, struct.pack("<d", -0.0)),
    "empty_tensors": file_bytes(
        {"a": info("F32", [0], 0, 0), "b": info("U8", [1], 0, 1), "c": info("F32", [3, 0, 2], 1, 1)}, b"7"
    ),
    "spaces": file_bytes(b'{ "a" :\n{ "shape" : [ 1 , 1 ] ,\t"data_offsets":[ 0 , 4 ],"dtype":"F32" } }', b"1234"),
    "unsorted": file_bytes({"z": info("U8", [1], 0, 1), "a": info("U8", [1], 1, 2)}, b"12"),
    "escapes": file_bytes(b'{"\\u00e9\\ud83d\\ude00\\"\\\\\\/":{' + X + b"}}", b"1234"),
    "unaligned": file_bytes({"a": info("U8", [1], 0, 1), "b": info("F64", [2], 1, 17)}, bytes(range(17))),
    "metadata_last": file_bytes({"a": info("U8", [1], 0, 1), "__metadata__": {"x": "\u20ac", "y": ""}}, b"1"),
    "eight_dimensions": file_bytes({"a": info("I8", [1, 1, 2, 1, 1, 1, 1, 2], 0, 4)}, b"\x80\xff\x00\x7f"),
}  # fmt: skip
