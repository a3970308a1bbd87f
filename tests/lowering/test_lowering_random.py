"""Random entries: the lowered kernels, run natively, give the bits of the graph evaluated directly."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowering_cases import Array, check, check_order, contents, native
from random_entries import random_entry, random_gradient

from presk_db.errors import SiteUnknown
from presk_db.kernels.types import REAL_TYPES
from presk_db.lowering.lower import launch_order
from presk_db.lowering.realization import Realization
from presk_db.native.numbers import STORAGE

_SETTINGS = settings(max_examples=100, suppress_health_check=list(HealthCheck))


@_SETTINGS
@given(data=st.data())
def test_compositions_of_primitives(data: st.DataObject) -> None:
    check(random_entry(data.draw, folds=False), seed=data.draw(st.integers(0, 3)))


@_SETTINGS
@given(data=st.data())
def test_folds(data: st.DataObject) -> None:
    check(random_entry(data.draw, folds=True), seed=data.draw(st.integers(0, 3)))


@_SETTINGS
@given(data=st.data(), type_=st.sampled_from(["f32"]))
def test_in_f32(data: st.DataObject, type_: str) -> None:
    check(random_entry(data.draw, folds=data.draw(st.booleans())), type_)


@_SETTINGS
@given(data=st.data())
def test_gradients(data: st.DataObject) -> None:
    check(random_gradient(data.draw, recompute=data.draw(st.booleans())), data.draw(st.sampled_from(("f64", "f32"))))


@_SETTINGS
@given(data=st.data())
def test_mixed_types_lower_and_run(data: st.DataObject) -> None:
    """Any assignment of types gives checked kernels that run; what they compute has no simple oracle."""
    graph = random_entry(data.draw, folds=data.draw(st.booleans()))
    ops = sorted({e.op for f in graph.functions() for e in f.equations if e.outputs and e.outputs[0].kind == "real"})
    rules = []
    for op in data.draw(st.lists(st.sampled_from(ops), max_size=3, unique=True)) if ops else []:
        pattern = f"*/{op}*" if op not in ("call", "fold") else "parameters/*"
        rules.append((pattern, data.draw(st.sampled_from(REAL_TYPES))))
    try:
        order = launch_order(graph, Realization(data.draw(st.sampled_from(REAL_TYPES)), tuple(rules)))
    except SiteUnknown:
        return  # the operation stands in a fold without layers
    check_order(order)
    named = {b.name: b for b in order.buffers if b.role in ("weight", "input")}
    parameters, inputs = contents(graph, "f32")

    def stored(name: str, array: Array) -> Array:
        return array.astype(STORAGE[named[name].type])  # bits of bf16 may be anything

    native(order, {n: stored(n, a) for n, a in parameters.items()}, {n: stored(n, a) for n, a in inputs.items()})
