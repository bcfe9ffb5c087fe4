"""Shapes and types are checked while tests run: of arguments, and of results against them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError
from tests.checking import checked

from saddlescope.attention.formulas.blocks import split_coefficients


@checked
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


def test_a_result_of_another_kind_is_checked_though_the_arguments_have_passed() -> None:
    head(np.zeros(3), np.ones(3), 3)
    with pytest.raises(TypeCheckError, match="checking the return value of"):
        head(np.zeros(3), np.ones(3), 2)


def test_functions_within_functions_are_checked_as_they_are_made() -> None:
    def scaling(factor: float) -> Callable[[object], object]:
        @checked
        def scaled(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
            return factor * x

        return scaled  # type: ignore[return-value]

    values = np.ones(2)
    assert [float(scaling(factor)(values)[0]) for factor in (2.0, 3.0)] == [2.0, 3.0]  # type: ignore[index]
    with pytest.raises(TypeCheckError, match="checking the parameters of"):
        scaling(2.0)(np.ones((2, 2)))


def test_dataclasses_are_checked_where_they_are_made() -> None:
    @checked
    @dataclass
    class Pair:
        x: Float[np.ndarray, " n"]
        y: Float[np.ndarray, " n"]

    assert Pair(np.zeros(2), y=np.ones(2)).y.tolist() == [1.0, 1.0]
    with pytest.raises(TypeCheckError, match="checking the parameters of"):
        Pair(np.zeros(2), y=np.ones(3))


def test_packages_are_checked_as_they_are_imported() -> None:
    with pytest.raises(TypeCheckError, match="checking the parameters of"):
        split_coefficients(np.zeros((3, 3)), 1)  # type: ignore[arg-type]
