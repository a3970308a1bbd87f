"""tokenizer_of: the tokenizer that goes into a recording, checked against the entry's vocabulary."""

import hashlib

from presk_db.checkpoints.tokenizer_data import tokenizer_bytes
from presk_db.checkpoints.tokenizer_open import find_tokenizer, open_tokenizer
from presk_db.errors import PreskError, TokenizerBad
from presk_db.language.graph import Graph
from presk_db.recording.events import RecordedTokenizer
from presk_db.specs.spec import Spec

NONE = "none"
_GENERATES = "decode"


def tokenizer_of(spec: Spec, graph: Graph) -> RecordedTokenizer | None:
    """The spec's tokenizer; for the entry `decode` the model's own, where the spec names none.

    Errors: TokenizerBad (E1109) where it is not understood, or has more tokens than the entry's input `tokens` takes;
    those of reading it.
    """
    own = spec.tokenizer is None
    path = spec.tokenizer if not own else find_tokenizer(spec.model) if spec.entry == _GENERATES else None
    if path is None or path == NONE:
        return None
    limit = next((i.limit for name, i in graph.inputs if name == "tokens" and i.limit is not None), None)
    if limit is None:
        raise TokenizerBad(f"the entry {spec.entry} has no input tokens", path)
    try:
        data = open_tokenizer(path)
    except PreskError as error:
        if own:
            raise type(error)(f"{error.message} (tokenizer = none records without one)", error.place) from error
        raise
    if len(data.texts) > limit:
        raise TokenizerBad(
            f"it has {len(data.texts)} tokens, the model's vocabulary {limit}: it is another model's", path
        )
    content = tokenizer_bytes(data)
    no_chat = data.no_chat if data.chat is None else None
    digest = hashlib.sha256(content).hexdigest()
    return RecordedTokenizer(digest, data.pre_tokenizer, len(data.texts), len(data.merges), no_chat, content)
