"""Shapes and types are checked while tests run: of arguments, and of results against them."""

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError, jaxtyped
from tests.checking import checked


@jaxtyped(typechecker=checked)
def head(
    x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], count: float
) -> Float[np.ndarray, " n"]:
    return (x + y)[: int(count)]


def test_what_fits_passes() -> None:
    assert head(np.zeros(2), np.ones(2), 2).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ((np.zeros(2), np.zeros(3), 2), "parameters"),
        ((np.zeros((2, 2)), np.zeros(2), 2), "parameters"),
        ((np.zeros(2, dtype=int), np.zeros(2), 2), "parameters"),
        ((np.zeros(2), np.zeros(2), "2"), "parameters"),
        ((np.zeros(2), np.zeros(2), 1), "return value"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple[object, ...], about: str) -> None:
    with pytest.raises(TypeCheckError, match=f"checking the {about} of"):
        head(*arguments)  # type: ignore[arg-type]
