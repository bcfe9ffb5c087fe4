"""What steps and batches add to the coupled modes, against descents on sampled prompts."""

import numpy as np
import pytest

from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import AlignedRegression, InContextRegression
from saddlescope.theory import batch_spread, coupled_modes

TASK = AlignedRegression([1.0, 0.5], context_length=8)
START, RATES, STEPS, BATCH = 0.1, (0.01, 0.03), 40, 32


def descents(count):
    """The modes of `count` descents on whole matrices, each prompt's gradient written out."""
    size = TASK.dimension
    p = np.tile(np.sqrt(START) * np.eye(size), (count, 1, 1))
    q = p.copy()
    for seed in range(len(RATES) * STEPS):
        prompts = TASK.sample(count * BATCH, seed=seed)
        x, y = prompts.x, prompts.y
        context = (y[:, :-1].mT @ x[:, :-1] / prompts.context_length).reshape(count, BATCH, 2, 2)
        query, target = x[:, -1].reshape(count, BATCH, 2), y[:, -1].reshape(count, BATCH, 2)
        read = (context @ q[:, None] @ query[..., None])[..., 0]
        left = target - read @ p.mT
        rate = 2 * RATES[seed // STEPS] / BATCH
        pulled = (context.mT @ p[:, None].mT @ left[..., None])[..., 0]
        p, q = p + rate * left.mT @ read, q + rate * pulled.mT @ query
    return np.diagonal(p @ q, axis1=1, axis2=2)


def test_mean_and_spread_of_many_descents():
    count = 400
    ends, predicted = descents(count), batch_spread(TASK, START, RATES, STEPS, BATCH)
    root = np.sqrt(START)
    flow = coupled_modes(TASK.spectrum, 8, root, root, [predicted.time[-1]]).amplitude[0]
    spread, shift = predicted.spread[-1], predicted.shift[-1]
    # A spread of 400 is known to 3.5 per cent, and that of a prompt's velocity to about 5.
    np.testing.assert_allclose(ends.std(axis=0, ddof=1), spread, rtol=0.2)
    error = spread / np.sqrt(count)
    assert (np.abs(ends.mean(axis=0) - flow - shift) < 3 * error).all()


def test_without_noise_it_is_the_error_of_finite_steps():
    """Descent on the population, step by step, is off by the shift to first order in the step."""
    errors = []
    for rate in (0.02, 0.01):
        steps = round(1.0 / rate)
        noise = batch_spread(TASK, START, [rate], steps, batch_size=10**12)
        s, z = TASK.spectrum.eigenvalues, np.full(4, np.sqrt(START))
        for _ in range(steps):
            p, q = np.split(z, 2)
            common = (1 + 1 / 8) * s**3
            p_speed = q * s**2 - p * (common * q**2 + s / 8 * (q**2 @ s**2))
            q_speed = p * s**2 - q * (common * p**2 + s**2 / 8 * (p**2 @ s))
            z = z + 2 * rate * np.concatenate([p_speed, q_speed])
        root = np.sqrt(START)
        flow = coupled_modes(s, 8, root, root, [noise.time[-1]]).amplitude[0]
        shift = z[:2] * z[2:] - flow
        errors.append(np.abs(noise.shift[-1] / shift - 1).max())
        assert noise.spread[-1].max() < 1e-3 * np.abs(shift).max()
    assert errors[1] < 0.6 * errors[0] < 0.05


def test_the_spread_falls_as_the_root_of_the_batch():
    few, many = (batch_spread(TASK, START, RATES, STEPS, batch_size=b) for b in (4, 64))
    np.testing.assert_allclose(few.spread, 4 * many.spread, rtol=1e-9)
    np.testing.assert_array_equal(few.shift, many.shift)


def test_where_it_does_not_apply():
    for task in (
        InContextRegression([0.4, 0.1], 5),
        AlignedRegression([0.4, 0.1], 5, tasks="independent"),
    ):
        with pytest.raises(TheoryDoesNotApply, match="aligned"):
            batch_spread(task, START, RATES, STEPS, BATCH)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("task", {"task": 3}),
        ("start", {"start": 0.0}),
        ("learning_rates", {"learning_rates": []}),
        ("learning_rates", {"learning_rates": [0.1, -0.1]}),
        ("steps", {"steps": 0}),
        ("batch_size", {"batch_size": 0}),
    ],
)
def test_bad_input_is_named(field, wrong):
    usual = {
        "task": TASK,
        "start": START,
        "learning_rates": RATES,
        "steps": STEPS,
        "batch_size": BATCH,
    }
    with pytest.raises(InvalidInput, match=field):
        batch_spread(**(usual | wrong))
