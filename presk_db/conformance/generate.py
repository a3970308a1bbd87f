"""generated: a text from a prompt by a recorded step on the native executor; `presk_generate` in C is its twin."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from presk_db.conformance.sources import recorded_source
from presk_db.errors import InputBad, InputOutOfRange, LengthOpen
from presk_db.kernels.launches import LaunchOrder
from presk_db.keys import Key
from presk_db.native.messages import Message
from presk_db.native.numbers import Array, f32_from_bf16
from presk_db.native.sampling import Sampling, penalized, sampled
from presk_db.native.session import Session
from presk_db.native.tokenizer import Tokenizer
from presk_db.specs.weights import loaded_weights, resolved_parts, seeded_reader
from presk_db.store.emission import NO_STEP, STEP, chunk_of
from presk_db.store.engine import Engine
from presk_db.store.read import read_launch_order
from presk_db.store.recordings import StoredRecording
from presk_db.store.tokenizers import read_tokenizer


@dataclass(frozen=True)
class Request:
    """What is asked: a prompt as text (bytes) or as token ids, at most `most` tokens, and how they are drawn.

    With `chat` the prompt is a user's message, after the system message `system` or the template's own, and after the
    messages `earlier`, of user and assistant in turns.
    """

    text: bytes | None
    ids: tuple[int, ...] | None
    most: int = 100
    seed: int = 1
    sampling: Sampling = field(default_factory=Sampling)
    chat: bool = False
    system: bytes | None = None
    earlier: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Generated:
    """What came: the prompt's tokens, those of the text, the text, and why it ended: stop, length or context."""

    request: Request
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    text: str | None
    finish: str

    def document(self) -> str:
        """One JSON document in a line, as the program prints it with --json."""
        asked = self.request.text
        fields = {
            "prompt": None if asked is None else asked.decode(),
            "prompt_tokens": self.prompt,
            "tokens": self.tokens,
            "text": self.text,
            "seed": self.request.seed,
            "finish": self.finish,
        }
        return json.dumps(fields, ensure_ascii=False)


class Generator:
    """A recorded step, ready to run: its kernels compiled, its weights read, and the caches of what it ran last."""

    def __init__(
        self,
        engine: Engine,
        recording: StoredRecording,
        weights: str | None = None,
        chunk: StoredRecording | None = None,
    ) -> None:
        """With `chunk`, the recording of a step of several tokens, prompts go through that.

        Raises LengthOpen (E8009) where the recording is no step of one token, ChunksOther (E8010) where the other one is
        none of several that goes with it, E7004 for missing weights.
        """
        order = read_launch_order(engine, recording.id)
        shapes = {b.name: b.shape for b in order.buffers if b.role in ("input", "output")}
        limits = {b.name: b.limit for b in order.buffers if b.role == "input"}
        if not all(name in shapes for name in STEP) or shapes["tokens"] != (1, 1) or limits["pos"] is None:
            raise LengthOpen(NO_STEP, f"recording {recording.name}")
        self.context = limits["pos"]
        self.vocabulary = shapes["logits"][-1]
        tokenizer = read_tokenizer(engine, recording.id)
        self.tokenizer = None if tokenizer is None else Tokenizer(tokenizer.content)
        self.choices = self.vocabulary if self.tokenizer is None else self.tokenizer.count
        self.order = order
        self.weights = _weights(engine, recording, order, weights)
        self.chunk = 0 if chunk is None else chunk_of(engine, recording, chunk)
        self.chunk_order = None if chunk is None else read_launch_order(engine, chunk.id)
        self._sessions: tuple[Session, Session | None] | None = None
        self._held: list[int] = []

    def generated(self, request: Request, shown: Callable[[str], None] = lambda text: None) -> Generated:
        """The text; `shown` gets each piece as it comes. Tokens with which the one before began, too, are not run again.

        Raises InputBad (E1205) for an empty prompt, one longer than the context, or logits that are no numbers.
        """
        prompt = self._prompt(request)
        session, several = self._sessions = self._sessions or self._made()
        stream = None if self.tokenizer is None else self.tokenizer.stream()
        logits = self._read(session, several, prompt)
        tokens: list[int] = []
        pieces: list[str] = []
        finish = "length"
        seed = Key.from_seed(request.seed)
        while len(tokens) < request.most:
            token = self._drawn(request, seed, logits, [*prompt, *tokens], len(tokens))
            if self.tokenizer is not None and self.tokenizer.stops(token):
                finish = "stop"
                break
            tokens.append(token)
            pieces.append(stream.add(token) if stream is not None else f"{' ' * (len(tokens) > 1)}{token}")
            shown(pieces[-1])
            if len(tokens) == request.most:
                break
            if len(prompt) + len(tokens) > self.context:
                finish = "context"
                break
            logits = self._step(session, token, len(prompt) + len(tokens) - 1)
        if stream is not None:
            pieces.append(stream.end())
            shown(pieces[-1])
        text = None if stream is None else "".join(pieces)
        return Generated(request, prompt, tuple(tokens), text, finish)

    def _prompt(self, request: Request) -> tuple[int, ...]:
        ids = request.ids
        for token in ids or ():
            if not 0 <= token < self.vocabulary:
                raise InputOutOfRange(f"{token} must be in [0, {self.vocabulary})", "--ids")
        if ids is None:
            if self.tokenizer is None or request.text is None:
                raise InputBad("the recording has no tokenizer: give the prompt as token ids, by --ids")
            text = self._chat(request) if request.chat else request.text
            ids = tuple(int(t) for t in self.tokenizer.encoded(text, whole=not request.chat))
        if not ids:
            raise InputBad("the prompt is empty: it has no token")
        if len(ids) > self.context:
            raise InputBad(f"the prompt has {len(ids)} tokens, the context {self.context}")
        return ids

    def _chat(self, request: Request) -> bytes:
        assert self.tokenizer is not None and request.text is not None
        self.tokenizer.check_chats()
        text = self.tokenizer.chat_begin(request.system)
        for role, content in (*request.earlier, ("user", request.text)):
            text += self.tokenizer.chat_message(role, content)
        return (text + self.tokenizer.chat_answer()).encode()

    def _made(self) -> tuple[Session, Session | None]:
        """The step's session, and that of several tokens."""
        if self.chunk_order is None:
            return Session(self.order, self.weights), None
        named = {b.name: self.weights[b.id] for b in self.order.buffers if b.role == "weight"}
        weights = {b.id: named[b.name] for b in self.chunk_order.buffers if b.role == "weight"}
        return Session(self.order, self.weights), Session(self.chunk_order, weights)

    def _read(self, session: Session, several: Session | None, prompt: tuple[int, ...]) -> Array:
        """The logits behind the prompt, of which the caches may hold the first positions.

        In chunks where it has one at least: the last chunk ends with the prompt.
        """
        same = [a == b for a, b in zip(self._held, prompt[:-1], strict=False)]
        done = [*same, False].index(False)
        del self._held[done:]
        if several is None or len(prompt) < self.chunk:
            return [self._step(session, prompt[at], at) for at in range(done, len(prompt))][-1]
        several.take_states(session)
        for start in range(done, len(prompt), self.chunk):
            at = min(start, len(prompt) - self.chunk)
            several.run({"tokens": np.array([prompt[at : at + self.chunk]]), "pos": np.array(at)})
        session.take_states(several)
        self._held = list(prompt)
        return _numbers(several.output("logits")[0, -1])

    def _step(self, session: Session, token: int, at: int) -> Array:
        session.run({"tokens": np.array([[token]]), "pos": np.array(at)})
        self._held.append(token)
        return _numbers(session.output("logits").reshape(-1))

    def _drawn(self, request: Request, seed: Key, logits: Array, seen: list[int], number: int) -> int:
        x = logits[: self.choices]
        if request.sampling.penalty != 1:
            x = penalized(x, seen, request.sampling.penalty)
        token = sampled(request.sampling, float(seed.child(number).uniform(1)[0]), x)
        if token < 0:
            raise InputBad(f"no token can be drawn at position {len(seen)}: a logit is not a number")
        return token


def _numbers(logits: Array) -> Array:
    """A row of logits as numbers, in memory of its own."""
    return f32_from_bf16(logits) if logits.dtype == np.uint16 else logits.copy()


def _weights(engine: Engine, recording: StoredRecording, order: LaunchOrder, given: str | None) -> dict[int, Array]:
    if recording.weights_seed is not None:
        return loaded_weights(order, seeded_reader(recording.weights_seed), lambda *_: None)
    if not order.weights:
        return {}
    _, source = recorded_source(engine, recording, given)
    parts = resolved_parts(order.weights, source)
    return loaded_weights(order, lambda part: source.read(part.tensor), lambda *_: None, parts)
