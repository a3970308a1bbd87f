"""Progress: one line on stderr for work that takes longer than a second."""

import sys
from time import monotonic

DELAY = 1.0  # seconds before the first line
STEP = 0.1  # seconds between two updates of a terminal's line


class Progress:
    """Shows `stage done/total`: on a terminal in place, else a line for each stage that is reached after a second."""

    def __init__(self) -> None:
        self.start = monotonic()
        self.last = 0.0
        self.stage = ""
        self.width = 0
        self.terminal = sys.stderr.isatty()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.done()

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Notes how far a stage is; total 0 where that is not known."""
        now = monotonic()
        if now - self.start < DELAY:
            return
        if self.terminal and (now - self.last >= STEP or stage != self.stage):
            text = f"{stage} {done}/{total}" if total else stage
            sys.stderr.write("\r" + text.ljust(self.width))
            sys.stderr.flush()
            self.width, self.last = len(text), now
        elif not self.terminal and stage != self.stage:
            sys.stderr.write(f"{stage} …\n")
        self.stage = stage

    def done(self) -> None:
        """Clears the line."""
        if self.terminal and self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
        self.width = 0
