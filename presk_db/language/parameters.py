"""What an entry is given: parameters, with the checkpoint's tensors that fill them, and inputs."""

from presk_db.language.graph import Input, Parameter, SourceTensor


def parameter(
    tensor: str,
    *shape: int,
    transposed: bool = False,
    scale: float = 0.02,
    center: float = 0.0,
    layers: int | None = None,
) -> Parameter:
    """A parameter of `shape` filled from the checkpoint's `tensor`; with `layers`, stacked from `tensor.format(l)`.

    `transposed` says that the checkpoint holds the transpose of the matrix. From a seed its elements are uniform in
    center ± scale·√3, so that their deviation is `scale`.
    """
    stored = shape[::-1] if transposed else shape
    names = [tensor] if layers is None else [tensor.format(l) for l in range(layers)]
    reach = scale * 1.7320508075688772
    full = shape if layers is None else (layers, *shape)
    sources = tuple(SourceTensor(n, stored, transposed) for n in names)
    return Parameter(full, sources, center - reach, center + reach)


def real_input(*shape: int, low: float = -1.0, high: float = 1.0) -> Input:
    """An input of real numbers; from a seed they are uniform in [low, high)."""
    return Input("real", shape, low=low, high=high)


def scalar_input(value: float) -> Input:
    """A run-time number, such as a learning rate: f64 in every realization; from a seed it is `value`."""
    return Input("real", (), scalar=True, low=value, high=value)


def state_input(*shape: int, low: float = -1.0, high: float = 1.0) -> Input:
    """Reals that the caller keeps from run to run: `put_rows` writes them in place, and the entry returns them by name."""
    return Input("real", shape, low=low, high=high, state=True)


def key_input() -> Input:
    """A key, from which tokens and uniform numbers are drawn: in memory 8 integers in [0, 2^32)."""
    return Input("key", ())


def int_input(*shape: int, limit: int) -> Input:
    """An input of integers in [0, limit), such as tokens."""
    return Input("int", shape, limit)
