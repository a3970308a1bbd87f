"""Random entries: the lowered kernels, run natively, give the bits of the graph evaluated directly."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowering_cases import check
from random_entries import random_entry, random_gradient

_SETTINGS = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


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
