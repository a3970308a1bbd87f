"""The sizes of the modules and primitives that are compared with PyTorch: options of pytest."""

from dataclasses import dataclass, fields

import pytest


@dataclass(frozen=True)
class Sizes:
    """B batch, T tokens, C width, H heads, G key-value heads, D width of a head, F inner width, V vocabulary."""

    batch: int
    tokens: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int

    @property
    def inner(self) -> int:
        """F: 8/3 of the width, upwards."""
        return -(-8 * self.width // 3)

    @property
    def vocabulary(self) -> int:
        """V: an odd number above the width."""
        return 2 * self.width + 3


def sizes_from_options(config: pytest.Config) -> Sizes:
    """The sizes asked for; UsageError where they do not fit together."""
    sizes = Sizes(**{f.name: int(config.getoption(f.name)) for f in fields(Sizes)})
    for f in fields(Sizes):
        if getattr(sizes, f.name) < 1:
            raise pytest.UsageError(f"--{f.name.replace('_', '-')} must be at least 1")
    if sizes.heads % sizes.kv_heads:
        raise pytest.UsageError(f"--heads {sizes.heads} is not a multiple of --kv-heads {sizes.kv_heads}")
    if sizes.head_dim % 2:
        raise pytest.UsageError(f"--head-dim {sizes.head_dim} is odd; rotary positions need pairs")
    return sizes
