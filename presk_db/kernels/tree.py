"""A kernel's statements as a tree of loops, for executors and printers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from presk_db.kernels.ir import End, Kernel, Loop, Statement


@dataclass(frozen=True)
class Nest:
    """A loop and what it holds, in order."""

    loop: Loop
    body: tuple["Statement | Nest", ...]


def tree(kernel: Kernel) -> tuple[Statement | Nest, ...]:
    """The kernel's top level, in order. The kernel must be well formed (see `check_kernel`)."""
    stack: list[tuple[Loop | None, list[Statement | Nest]]] = [(None, [])]
    for s in kernel.statements:
        if isinstance(s, Loop):
            stack.append((s, []))
        elif isinstance(s, End):
            loop, body = stack.pop()
            assert loop is not None
            stack[-1][1].append(Nest(loop, tuple(body)))
        else:
            stack[-1][1].append(s)
    return tuple(stack[0][1])


def nests(nodes: Sequence[Statement | Nest]) -> Iterator[Nest]:
    """Every loop, an outer one before those inside it."""
    for node in nodes:
        if isinstance(node, Nest):
            yield node
            yield from nests(node.body)


def statements(nodes: Sequence[Statement | Nest]) -> Iterator[Statement]:
    """Every statement that is no loop, in order."""
    for node in nodes:
        if isinstance(node, Nest):
            yield from statements(node.body)
        else:
            yield node
