"""check_order: what the tables take for granted of a launch order."""

from presk_db.errors import DatabaseDamaged
from presk_db.kernels.launches import LaunchOrder

_PLACE = "the launch order"

Span = tuple[int | None, int | None]


def check_order(order: LaunchOrder) -> None:
    """Raises DatabaseDamaged (E5005) where numbers are not places or calls are no tree whose launches lie together."""
    for what, numbers in (
        ("call", [c.id for c in order.calls]),
        ("fold", [f.id for f in order.folds]),
        ("buffer", [b.id for b in order.buffers]),
    ):
        for place, number in enumerate(numbers):
            if place != number:
                raise DatabaseDamaged(f"{what} {number} stands at place {place}", _PLACE)
    for call in order.calls:
        if (call.parent is None) != (call.id == 0) or (call.parent is not None and call.parent >= call.id):
            raise DatabaseDamaged(f"call {call.id} does not stand below an earlier one", _PLACE)
    counts = [0] * len(order.calls)
    for launch in order.launches:
        counts[launch.call] += 1
    for call in reversed(order.calls):
        if call.parent is not None:
            counts[call.parent] += counts[call.id]
    for number, (first, last) in enumerate(spans(order)):
        if first is not None and last is not None and counts[number] != last - first + 1:
            raise DatabaseDamaged(f"other calls' launches stand among those of call {number}", _PLACE)


def spans(order: LaunchOrder) -> list[Span]:
    """The first and last operation of each call, those that it calls included; None where there is none."""
    found: list[Span] = [(None, None)] * len(order.calls)
    for number, launch in enumerate(order.launches):
        found[launch.call] = _joined(found[launch.call], (number, number))
    for call in reversed(order.calls):
        if call.parent is not None:
            found[call.parent] = _joined(found[call.parent], found[call.id])
    return found


def _joined(a: Span, b: Span) -> Span:
    if a[0] is None or a[1] is None:
        return b
    if b[0] is None or b[1] is None:
        return a
    return min(a[0], b[0]), max(a[1], b[1])
