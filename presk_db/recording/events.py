"""What a native run leaves behind, as plain data: events in order, observed tensors, and the recording that holds all."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from presk_db.kernels.launches import LaunchOrder
from presk_db.kernels.plan_file import Plan

TensorRole = Literal["input", "weight", "output"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class CallEntered:
    """Execution entered the call with this number."""

    call: int


@dataclass(frozen=True)
class CallLeft:
    """Execution left the call with this number."""

    call: int


@dataclass(frozen=True)
class Launched:
    """The launch with this number ran, in so many nanoseconds; `hashes` are those of the arrays that it wrote, in order.

    The nanoseconds of a run on another machine are not known here: None.
    """

    launch: int
    nanoseconds: int | None
    hashes: tuple[int, ...] = ()


Event = CallEntered | CallLeft | Launched


class Recorder(Protocol):
    """What a native run reports to."""

    def event(self, event: Event) -> None:
        """Takes note of one event."""


@dataclass
class EventList:
    """A recorder that keeps every event in order."""

    events: list[Event]

    def event(self, event: Event) -> None:
        """Appends the event."""
        self.events.append(event)


@dataclass(frozen=True)
class ObservedTensor:
    """The contents of one buffer at an observed moment.

    `data` has the buffer's shape; bf16 as uint16 bits, bool as uint8, others in their own dtype; NaNs are canonical.
    A weight's data may be None: then only `digest` (SHA-256 of the little-endian bytes) is kept.
    """

    role: TensorRole
    buffer: int
    name: str
    type: str
    shape: tuple[int, ...]
    digest: str
    data: Array | None


@dataclass(frozen=True)
class WeightsReference:
    """Where the weights come from: drawn from a seed, or a file with this SHA-256.

    `path` is where the file was on the recording machine: only `presk check` reads it, never an emission or an archive.
    """

    kind: Literal["seed", "file", "none"]
    seed: int | None
    digest: str | None
    path: str | None


@dataclass(frozen=True)
class RecordedTokenizer:
    """A tokenizer: `content` is the compact file that the C tokenizer reads, `digest` its SHA-256.

    `pre_tokenizer` names how it cuts a text; `no_chat` says why there is no chat template, None where there is one.
    """

    digest: str
    pre_tokenizer: str
    tokens: int
    merges: int
    no_chat: str | None
    content: bytes


@dataclass(frozen=True)
class Recording:
    """One recorded run. `spec` is canonical JSON without any path; `graph` is the graph's text.

    `plan` holds the schedules that were asked for; without one, an emission takes the default of a kernel.
    """

    name: str
    entry: str
    family: str
    spec: str
    graph: str
    order: LaunchOrder
    events: tuple[Event, ...]
    tensors: tuple[ObservedTensor, ...]
    weights: WeightsReference
    nanoseconds: int | None
    plan: Plan = ()
    tokenizer: RecordedTokenizer | None = None
