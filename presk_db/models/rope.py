"""Rotary positions as configs describe them: the base, and how frequencies are scaled for longer contexts."""

from collections.abc import Mapping
from dataclasses import dataclass

from presk_db.errors import ConfigFieldUnknown, ConfigValueBad
from presk_db.language.nn import llama3_frequencies, rotary_frequencies
from presk_db.language.primitives import iota, real
from presk_db.language.tracing import Tensor
from presk_db.models.config import Config

_KEYS = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
"""The types that are understood, with the fields that each needs."""


@dataclass(frozen=True)
class Rope:
    """`kind` is a key of _KEYS; `scaling` holds its fields."""

    theta: float
    kind: str
    scaling: Mapping[str, float]

    def angles(self, t: int, d: int) -> Tensor:
        """The angle of each position and pair, (T, D/2)."""
        position = real(iota((t, d // 2), 0))
        frequency = rotary_frequencies((t, d // 2), d, self.theta)
        if self.kind == "linear":
            position = position / self.scaling["factor"]
        elif self.kind == "llama3":
            s = self.scaling
            frequency = llama3_frequencies(
                frequency,
                s["factor"],
                s["low_freq_factor"],
                s["high_freq_factor"],
                s["original_max_position_embeddings"],
            )
        return position * frequency


def rope_from_config(config: Config) -> Rope:
    """From rope_theta and rope_scaling (older files) or rope_parameters.

    Raises E1005 for a type or a field that is not understood, E1006 for a bad or missing value.
    """
    theta = config.get("rope_theta")
    config.only("partial_rotary_factor", 1.0)
    old, new = config.get("rope_scaling"), config.get("rope_parameters")
    name, fields = ("rope_scaling", old) if old else ("rope_parameters", new or {})
    if old and new and old != new:
        raise ConfigValueBad("rope_scaling and rope_parameters contradict each other", config.place)
    if not isinstance(fields, Mapping):
        raise ConfigValueBad(f"{name} must be an object", config.place)
    kind = fields.get("rope_type", fields.get("type", "default"))
    if not isinstance(kind, str) or kind not in _KEYS:
        known = ", ".join(_KEYS)
        raise ConfigFieldUnknown(f"{name}: rope_type {kind!r} is not understood; presk knows {known}", config.place)
    place = f"{config.place} {name}"
    scaling = Config(fields, place)
    for harmless in ("rope_type", "type", "rope_theta", *(("factor",) if kind == "default" else ())):
        scaling.get(harmless)
    scaling.only("partial_rotary_factor", 1.0)
    values = {key: scaling.number(key) for key in _KEYS[kind]}
    _finish(scaling)
    if kind == "llama3" and values["low_freq_factor"] >= values["high_freq_factor"]:
        raise ConfigValueBad("low_freq_factor must be below high_freq_factor", place)
    theta = fields.get("rope_theta", theta)
    return Rope(Config({"rope_theta": theta}, config.place).number("rope_theta", 10000.0), kind, values)


def _finish(scaling: Config) -> None:
    """Refuses what a scaling's type does not use, even fields that would be harmless in a model's config."""
    for name in sorted(scaling.fields):
        if name not in scaling.asked:
            raise ConfigFieldUnknown(f"{name} is not understood and could change the result", scaling.place)
