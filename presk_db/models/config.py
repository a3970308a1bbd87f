"""Reading a config.json's fields: typed, with every field that is not read accounted for."""

from collections.abc import Mapping
from typing import Any

from presk_db.errors import ConfigFieldUnknown, ConfigValueBad

HARMLESS: frozenset[str] = frozenset(  # one word a field
    """_name_or_path architectures attention_dropout attn_pdrop bos_token_id classifier_dropout dtype embd_pdrop
    eos_token_id finetuning_task gradient_checkpointing id2label initializer_range keys_to_ignore_at_inference label2id
    max_window_layers model_type n_ctx name_or_path output_attentions output_hidden_states pad_token_id pretraining_tp
    problem_type reorder_and_upcast_attn resid_pdrop return_dict sep_token_id summary_activation summary_first_dropout
    summary_proj_to_labels summary_type summary_use_proj task_specific_params tokenizer_class torch_dtype
    transformers_version transformers.js_config unk_token_id use_cache is_llama_config""".split()  # noqa: SIM905 - a list of many quoted words reads worse
)
"""Fields that never change the result of a forward pass without dropout."""

LARGEST = 1.7976931348623157e308
MOST_LAYERS = 4096
"""More would be a mistake: each layer of a recording has rows of its own."""


def _short(value: Any) -> str:
    """The value for a message: a JSON number may have thousands of digits, and Python refuses to print those."""
    if isinstance(value, int) and not -(10**40) < value < 10**40:
        return "a number of more than 40 digits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class Config:
    """A config's fields, each taken once; `finish` refuses what nobody took."""

    def __init__(self, fields: Mapping[str, Any], place: str = "config.json") -> None:
        self.fields = dict(fields)
        self.place = place
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """The field's value, or `default` where it is missing or null."""
        self.asked.add(name)
        value = self.fields.get(name)
        return default if value is None else value

    def integer(self, name: str, default: int | None = None, low: int = 1, high: int = 2**31) -> int:
        """An integer field in [low, high]."""
        value = self.get(name, default)
        if value is None:
            raise ConfigValueBad(f"{name} is missing", self.place)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ConfigValueBad(f"{name} must be an integer from {low} to {high}, not {_short(value)}", self.place)
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A positive finite number."""
        value = self.get(name, default)
        if value is None:
            raise ConfigValueBad(f"{name} is missing", self.place)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value <= LARGEST:
            raise ConfigValueBad(f"{name} must be a positive number, not {_short(value)}", self.place)
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """true or false."""
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise ConfigValueBad(f"{name} must be true or false, not {_short(value)}", self.place)
        return value

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        """One of some words."""
        value = self.get(name, default)
        if value not in choices:
            raise ConfigValueBad(f"{name} is {_short(value)}; presk knows {', '.join(choices)}", self.place)
        return str(value)

    def only(self, name: str, *values: Any) -> None:
        """A field that presk understands only at these values (or missing)."""
        value = self.get(name, values[0])
        if not any(value == v and isinstance(value, bool) == isinstance(v, bool) for v in values):
            raise ConfigFieldUnknown(
                f"{name} = {_short(value)} is not supported; presk knows {values[0]!r}", self.place
            )

    def finish(self) -> None:
        """Raises ConfigFieldUnknown (E1005) for the first field that nobody took."""
        for name in sorted(self.fields):
            if name not in self.asked and name not in HARMLESS:
                raise ConfigFieldUnknown(f"{name} is not understood and could change the result", self.place)
