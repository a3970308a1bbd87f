"""The routines that a kernel can run on whole arrays: what each takes; check_routine. They are no nests of loops.

Keys are arrays of 8 integers in [0, 2^32). `docs/generation.md` says what each computes; `presk_db/native/routines.py`
does in NumPy, `presk_routine_NAME` in C.

    key_seed    the key of a seed
    key_child   the child of a key with a number
    key_split   the first n parts of a key
    uniform     n uniform numbers of a key
    penalize    logits (r, n) in f64, smaller for those of the first `count` tokens of each row of `seen` (r, m)
    sample      for each row of logits (r, n) the token drawn with the uniform number of the row's number
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from presk_db.errors import KernelAliasBad, KernelBoundsBad, KernelTypeBad
from presk_db.kernels.ir import Kernel, Local, Routine
from presk_db.kernels.ranges import value_types
from presk_db.keys import KEY_WORDS

_REALS = ("f32", "f64", "bf16")


@dataclass(frozen=True)
class Slot:
    """One argument: an array that is read or written, a local to work in, or one value. A letter is any extent."""

    mode: Literal["out", "in", "local", "value"]
    types: tuple[str, ...]
    shape: tuple[int | str, ...] = ()


_KEY = Slot("in", ("i64",), (KEY_WORDS,))
_NEW_KEY = Slot("out", ("i64",), (KEY_WORDS,))
_LOGITS = Slot("in", _REALS, ("r", "n"))
_REAL = Slot("value", ("f64",))
_WHOLE = Slot("value", ("i64",))
_MARKS = Slot("local", ("i64",), ("n",))

ROUTINES: Mapping[str, tuple[Slot, ...]] = {
    "key_seed": (_NEW_KEY, _WHOLE),
    "key_child": (_NEW_KEY, _KEY, _WHOLE),
    "key_split": (Slot("out", ("i64",), ("n", KEY_WORDS)), _KEY),
    "uniform": (Slot("out", ("f64",), ("n",)), _KEY),
    "penalize": (
        Slot("out", ("f64",), ("r", "n")),
        *(_LOGITS, Slot("in", ("i64",), ("r", "m")), _REAL, _WHOLE, _MARKS),
    ),
    "sample": (
        Slot("out", ("i64",), ("r",)),
        *(_KEY, _LOGITS, _REAL, _REAL, _REAL, _WHOLE, Slot("local", ("f64",), ("n",)), _MARKS),
    ),
}
"""By name, the arguments in order. Values of `sample`: temperature, top-p, min-p, top-k; of `penalize`: penalty, count."""


@dataclass(frozen=True)
class Given:
    """What an argument is: an array's or local's type and shape, or a value's type."""

    mode: Literal["out", "in", "local", "value"]
    type: str
    shape: tuple[int, ...] = ()


def routine_of(kernel: Kernel) -> Routine | None:
    """The kernel's routine, if it has one."""
    return next((s for s in kernel.statements if isinstance(s, Routine)), None)


def operation_kind(kernel: Kernel) -> str:
    """What a launch of the kernel is to the database: `launch` of a nest, `sample`, or `scalar` for keys and numbers."""
    routine = routine_of(kernel)
    return "launch" if routine is None else "sample" if routine.name == "sample" else "scalar"


def arguments_of(kernel: Kernel, routine: Routine) -> tuple[Given, ...]:
    """What the arguments of a checked kernel's routine are."""
    found = {name: Given("value", type_) for name, type_ in value_types(kernel).items()}
    found |= {a.name: Given(a.mode, a.type, a.shape) for a in kernel.arrays}
    found |= {s.name: Given("local", s.type, s.shape) for s in kernel.statements if isinstance(s, Local)}
    return tuple(found[a] for a in routine.args)


def written(routine: Routine) -> tuple[str, ...]:
    """The arrays that a routine writes."""
    return tuple(a for a, slot in zip(routine.args, ROUTINES[routine.name], strict=True) if slot.mode == "out")


def check_routine(name: str, args: Sequence[str], given: Sequence[Given]) -> None:
    """Raises E2003, E2004 or E2006 where arguments do not fit the routine; returns None where they do."""
    slots = ROUTINES.get(name)
    if slots is None or len(slots) != len(args):
        raise KernelTypeBad(f"{name} is no routine of {len(args)} arguments")
    arrays = [a for a, g in zip(args, given, strict=True) if g.mode != "value"]
    if len(set(arrays)) != len(arrays):
        raise KernelAliasBad(f"{name} is given one array twice")
    for arg, slot, g in zip(args, slots, given, strict=True):
        if (slot.mode == "value") != (g.mode == "value") or (slot.mode == "local") != (g.mode == "local"):
            raise KernelTypeBad(f"{name} takes something else than {arg}")
        if slot.mode != g.mode:
            raise KernelAliasBad(f"{arg} is {'written' if g.mode == 'out' else 'read'} alone")
        if g.type not in slot.types:
            raise KernelTypeBad(f"{arg} is {g.type}, {name} takes {' or '.join(slot.types)}")
    extents(name, given)


def extents(name: str, given: Sequence[Given]) -> dict[str, int]:
    """The extents that a routine's letters stand for, in order of their first use, from its arguments without the locals
    or all of them. Raises KernelBoundsBad (E2004) where a shape does not fit."""
    found: dict[str, int] = {}
    for slot, g in zip(ROUTINES[name], given, strict=False):
        wanted = tuple(
            found.setdefault(s, n) if isinstance(s, str) else s for s, n in zip(slot.shape, g.shape, strict=False)
        )
        if len(slot.shape) != len(g.shape) or wanted != g.shape:
            raise KernelBoundsBad(f"an array of {name} has shape {g.shape}")
    return found
