"""launch_order: a graph and a realization become kernels, buffers and launches in order."""

from presk_db.kernels.checker import check_kernel
from presk_db.kernels.launches import (
    Buffer,
    Call,
    Launch,
    LaunchOrder,
    Update,
    View,
    WeightPart,
    check_launches,
)
from presk_db.language.graph import Graph
from presk_db.lowering.clusters import Cluster, Clustering
from presk_db.lowering.codegen import Lowered, lowered
from presk_db.lowering.flat import Flat, FlatEquation, Value, flat_graph
from presk_db.lowering.merge import merged
from presk_db.lowering.realization import Realization
from presk_db.lowering.states import check_states, place_of


def launch_order(graph: Graph, realization: Realization) -> LaunchOrder:
    """The entry's launch order, checked. Raises E3002 for a realization's rule without a site."""
    flat = flat_graph(graph, realization)
    check_states(graph, flat)
    states = frozenset(v.id for n, v in flat.inputs if dict(graph.inputs)[n].state)
    clustering = Clustering(flat)
    memory = _Memory(flat, states)
    kernels = [merged(lowered(c, clustering)) for c in clustering.clusters]
    for kernel in {k.kernel.digest: k.kernel for k in kernels}.values():
        check_kernel(kernel)
    calls = _laminar([_anchor(c).call for c in clustering.clusters], flat.calls)
    launches = tuple(
        _launch(c, k, call, memory, flat) for c, k, call in zip(clustering.clusters, kernels, calls, strict=True)
    )
    for _, value in flat.results:
        memory.window(value)  # nothing writes a result without elements
    results = dict(flat.results)
    updates = [Update(memory.window(results[name])[0], memory.of[state.id]) for name, state in flat.renewed]
    order = LaunchOrder(
        tuple(flat.functions),
        tuple(flat.calls),
        tuple(flat.folds),
        tuple(memory.buffers),
        _weight_parts(graph, flat, memory),
        launches,
        tuple(sorted(updates, key=lambda update: update.output)),
    )
    check_launches(order)
    return order


class _Memory:
    """Buffers: inputs and weights first, then what launches write, in order of definition."""

    def __init__(self, flat: Flat, states: frozenset[int]) -> None:
        self.buffers: list[Buffer] = []
        self.states = states
        self.of: dict[int, int] = {}
        self.offsets: dict[int, tuple[int, int]] = {}
        self.results = {v.id: name for name, v in flat.results}
        for name, value in flat.inputs:
            self.add(value, "output" if value.id in states else "input", name)
        for name, value in flat.parameters:
            self.add(value, "weight", name)
        for e in flat.equations:
            if e.op == "stack":
                self._stack(e)

    def add(self, value: Value, role: str, name: str) -> int:
        number = len(self.buffers)
        self.of[value.id] = number
        given = value.id in self.states
        self.buffers.append(Buffer(number, role, name, value.type, value.shape, value.limit, given))  # type: ignore[arg-type]  # a Role
        return number

    def _stack(self, e: FlatEquation) -> None:
        """The parts of a stack live in windows of its buffer, unless it is a state that was written in place."""
        if place_of(e.output, self.states) is not None:
            return
        role = "output" if e.output.id in self.results else "temp"
        number = self.add(e.output, role, self.results.get(e.output.id, e.output.site))
        size = 1
        for n in e.output.shape[1:]:
            size *= n
        for l, part in enumerate(e.inputs):
            self.offsets[part.id] = (number, l * size)

    def window(self, value: Value) -> tuple[int, int]:
        """Buffer and offset of a value's first element; makes the buffer where there is none yet."""
        place = place_of(value, self.states)
        if place is not None:
            return self.of[place[0].id], place[1]
        if value.window is not None:
            stack, l = value.window
            number, offset = self.window(stack)
            size = 1
            for n in value.shape:
                size *= n
            return number, offset + l * size
        if value.id in self.offsets:
            return self.offsets[value.id]
        if value.id not in self.of:
            if value.id in self.results:
                self.add(value, "output", self.results[value.id])
            else:
                self.add(value, "temp", value.site)
        return self.of[value.id], 0


def _anchor(cluster: Cluster) -> FlatEquation:
    """The equation that says where a cluster stands: its matmul, reduction or concat, else its last."""
    for e in cluster.equations:
        if e.op in ("matmul", "concat", "scatter_add", "put_rows", "reduce_sum", "reduce_max", "argmax"):
            return e
    return cluster.equations[-1]


def _launch(cluster: Cluster, lowered_: Lowered, call: int, memory: _Memory, flat: Flat) -> Launch:
    views = []
    for argument in lowered_.arguments:
        number, offset = memory.window(argument.value)
        views.append(View(number, offset, argument.shape))
    return Launch(lowered_.kernel, call, _label(cluster, call, flat), _anchor(cluster).source, tuple(views))


def _label(cluster: Cluster, call: int, flat: Flat) -> str:
    """A name for readers: the functions whose equations were fused, or operations where they are a caller's own."""
    anchor = _anchor(cluster)
    above = {c for c in _path(anchor.call, flat.calls) if c != anchor.call or flat.calls[c].parent is None}
    words: list[str] = []
    for e in cluster.equations:
        name = flat.functions[flat.calls[e.call].function].name
        if (
            e is anchor
            and anchor.op in ("matmul", "concat", "scatter_add")
            and name != "linear"
            and e.call not in above
        ):
            words.insert(0, f"{name}_{e.op}")
        else:
            words.append(e.op if e.call in above else name)
    return "_".join(w for w in dict.fromkeys(words) if w == words[0] or not words[0].startswith(f"{w}_"))


def _path(call: int, calls: list[Call]) -> list[int]:
    """The call and its callers, innermost first."""
    path = [call]
    while (parent := calls[path[-1]].parent) is not None:
        path.append(parent)
    return path


def _laminar(wanted: list[int], calls: list[Call]) -> list[int]:
    """The calls of launches in order, moved up to a common caller where a call's launches would not be consecutive."""
    result = list(wanted)
    changed = True
    while changed:
        changed = False
        last: dict[int, int] = {}
        for position, call in enumerate(result):
            for c in _path(call, calls):
                before = last.get(c, position - 1)
                if c in last and before != position - 1:
                    parent = calls[c].parent
                    assert parent is not None, "the root's launches are consecutive"
                    result = [parent if c in _path(r, calls) and i >= position else r for i, r in enumerate(result)]
                    changed = True
                    break
                last[c] = position
            if changed:
                break
    return result


def _weight_parts(graph: Graph, flat: Flat, memory: _Memory) -> tuple[WeightPart, ...]:
    parts: list[WeightPart] = []
    for (_, parameter), (_, value) in zip(graph.parameters, flat.parameters, strict=True):
        offset = 0
        for source in parameter.sources:
            part = WeightPart(
                memory.of[value.id], offset, source.name, source.shape, source.transposed, parameter.low, parameter.high
            )
            parts.append(part)
            size = 1
            for n in source.shape:
                size *= n
            offset += size
    return tuple(parts)
