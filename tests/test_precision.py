"""Float64 inside, NumPy outside, and the user's own setting as it was."""

import threading
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import saddlescope as ss
from saddlescope.dynamics import solver_error
from saddlescope.errors import InvalidInput
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


SINGLE = ss.GradientFlow(until=800, rtol=1e-5, precision="float32")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "method",
    [SINGLE, ss.GradientDescent(learning_rate=0.2, steps=2000, precision="float32")],
    ids=["flow", "descent"],
)
def test_single_precision_is_near_double(method: Any) -> None:
    """What is recorded is float32, as near float64 as its digits and tolerances allow."""
    task = ss.InContextRegression([0.6, 0.3], context_length=31)
    setting = ss.Setting(ss.SeparateAttention(3), task, method, ss.RandomStart(0.1), seeds=3)
    run = ss.train(setting)
    double = ss.train(setting.replace(precision="float64"))
    assert {str(array.dtype) for array in run.dataset.values()} == {"float32"}
    assert {str(array.dtype) for array in double.dataset.values()} == {"float64"}
    np.testing.assert_allclose(run.loss, double.loss, rtol=0, atol=2e-4)
    if method.counts_steps:
        (many,) = ss.train_many([setting])
        np.testing.assert_allclose(many.loss, run.loss, rtol=0, atol=1e-6)
        assert many.loss.dtype == np.float32
    assert not jax.config.jax_enable_x64


@pytest.mark.usefixtures("short_segments")
def test_a_single_precision_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    task = ss.InContextRegression([0.6, 0.3], context_length=31)
    arguments = {"init_scale": 0.1, "seeds": 3, "method": SINGLE}
    whole = ss.train(ss.SeparateAttention(3), task, **arguments)
    with pytest.raises(ss.Interrupted) as stopped:
        ss.train(ss.SeparateAttention(3), task, **arguments, observers=[lambda at: at.stop()])
    stopped.value.snapshot.result.save(tmp_path / "part")
    assert ss.resume(ss.load(tmp_path / "part")).equals(whole)
    assert solver_error(whole) < 1e-3


def test_less_than_single_precision_holds_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"rtol = 1e-08: must be at least 1e-05 in float32"):
        ss.GradientFlow(until=10, precision="float32")
    with pytest.raises(InvalidInput, match="precision"):
        ss.GradientFlow(until=10, precision="float16")
    with pytest.raises(InvalidInput, match="steps"):
        ss.GradientDescent(learning_rate=0.1, steps=2**31, precision="float32")
