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


def real_input(*shape: int) -> Input:
    """An input of real numbers."""
    return Input("real", shape)


def int_input(*shape: int, limit: int) -> Input:
    """An input of integers in [0, limit), such as tokens."""
    return Input("int", shape, limit)
