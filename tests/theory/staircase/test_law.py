"""The law of the first drop over random starts: against fresh starts, and against itself."""

import numpy as np
import pytest
from scipy.stats import kstest

import saddlescope as ss
from saddlescope.errors import InvalidInput
from saddlescope.theory import dormant_staircase, drop_time_law, first_drop_times

TASK = ss.InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)


@pytest.mark.parametrize(
    "model", [ss.SeparateAttention(5), ss.SeparateAttention(3, rank=2)], ids=["rank 1", "rank 2"]
)
def test_it_is_that_of_the_first_drops_of_fresh_starts(model: ss.SeparateAttention) -> None:
    law = drop_time_law(model, TASK, init_scale=0.01)
    starts = ss.RandomStart(0.01).ensemble(model, TASK, np.arange(4000))
    times = first_drop_times(model, TASK, starts)
    assert kstest(times, lambda at: 1 - law.survival(at)).pvalue > 0.01


def test_training_follows_it() -> None:
    model = ss.SeparateAttention(heads=5)
    law = drop_time_law(model, TASK, init_scale=0.05)
    run = ss.train(
        model,
        TASK,
        init_scale=0.05,
        seeds=150,
        method=ss.GradientFlow(4000, rtol=1e-6),
        keep="drops",
    )
    times = run.summary()["drop_time"][:, 0].to_numpy()
    assert np.isfinite(times).all()
    assert kstest(times, lambda at: 1 - law.survival(at)).pvalue > 0.01


def test_its_parts_agree() -> None:
    law = drop_time_law(ss.SeparateAttention(heads=4), TASK, init_scale=0.01)
    shares = np.array([0.001, 0.05, 0.5, 0.95, 0.999])
    times = law.quantiles(shares)
    assert (np.diff(times) > 0).all()
    np.testing.assert_allclose(1 - law.survival(times), shares, rtol=0, atol=1e-4)
    grid = np.linspace(times[0], times[-1], 4001)
    density = law.density(grid)
    assert (density >= 0).all()
    total = np.trapezoid(density, grid)
    np.testing.assert_allclose(total, shares[-1] - shares[0], rtol=5e-3)
    assert law.density([0.0, 1e9]).tolist() == [0.0, 0.0]


def test_it_scales_as_one_over_the_start() -> None:
    model = ss.SeparateAttention(heads=4)
    small, large = (drop_time_law(model, TASK, init_scale=scale) for scale in (1e-3, 1e-2))
    np.testing.assert_allclose(
        1e-3 * (small.quantiles(0.3) + small.delay), 1e-2 * (large.quantiles(0.3) + large.delay)
    )


def test_samples_are_fresh_and_joint() -> None:
    model = ss.SeparateAttention(heads=5)
    law = drop_time_law(model, TASK, init_scale=0.01)
    drawn = law.sample(2000)
    assert drawn.shape == (2000, 1)
    assert kstest(drawn[:, 0], lambda at: 1 - law.survival(at)).pvalue > 0.01
    joint = law.sample(60, drops=3)
    assert (np.diff(joint, axis=1) > 0).mean() > 0.95
    np.testing.assert_allclose(joint[:, 0], drawn[:60, 0], rtol=1e-12)
    assert not np.isin(law.sample(50, first=2000), drawn).any()
    starts = ss.RandomStart(0.01).ensemble(model, TASK, np.arange(60))
    trained = dormant_staircase(model, TASK, starts).time[:, 2]
    assert kstest(joint[:, 2], trained).pvalue > 0.01


def test_what_it_cannot_say_is_refused() -> None:
    law = drop_time_law(ss.SeparateAttention(heads=2), TASK)
    for shares in (0.0, 1.0, [0.5, 2.0]):
        with pytest.raises(InvalidInput, match="shares"):
            law.quantiles(shares)
    with pytest.raises(InvalidInput, match="drops = 3: there are 2 at most"):
        law.sample(3, drops=3)
    with pytest.raises(InvalidInput, match="must be separate"):
        drop_time_law(ss.MergedAttention(heads=2), TASK)
