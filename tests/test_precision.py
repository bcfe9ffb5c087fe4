"""Float64 inside, NumPy outside, and the user's own setting as it was."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saddlescope.precision import in_float64, to_numpy


@in_float64
def third() -> dict[str, object]:
    """A third."""
    return {"third": jnp.asarray(1.0) / 3, "word": "kept"}


def test_results_are_numpy_float64() -> None:
    result = third()
    assert isinstance(result["third"], np.ndarray)
    assert result["third"].dtype == np.float64
    assert result["third"] == 1 / 3
    assert result["word"] == "kept"
    assert third.__doc__ == "A third."


def test_the_setting_outside_is_untouched_even_by_an_error() -> None:
    @in_float64
    def fail() -> None:
        raise RuntimeError("inside")

    third()
    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert jnp.asarray(1.0).dtype == jnp.float32
    assert not jax.config.jax_enable_x64


def test_a_thread_enters_by_itself() -> None:
    found: list[object] = []
    thread = threading.Thread(
        target=lambda: found.extend([third()["third"].dtype, jnp.asarray(1.0).dtype])
    )
    thread.start()
    thread.join()
    assert found == [np.dtype("float64"), np.dtype("float32")]


def test_trees_are_copied_leaf_by_leaf() -> None:
    tree = {"a": [jnp.ones(2), 3], "b": (None, "word")}
    copied = to_numpy(tree)
    assert isinstance(copied["a"][0], np.ndarray)
    assert copied["a"][1:] == [3]
    assert copied["b"] == (None, "word")
