"""chains_of: the locals that loops hand on from one iteration to the next, with the places that they take in turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from presk_db.store.arena import aligned, live_bytes, rectangles

User = tuple[int, int, int]
"""An argument that steps through a chain: the loop's first item, the position, the place of its first local."""


@dataclass(frozen=True)
class Local:
    """A local buffer of a form; operations are counted from the form's first one."""

    number: int
    first: int
    last: int
    bytes: int


@dataclass(frozen=True)
class LoopArgument:
    """A carried argument of a loop: where it comes from, if from another argument, and its local in each iteration."""

    position: int
    source: int | None
    locals: tuple[int, ...]


@dataclass(frozen=True)
class Chain:
    """Locals of one size in the order in which they are handed on; local k lies at `k mod period` times `distance`.

    `users` are the arguments that step through it.
    """

    locals: tuple[int, ...]
    distance: int
    period: int
    users: tuple[User, ...]

    def offset_of(self, place: int) -> int:
        """Where the local at this place of the chain lies, from the chain's base."""
        return place % self.period * self.distance


@dataclass
class Chains:
    """What chains_of finds: the chains, each local's group and offset in it, the loops for which nothing works."""

    chains: list[Chain] = field(default_factory=list)
    placed: dict[int, tuple[int, int]] = field(default_factory=dict)
    broken: set[int] = field(default_factory=set)


def chains_of(loops: Sequence[tuple[int, tuple[LoopArgument, ...]]], locals_: Mapping[int, Local]) -> Chains:
    """The chains of loops, given as first item and carried arguments.

    A chain takes one place where no two of its locals live at once, else the smallest number of places in turn that
    keeps those apart that do. Where chains meet in a local, that local's place is the same in both: they are a group.
    """
    found = Chains()
    for first, arguments in loops:
        trial = Chains([], dict(found.placed))
        sequences = _sequences(first, arguments)
        stepped = {position for _, users in sequences for _, position, _ in users}
        if len(stepped) == len(arguments) and all(
            _place(sequence, users, locals_, trial) for sequence, users in sequences
        ):
            found.chains += trial.chains
            found.placed = trial.placed
        else:
            found.broken.add(first)
    return found


def _sequences(first: int, arguments: tuple[LoopArgument, ...]) -> list[tuple[tuple[int, ...], tuple[User, ...]]]:
    """For each argument that starts a chain: its locals in order, and the arguments that step through them.

    An argument that comes from another is one place behind it.
    """
    found = []
    positions = {a.position for a in arguments}
    for head in arguments:
        if head.source in positions:
            continue
        behind = {head.position: 0}
        while more := {
            a.position: behind[a.source] + 1 for a in arguments if a.source in behind and a.position not in behind
        }:
            behind |= more
        deepest = max(behind.values())
        sequence: dict[int, int] = {}
        users = []
        for a in arguments:
            if a.position in behind:
                shift = deepest - behind[a.position]
                sequence |= {shift + k: n for k, n in enumerate(a.locals)}
                users.append((first, a.position, shift))
        found.append((tuple(sequence[place] for place in sorted(sequence)), tuple(users)))
    return found


def _place(chain: tuple[int, ...], users: tuple[User, ...], locals_: Mapping[int, Local], found: Chains) -> bool:
    """Adds the chain with the smallest period that fits with what is placed already; False where none does."""
    distance = aligned(locals_[chain[0]].bytes)
    known = {found.placed[n][0] for n in chain if n in found.placed}
    if len(known) > 1:
        return False
    group = known.pop() if known else chain[0]
    lives = rectangles([(l.first, l.last, 0, 1) for l in (locals_[n] for n in dict.fromkeys(chain))])
    for period in range(live_bytes(lives), len(chain) + 1):  # as many as live at once
        offsets = {n: k % period * distance for k, n in enumerate(chain)}
        shifts = {found.placed[n][1] - at for n, at in offsets.items() if n in found.placed} or {0}
        if len(shifts) > 1 or any(offsets[n] != k % period * distance for k, n in enumerate(chain)):
            continue
        (shift,) = shifts
        placed = {n: place for n, place in found.placed.items() if place[0] == group}
        placed |= {n: (group, at + shift) for n, at in offsets.items()}
        if _apart(placed, locals_):
            found.placed |= placed
            found.chains.append(Chain(chain, distance, period, users))
            return True
    return False


def _apart(placed: Mapping[int, tuple[int, int]], locals_: Mapping[int, Local]) -> bool:
    """Whether no two locals at one offset of a group live at one operation."""
    lives = sorted((at, locals_[n].first, locals_[n].last) for n, (_, at) in placed.items())
    return all(a[0] != b[0] or a[2] < b[1] for a, b in pairwise(lives))
