"""Synthetic launch orders: a builder, and a small transformer written with it by hand."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

from presk_db.kernels.ir import Kernel
from presk_db.kernels.launches import (
    Buffer,
    Call,
    FoldInfo,
    FunctionInfo,
    Launch,
    LaunchOrder,
    Role,
    View,
    WeightPart,
    check_launches,
)
from presk_db.kernels.parser import parse
from presk_db.recording.events import (
    CallEntered,
    CallLeft,
    Event,
    Launched,
    ObservedTensor,
    Recording,
    WeightsReference,
)
from presk_db.store.benchmarks import Benchmark

Shape = tuple[int, ...]


def shape_of(shape: Shape) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


@cache
def kernel(inputs: tuple[Shape, ...], outputs: tuple[Shape, ...], seed: int = 0) -> Kernel:
    """A kernel that fills its outputs with a sum of first elements; another `seed` is another kernel."""
    lines = [f"in a{n}: f32{shape_of(s)}" for n, s in enumerate(inputs)]
    lines += [f"out b{n}: f32{shape_of(s)}" for n, s in enumerate(outputs)]
    lines.append(f"v = const.f32 {float(seed).hex()}")
    value = "v"
    for n, s in enumerate(inputs):
        lines.append(f"x{n} = load a{n}[{','.join('0' for _ in s)}]")
        lines.append(f"y{n} = add.f32 {value} x{n}")
        value = f"y{n}"
    for n, s in enumerate(outputs):
        names = [f"i{n}_{axis}" for axis in range(len(s))]
        lines += [f"par {name} < {extent}" for name, extent in zip(names, s, strict=True)]
        lines.append(f"store b{n}[{','.join(names)}] {value}")
        lines += ["end"] * len(s)
    return parse("\n".join(lines))


class Builder:
    """Collects a launch order: enter calls with `call`, make buffers with `buffer`, run kernels with `launch`."""

    def __init__(self, root: str) -> None:
        self.functions: list[FunctionInfo] = []
        self.calls: list[Call] = []
        self.folds: list[FoldInfo] = []
        self.buffers: list[Buffer] = []
        self.weights: list[WeightPart] = []
        self.launches: list[Launch] = []
        self.stack: list[int] = []
        self._enter(root, None, None)

    def _function(self, name: str) -> int:
        names = [f.name for f in self.functions]
        if name not in names:
            self.functions.append(FunctionInfo(name, f"model.py:{10 * len(names) + 1}"))
            return len(names)
        return names.index(name)

    def _enter(self, name: str, fold: int | None, iteration: int | None) -> None:
        parent = self.stack[-1] if self.stack else None
        label = name if iteration is None else f"{name}[{iteration}]"
        self.calls.append(Call(len(self.calls), parent, self._function(name), label, fold, iteration))
        self.stack.append(len(self.calls) - 1)

    @contextmanager
    def call(self, name: str, fold: int | None = None, iteration: int | None = None) -> Iterator[None]:
        self._enter(name, fold, iteration)
        yield
        self.stack.pop()

    def fold(self, name: str, length: int, descending: bool = False) -> Iterator[int]:
        """Runs the body once an iteration, inside a call of its own; yields the layer's number."""
        number = len(self.folds)
        self.folds.append(FoldInfo(number, self.stack[-1], self._function(name), name, length, descending))
        for iteration in reversed(range(length)) if descending else range(length):
            with self.call(name, number, iteration):
                yield iteration

    def buffer(self, role: Role, name: str, *shape: int, type_: str = "f32", limit: int | None = None) -> View:
        self.buffers.append(Buffer(len(self.buffers), role, name, type_, shape, limit))
        return View(len(self.buffers) - 1, 0, shape)

    def temp(self, name: str, *shape: int) -> View:
        return self.buffer("temp", name, *shape)

    def weight(self, name: str, *shape: int) -> View:
        view = self.buffer("weight", name, *shape)
        self.weights.append(WeightPart(view.buffer, 0, name, shape, False, -0.02, 0.02))
        return view

    def launch(self, label: str, inputs: list[View], outputs: list[View], seed: int = 0) -> None:
        k = kernel(tuple(v.shape for v in inputs), tuple(v.shape for v in outputs), seed)
        source = f"model.py:{len(label)}"
        self.launches.append(Launch(k, self.stack[-1], label, source, (*inputs, *outputs)))

    def order(self) -> LaunchOrder:
        parts = (self.functions, self.calls, self.folds, self.buffers, self.weights, self.launches)
        order = LaunchOrder(*(tuple(p) for p in parts))  # type: ignore[arg-type]
        check_launches(order)
        return order


def part(view: View, number: int) -> View:
    """The part `number` of a view along its leading axis."""
    shape = view.shape[1:]
    return View(view.buffer, view.offset + number * int(np.prod(shape)), shape)


def linear(b: Builder, x: View, w: View, y: View) -> None:
    with b.call("linear"):
        b.launch("matmul", [x, w], [y])


def attention(b: Builder, x: View, wqkv: View, wo: View, residual: View, y: View, heads: int) -> None:
    t, c = x.shape
    with b.call("attention"):
        qkv = b.temp("qkv", 3, t, c)
        with b.call("qkv"):
            b.launch("matmul", [x, wqkv], [qkv])
        att = b.temp("att", heads, t, t)
        b.launch("scores", [part(qkv, 0), part(qkv, 1)], [att])
        soft = b.temp("soft", heads, t, t)
        b.launch("softmax", [att], [soft], 1)
        mixed = b.temp("mixed", t, c)
        b.launch("mix", [soft, part(qkv, 2)], [mixed])
        b.launch("proj", [mixed, wo, residual], [y])


def transformer(
    layers: int = 4, t: int = 8, c: int = 16, heads: int = 2, vocab: int = 11, odd: int | None = None
) -> LaunchOrder:
    """The forward pass of a small GPT; the layer `odd` has another kernel in its MLP."""
    b = Builder("gpt")
    tokens = b.buffer("input", "tokens", t, c)  # embedded already: all kernels here are of f32
    wte = b.weight("wte", vocab, c)
    names = {"ln": (c,), "wqkv": (c, 3 * c), "wo": (c, c), "w1": (c, 4 * c), "w2": (4 * c, c)}
    stacks = {name: b.weight(name, layers, *shape) for name, shape in names.items()}
    head = b.weight("head", c, vocab)
    logits = b.buffer("output", "logits", t, vocab)
    x = b.temp("x0", t, c)
    b.launch("embed", [tokens, wte], [x])
    for layer in b.fold("block", layers):
        own = {name: part(view, layer) for name, view in stacks.items()}
        normed = b.temp("normed", t, c)
        with b.call("norm"):
            b.launch("norm", [x, own["ln"]], [normed], 2)
        middle = b.temp("middle", t, c)
        attention(b, normed, own["wqkv"], own["wo"], x, middle, heads)
        with b.call("mlp"):
            h = b.temp("h", t, 4 * c)
            linear(b, middle, own["w1"], h)
            active = b.temp("active", t, 4 * c)
            b.launch("gelu", [h], [active], 7 if layer == odd else 3)
            x = b.temp(f"x{layer + 1}", t, c)
            b.launch("down", [active, own["w2"], middle], [x], 4)
    linear(b, x, head, logits)
    return b.order()


def recording(order: LaunchOrder, name: str = "run", nanoseconds: int = 1000, **changes: object) -> Recording:
    """A recording of `order` with made-up inputs, outputs and times."""
    tensors = []
    for buffer in order.buffers:
        if buffer.role == "temp":
            continue
        data = np.arange(buffer.elements, dtype="<f4").reshape(buffer.shape) + len(buffer.name)
        digest = hashlib.sha256(data.tobytes()).hexdigest()
        kept = None if buffer.role == "weight" else data
        tensors.append(ObservedTensor(buffer.role, buffer.id, buffer.name, buffer.type, buffer.shape, digest, kept))
    rank = ("input", "weight", "output")
    tensors.sort(key=lambda tensor: (rank.index(tensor.role), tensor.buffer))
    values: dict[str, object] = {
        "name": name,
        "entry": "forward",
        "family": "gpt2",
        "spec": '{"T":8}',
        "graph": "graph text\n",
        "order": order,
        "events": events(order, nanoseconds),
        "tensors": tuple(tensors),
        "weights": WeightsReference("seed", 2**64 - 1, None, None),
        "nanoseconds": nanoseconds,
    }
    return Recording(**(values | changes))  # type: ignore[arg-type]


def events(order: LaunchOrder, nanoseconds: int) -> tuple[Event, ...]:
    found: list[Event] = [CallEntered(0)]
    found += [Launched(n, nanoseconds + n) for n in range(len(order.launches))]
    return (*found, CallLeft(0))


def benchmark(order: LaunchOrder) -> Benchmark:
    """A made-up benchmark of `order`."""
    launches = {number: 100 + number % 7 for number in range(len(order.launches))}
    total = 2 * sum(launches.values())
    return Benchmark("cc", "-O3", "a cpu", 1, 3, total, 10**11, 2 * 10**10, launches, {"rival": total})
