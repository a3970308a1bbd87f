"""What the queries must find, found again in the plainest Python."""

from collections import defaultdict
from dataclasses import dataclass

from presk_db.kernels.launches import LaunchOrder

Window = tuple[int, int, int]
"""Buffer, first element, the element after the last."""


@dataclass
class Item:
    """A launch or a call that a call makes."""

    at: int
    launch: int | None
    call: int | None
    windows: list[tuple[Window, str]]


class Oracle:
    """Owners, arguments and canonical forms of every call that launches something."""

    def __init__(self, order: LaunchOrder) -> None:
        self.order = order
        self.uses: defaultdict[int, list[int]] = defaultdict(list)
        for number, launch in enumerate(order.launches):
            for view in launch.arguments:
                self.uses[view.buffer].append(number)
        self.children: defaultdict[int, list[int]] = defaultdict(list)
        for call in order.calls:
            if call.parent is not None and self.launches_of(call.id):
                self.children[call.parent].append(call.id)
        self.arguments: dict[int, list[tuple[Window, str]]] = {}
        self.canonical: dict[int, object] = {}
        self.items: dict[int, list[Item]] = {}
        self.locals: dict[int, list[int]] = {}
        if order.launches:
            self.visit(0)

    def path(self, call: int) -> list[int]:
        found = [call]
        while (parent := self.order.calls[found[0]].parent) is not None:
            found.insert(0, parent)
        return found

    def launches_of(self, call: int) -> list[int]:
        return [n for n, launch in enumerate(self.order.launches) if call in self.path(launch.call)]

    def owner(self, buffer: int) -> int | None:
        if self.order.buffers[buffer].role != "temp":
            return None
        paths = [self.path(self.order.launches[n].call) for n in self.uses[buffer]]
        common = [step[0] for step in zip(*paths, strict=False) if len(set(step)) == 1]
        return common[-1]

    def visit(self, call: int) -> None:
        items = []
        for n, launch in enumerate(self.order.launches):
            if launch.call == call:
                windows = []
                for array, view in zip(launch.kernel.arrays, launch.arguments, strict=True):
                    size = 1
                    for extent in view.shape:
                        size *= extent
                    mode = "read" if array.mode == "in" else "write"
                    windows.append(((view.buffer, view.offset, view.offset + size), mode))
                items.append(Item(n, n, None, windows))
        for child in self.children[call]:
            self.visit(child)
            items.append(Item(self.launches_of(child)[0], None, child, self.arguments[child]))
        self.items[call] = sorted(items, key=lambda item: item.at)
        self.arguments[call] = self.needed(call)
        self.canonical[call] = self.form(call)

    def needed(self, call: int) -> list[tuple[Window, str]]:
        """The arguments: windows not owned; spanned where a fold's iterations differ; those inside others left out."""
        wanted = [w for item in self.items[call] for w in item.windows if self.owner(w[0][0]) != call]
        spread = self.spread(call)
        windows: list[Window] = []
        for (buffer, start, stop), _ in wanted:
            if buffer in spread:
                own = [w for w, _ in wanted if w[0] == buffer]
                start, stop = min(w[1] for w in own), max(w[2] for w in own)
            if (buffer, start, stop) not in windows:
                windows.append((buffer, start, stop))
        outer = [w for w in windows if not any(v != w and inside(w, v) for v in windows)]
        found = []
        for window in sorted(outer, key=lambda o: (min(i for i, (w, _) in enumerate(wanted) if inside(w, o)), o[1])):
            modes = {mode for w, mode in wanted if inside(w, window)}
            found.append((window, modes.pop() if len(modes) == 1 else "both"))
        return found

    def spread(self, call: int) -> set[int]:
        offsets: defaultdict[tuple[int | None, int, int], set[int]] = defaultdict(set)
        for item in self.items[call]:
            fold = None if item.call is None else self.order.calls[item.call].fold
            if fold is not None:
                for position, ((buffer, start, _), _) in enumerate(item.windows):
                    offsets[fold, position, buffer].add(start)
        return {key[2] for key, found in offsets.items() if len(found) > 1}

    def form(self, call: int) -> object:
        """Everything that a function for this call depends on."""
        owned: list[int] = []
        for n in self.launches_of(call):
            for view in self.order.launches[n].arguments:
                if self.owner(view.buffer) == call and view.buffer not in owned:
                    owned.append(view.buffer)
        self.locals[call] = owned
        folds = sorted(
            {f for i in self.items[call] if i.call is not None and (f := self.order.calls[i.call].fold) is not None}
        )
        lines: list[object] = []
        for item in self.items[call]:
            slots = tuple(self.slot(call, window) for window, _ in item.windows)
            if item.launch is not None:
                launch = self.order.launches[item.launch]
                lines.append((launch.kernel.text, slots, launch.scalars))
            else:
                assert item.call is not None
                callee = self.order.calls[item.call]
                fold = None if callee.fold is None else (folds.index(callee.fold), callee.iteration)
                lines.append((self.canonical[item.call], slots, fold))
        types = tuple((self.order.buffers[b].type, self.order.buffers[b].elements) for b in owned)
        return self.order.functions[self.order.calls[call].function].name, types, tuple(lines)

    def slot(self, call: int, window: Window) -> tuple[str, int, int]:
        if self.owner(window[0]) == call:
            return "local", self.locals[call].index(window[0]), window[1]
        position = next(p for p, (w, _) in enumerate(self.arguments[call]) if inside(window, w))
        return "argument", position, window[1] - self.arguments[call][position][0][1]


def inside(inner: Window, outer: Window) -> bool:
    """Whether a window lies in another."""
    return inner[0] == outer[0] and inner[1] >= outer[1] and inner[2] <= outer[2]
