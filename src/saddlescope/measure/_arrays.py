"""NumPy arrays and torch tensors under one interface.

`numpy.linalg` and `torch.linalg` have the same names. Whatever is no tensor (JAX arrays, xarray,
lists) is read as a NumPy array. torch is never imported: where a tensor is given, it is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from saddlescope.checks import AnyArray, is_tensor
from saddlescope.errors import InvalidInput

Numbers = ArrayLike | Sequence[object]
"""What measures take: numbers in NumPy arrays, torch tensors, JAX arrays, xarray or lists."""


@runtime_checkable
class Array(Protocol):
    """The arrays that measures take and return: NumPy arrays or torch tensors."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def device(self) -> object: ...
    def __array__(self) -> AnyArray: ...
    def __getitem__(self, index: Any, /) -> Array: ...
    def __add__(self, other: Any, /) -> Array: ...
    def __sub__(self, other: Any, /) -> Array: ...
    def __rsub__(self, other: Any, /) -> Array: ...
    def __mul__(self, other: Any, /) -> Array: ...
    def __rmul__(self, other: Any, /) -> Array: ...
    def __truediv__(self, other: Any, /) -> Array: ...
    def __pow__(self, other: Any, /) -> Array: ...
    def __matmul__(self, other: Any, /) -> Array: ...
    def __and__(self, other: Any, /) -> Array: ...
    def __lt__(self, other: Any, /) -> Array: ...
    def __gt__(self, other: Any, /) -> Array: ...
    def __ge__(self, other: Any, /) -> Array: ...

    if TYPE_CHECKING:
        # NumPy has it for two axes or more: a check at run time would ask every array for it.
        @property
        def mT(self) -> Array: ...


Measured = Array | np.floating[Any]
"""What measures give: an array with an entry for each matrix, a number for a single one."""


def namespace(array: object) -> Any:
    """The module that computes with this array: `torch` or `numpy`."""
    return sys.modules["torch"] if is_tensor(array) else np


def real_arrays(axes: int | None = None, /, **given: object) -> list[Array]:
    """The arrays given by name, of one kind, on one device, in float32 or float64.

    All become tensors where one is, on its device. Lower precision is raised to float32, since
    neither library decomposes matrices in it. `axes` is the smallest number of axes allowed.
    """
    given = {name: _joined_tensors(name, value) for name, value in given.items()}
    tensor = next((value for value in given.values() if is_tensor(value)), None)
    arrays = {name: _floating(name, value, tensor) for name, value in given.items()}
    for name, array in arrays.items():
        shape = tuple(array.shape)
        if axes is not None and array.ndim < axes:
            raise InvalidInput(f"{name}.shape", shape, f"must have {axes} axes or more")
        if 0 in shape:
            raise InvalidInput(f"{name}.shape", shape, "must not be empty")
        if not _is_finite(array):
            raise InvalidInput(name, given[name], "must hold finite numbers only")
    wide = any(array.dtype.itemsize == 8 for array in arrays.values())
    return [_as_type(array, "float64" if wide else "float32") for array in arrays.values()]


def _is_finite(array: Any) -> bool:
    if not is_tensor(array):
        return bool(np.isfinite(array).all())
    # One pass without a copy: the extremes of what holds NaN are NaN.
    low, high = sys.modules["torch"].aminmax(array)
    return bool((low - low) + (high - high) == 0)


def _joined_tensors(name: str, value: object) -> object:
    """Tensors in a tuple or a list, such as the attentions of Hugging Face's models, as one."""
    if not isinstance(value, tuple | list) or not any(map(is_tensor, value)):
        return value
    shapes = [tuple(one.shape) if is_tensor(one) else None for one in value]
    if len(set(shapes)) > 1:
        raise InvalidInput(name, shapes, "must be tensors of one shape, each of them there")
    device = value[0].device
    return sys.modules["torch"].stack([one.detach().to(device) for one in value])


def _as_type(array: Any, dtype: str) -> Array:
    chosen = getattr(namespace(array), dtype)
    return array.to(chosen) if is_tensor(array) else array.astype(chosen, copy=False)


def _floating(name: str, value: Any, like: Any) -> Array:
    if is_tensor(value):
        if value.is_complex():
            raise InvalidInput(name, value, "must hold real numbers")
        wide = value.is_floating_point() and value.element_size() == 8
        return _as_type(value.detach(), "float64" if wide else "float32")
    try:
        array = np.asarray(value)
        if array.dtype.kind in "cO":
            raise InvalidInput(name, value, "must hold real numbers")
        # The small floats of JAX are of kind "V", and they are narrow too.
        narrow = array.dtype.kind in "fV" and array.dtype.itemsize <= 4
        array = array.astype(np.float32 if narrow else np.float64, copy=False)
    except (TypeError, ValueError) as wrong:
        if isinstance(wrong, InvalidInput):
            raise
        raise InvalidInput(name, value, "must be an array of numbers") from None
    return array if like is None else on_device_of(like, array)


def on_device_of(like: Array, array: AnyArray) -> Array:
    """A NumPy array converted to the kind of another array, on its device."""
    # A copy, since torch warns of arrays that may not be written to.
    return namespace(like).asarray(array.copy(), device=like.device)


def amplitude(array: Array) -> Array:
    """The largest absolute value of each matrix, 1 where it is zero: dividing by it is safe."""
    xp = namespace(array)
    largest = xp.amax(xp.abs(array), axis=(-2, -1), keepdims=True)
    return xp.where(largest > 0, largest, 1.0)


def frobenius(array: Array) -> Measured:
    """The Frobenius norm of each matrix, which overflows only where the norm itself does."""
    xp, scale = namespace(array), amplitude(array)
    return xp.sqrt(xp.sum((array / scale) ** 2, axis=(-2, -1))) * scale[..., 0, 0]


def above_rounding(values: Array, shape: tuple[int, ...]) -> Array:
    r"""Which singular values of matrices of shape [..., m, n] are not rounding.

    Those above $\max(m, n)\,\varepsilon\,\sigma_1$, as in `numpy.linalg.matrix_rank`.
    """
    epsilon = float(namespace(values).finfo(values.dtype).eps)
    return values > max(shape[-2:]) * epsilon * values[..., :1]
