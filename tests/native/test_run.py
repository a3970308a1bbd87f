"""run: a launch order from its inputs to its outputs, the events, the checks."""

import numpy as np
import pytest

from presk_db.errors import InputBad, InputOutOfRange
from presk_db.kernels.launches import Buffer, Call, FoldInfo, FunctionInfo, Launch, LaunchOrder, View, check_launches
from presk_db.kernels.parser import parse
from presk_db.native.run import run
from presk_db.recording.events import CallEntered, CallLeft, EventList, Launched

LOOK_UP = parse("""in a0: i64[3] < 4
in a1: f32[4,2]
out a2: f32[3,2]
par i0 < 3
v0 = load a0[i0]
par i1 < 2
v1 = load a1[v0,i1]
store a2[i0,i1] v1
end
end
""")
SCALE = parse("""in a0: f32[6]
scalar s0: f64
out a1: f32[6]
par i0 < 6
v0 = load a0[i0]
v1 = scalar s0
v2 = cvt.f32 v1
v3 = mul.f32 v0 v2
store a1[i0] v3
end
""")
HALF = parse("""in a0: f32[3]
out a1: bf16[3]
par i0 < 3
v0 = load a0[i0]
v1 = div.f32 v0 v0
store a1[i0] v1
end
""")


def order_of_four() -> LaunchOrder:
    """Look up rows, scale them twice in a fold, divide the second half by itself."""
    buffers = (
        Buffer(0, "input", "tokens", "i64", (3,), 4),
        Buffer(1, "weight", "table", "f32", (4, 2)),
        Buffer(2, "temp", "rows", "f32", (3, 2)),
        Buffer(3, "temp", "scaled", "f32", (3, 2)),
        Buffer(4, "output", "scaled twice", "f32", (3, 2)),
        Buffer(5, "output", "ones", "bf16", (3,)),
    )
    calls = (
        Call(0, None, 0, "entry"),
        Call(1, 0, 1, "embed"),
        Call(2, 0, 2, "layer", fold=0, iteration=0),
        Call(3, 0, 2, "layer", fold=0, iteration=1),
    )
    flat = (6,)
    launches = (
        Launch(LOOK_UP, 1, "look up", "m.py:1", (View(0, 0, (3,)), View(1, 0, (4, 2)), View(2, 0, (3, 2)))),
        Launch(SCALE, 2, "scale", "m.py:2", (View(2, 0, flat), View(3, 0, flat)), ("rate",)),
        Launch(SCALE, 3, "scale", "m.py:2", (View(3, 0, flat), View(4, 0, flat)), ("rate",)),
        Launch(HALF, 0, "half", "m.py:3", (View(4, 3, (3,)), View(5, 0, (3,)))),
    )
    functions = tuple(FunctionInfo(n, f"m.py:{i}") for i, n in enumerate(("entry", "embed", "layer")))
    order = LaunchOrder(functions, calls, (FoldInfo(0, 0, 2, "layer", 2),), buffers, (), launches)
    check_launches(order)
    return order


TOKENS = np.array([3, 0, 2], np.int64)
TABLE = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.mark.parametrize("executor", ["numpy", "compiled"])
def test_outputs_and_events(executor: str) -> None:
    events = EventList([])
    seen: list[tuple[int, int]] = []
    outputs = run(
        order_of_four(), {0: TOKENS}, {1: TABLE}, events, {"rate": 0.5},
        progress=lambda done, total: seen.append((done, total)), executor=executor,  # type: ignore[arg-type]
    )  # fmt: skip
    assert sorted(outputs) == [4, 5]
    assert outputs[4].tolist() == (TABLE[TOKENS] / 4).tolist()
    assert outputs[5].tolist() == [0x3F80, 0x3F80, 0x3F80]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    plain = [(type(e), e.launch if isinstance(e, Launched) else e.call) for e in events.events]
    assert plain == [
        (CallEntered, 0), (CallEntered, 1), (Launched, 0), (CallLeft, 1), (CallEntered, 2), (Launched, 1), (CallLeft, 2),
        (CallEntered, 3), (Launched, 2), (CallLeft, 3), (Launched, 3), (CallLeft, 0),
    ]  # fmt: skip
    assert all(e.nanoseconds > 0 for e in events.events if isinstance(e, Launched))


def test_nans_of_outputs_are_canonical() -> None:
    table = TABLE.copy()
    table.view(np.uint32)[0] = 0xFFC00123
    outputs = run(order_of_four(), {0: TOKENS}, {1: table}, EventList([]), {"rate": 0.5})
    assert outputs[4].view(np.uint32)[1].tolist() == [0x7FC00000, 0x7FC00000]


def test_neither_inputs_nor_weights_are_written() -> None:
    tokens, table = TOKENS.copy(), TABLE.copy()
    tokens.flags.writeable = table.flags.writeable = False
    run(order_of_four(), {0: tokens}, {1: table}, EventList([]), {"rate": 0.5})


@pytest.mark.parametrize(("value", "at"), [(4, 2), (-1, 0)])
def test_a_token_out_of_range(value: int, at: int) -> None:
    tokens = TOKENS.copy()
    tokens[at] = value
    with pytest.raises(InputOutOfRange) as caught:
        run(order_of_four(), {0: tokens}, {1: TABLE}, EventList([]), {"rate": 0.5})
    assert str(caught.value) == f"E1204 tokens: element [{at}] is {value} and must be in [0, 4)"


def test_inputs_that_do_not_fit() -> None:
    order, rate = order_of_four(), {"rate": 0.5}

    def message(inputs: dict[int, np.ndarray], weights: dict[int, np.ndarray], scalars: dict[str, float]) -> str:
        with pytest.raises(InputBad) as caught:
            run(order, inputs, weights, EventList([]), scalars)
        return str(caught.value)

    assert message({}, {1: TABLE}, rate) == "E1205 tokens: the input is missing"
    assert message({0: TOKENS}, {}, rate) == "E1205 table: the weight is missing"
    assert message({0: TOKENS, 2: TABLE}, {1: TABLE}, rate) == "E1205 buffer 2 is no input"
    assert message({0: TOKENS}, {1: TABLE}, {}) == "E1205 rate: the number is missing"
    assert message({0: TOKENS.astype(np.int32)}, {1: TABLE}, rate) == "E1205 tokens: is int32 and must be int64 (i64)"
    assert message({0: TOKENS}, {1: TABLE.T}, rate) == "E1205 table: has shape [2, 4] and must have [4, 2]"


def test_a_truth_value_is_0_or_1() -> None:
    order = LaunchOrder((), (), (), (Buffer(0, "input", "mask", "bool", (2, 2)),), (), ())
    assert run(order, {0: np.array([[0, 1], [1, 0]], np.uint8)}, {}, EventList([])) == {}
    with pytest.raises(InputOutOfRange, match=r"mask: element \[1, 0\] is 2"):
        run(order, {0: np.array([[0, 1], [2, 0]], np.uint8)}, {}, EventList([]))
