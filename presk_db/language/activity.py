"""active_values: the values of a function that depend, differentiably, on chosen parameters."""

from presk_db.language.graph import Equation, Function, Var


def active_values(f: Function, needs: tuple[bool, ...]) -> frozenset[Var]:
    """The real values that depend on the parameters which `needs` marks; integers, truth values and `stop` break it."""
    active = {v for v, n in zip(f.parameters, needs, strict=True) if n}
    for e in f.equations:
        if e.op == "call":
            inner = active_values(e["function"], tuple(v in active for v in e.inputs))
            flags = [v in inner for v in e["function"].results]
        elif e.op == "fold":
            flags = _fold_results(e, frozenset(active))
        else:
            flags = [e.op != "stop" and any(v in active for v in e.inputs)]
        active.update(v for v, flag in zip(e.outputs, flags, strict=False) if flag and v.kind == "real")
    return frozenset(active)


def fold_needs(e: Equation, active: frozenset[Var]) -> tuple[bool, ...]:
    """Which parameters of a fold's function depend on active values, in any iteration."""
    f, carried = e["function"], e["carried"]
    needs = [v in active for v in e.inputs]
    changed = True
    while changed:
        inside = active_values(f, tuple(needs))
        more = [i for i in range(carried) if not needs[i] and f.results[i] in inside]
        changed = bool(more)
        for i in more:
            needs[i] = True
    return tuple(needs)


def _fold_results(e: Equation, active: frozenset[Var]) -> list[bool]:
    f = e["function"]
    needs = fold_needs(e, active)
    inside = active_values(f, needs)
    return [v in inside or (i < e["carried"] and needs[i]) for i, v in enumerate(f.results)]
