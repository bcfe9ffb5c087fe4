"""How predictions, comparisons and distances are shown, on results made by hand."""

import dataclasses

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.comparison import (
    AlgorithmDistances,
    Comparison,
    DropComparison,
    PredictedPoint,
    PredictedSeed,
    Prediction,
    SeedComparison,
)

PREDICTION = Prediction(
    plateau_losses=(1.0, 0.5, 0.2),
    least_loss=0.2,
    fixed_points=(
        PredictedPoint((), 1.0, 0),
        PredictedPoint((0,), 0.5, 0),
        PredictedPoint((1,), 0.7, 1),
        PredictedPoint((0, 1), 0.2, 0),
    ),
    seeds=(PredictedSeed(7, (10.0, None)), PredictedSeed(3, (12.0, 40.0))),
    until=50.0,
    notes=("a < b",),
)
SILENT = Prediction(None, 0.2, (), (), 50.0, ())
COMPARISON = Comparison(
    (1.0, 0.5, 0.2),
    (
        SeedComparison(
            7,
            ss.Result.FINISHED,
            "",
            0.21,
            1e-9,
            (
                DropComparison(1, 10.0, 10.5, 0.99, 0.51),
                DropComparison(2, 40.0, 38.0, 0.51, 0.21),
            ),
        ),
        SeedComparison(
            3,
            ss.Result.DIVERGED,
            "why",
            0.5,
            None,
            (
                DropComparison(1, 12.0, None, 0.98, 0.5),
                DropComparison(2, None, None, 0.5, None),
            ),
        ),
    ),
    (),
)
MEASURED = Comparison(
    None,
    (
        SeedComparison(
            0, ss.Result.FINISHED, "", 0.2, None, (DropComparison(1, 5.0, None, 1.0, 0.2),)
        ),
        SeedComparison(1, ss.Result.FINISHED, "", 1.0, None, ()),
    ),
    ("no theory",),
)
DISTANCES = AlgorithmDistances(("zero", "ridge"), np.array([0.5, 0.01]), 0.1, 1.0)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (
            PREDICTION,
            "Prediction(3 plateaus, least loss 0.2, 4 fixed points, drop times of 2 seeds)",
        ),
        (
            SILENT,
            "Prediction(no plateaus, least loss 0.2, no fixed points, drop times of no seeds)",
        ),
        (COMPARISON, "Comparison(2 seeds, 3 drops, times predicted within 5 %)"),
        (MEASURED, "Comparison(2 seeds, 1 drop)"),
        (DISTANCES, "AlgorithmDistances(2 algorithms, nearest 'ridge')"),
    ],
    ids=["prediction", "silent prediction", "comparison", "measured", "distances"],
)
def test_a_repr_is_one_short_line(result: object, text: str) -> None:
    assert repr(result) == text


def test_a_prediction_prints_its_tables() -> None:
    assert str(PREDICTION).splitlines() == [
        "plateaus     1.00000  0.50000  0.20000",
        "least loss   0.20000",
        "",
        "fixed points (index: negative directions of the Hessian; those in order have none and are "
        "left at third order)",
        "  learned      loss  index",
        "  {}        1.00000      0",
        "  {e1}      0.50000      0",
        "  {e2}      0.70000      1",
        "  {e1, e2}  0.20000      0",
        "",
        "drop times (—: not by 50)",
        "  seed  drop 1  drop 2",
        "  7       10.0       —",
        "  3       12.0    40.0",
        "",
        "a < b",
    ]
    assert str(SILENT) == "least loss   0.20000"


def test_a_prediction_is_tidy() -> None:
    frame = PREDICTION.to_dataframe()
    assert frame[["seed", "drop"]].values.tolist() == [[7, 1], [7, 2], [3, 1], [3, 2]]
    np.testing.assert_equal(frame["predicted_time"].to_numpy(), [10.0, np.nan, 12.0, 40.0])
    assert frame["level_before"].tolist() == [1.0, 0.5, 1.0, 0.5]
    assert frame["level_after"].tolist() == [0.5, 0.2, 0.5, 0.2]
    assert SILENT.to_dataframe().shape == (0, 5)


def test_a_prediction_has_named_axes() -> None:
    data = PREDICTION.to_dataset()
    assert data["predicted_drop_time"].sel({"seed": 3, "drop": 2}) == 40.0
    assert np.isnan(data["predicted_drop_time"].sel({"seed": 7, "drop": 2}))
    assert data["level_loss"].sel(level=1) == 0.5
    assert data["point_loss"].values.tolist() == [1.0, 0.5, 0.7, 0.2]
    assert data["point_index"].values.tolist() == [0, 0, 1, 0]
    assert data["learned"].values.tolist() == [
        [False, False],
        [True, False],
        [False, True],
        [True, True],
    ]
    assert data["least_loss"] == 0.2
    assert dict(SILENT.to_dataset().sizes) == {
        "level": 0,
        "seed": 0,
        "drop": 0,
        "point": 0,
        "direction": 0,
    }


def test_a_comparison_has_named_axes() -> None:
    data = COMPARISON.to_dataset()
    assert data["seed"].values.tolist() == [7, 3]
    assert data["drop_time"].sel(seed=7).values.tolist() == [10.0, 40.0]
    assert data["error"].sel({"seed": 7, "drop": 1}) == pytest.approx(0.05)
    np.testing.assert_equal(data["plateau_loss"].sel(seed=3).values, [0.98, 0.5, np.nan])
    assert data["plateau_loss"].sel(seed=7).values.tolist() == [0.99, 0.51, 0.21]
    assert data["level_loss"].values.tolist() == [1.0, 0.5, 0.2]
    assert data["result"].values.tolist() == ["finished", "diverged"]
    np.testing.assert_equal(data["conserved_drift"].values, [1e-9, np.nan])


def test_a_prediction_and_a_comparison_merge() -> None:
    shared = PREDICTION.to_dataset()[["predicted_drop_time", "level_loss"]]
    ours = COMPARISON.to_dataset()[["drop_time", "level_loss"]]
    merged = shared.merge(ours, compat="no_conflicts")
    assert merged["drop_time"].sel({"seed": 7, "drop": 2}) == 40.0
    assert merged["predicted_drop_time"].sel({"seed": 7, "drop": 1}) == 10.0


def test_seeds_with_other_numbers_of_drops_are_padded() -> None:
    data = MEASURED.to_dataset()
    assert "level_loss" not in data
    np.testing.assert_equal(data["drop_time"].values, [[5.0], [np.nan]])
    np.testing.assert_equal(data["plateau_loss"].values, [[1.0, 0.2], [np.nan, np.nan]])
    empty = dataclasses.replace(MEASURED, seeds=MEASURED.seeds[1:]).to_dataset()
    assert dict(empty.sizes) == {"seed": 1, "level": 0, "drop": 0}


def test_notebooks_show_the_same_tables() -> None:
    html = PREDICTION._repr_html_()
    assert html.count("<table>") == 2
    assert "<td>{e1, e2}</td><td>0.20000</td>" in html
    assert "<td>7</td><td>10.0</td><td>—</td>" in html
    assert "a &lt; b" in html
    assert SILENT._repr_html_() == "<p>least loss: 0.20000</p>"
    assert COMPARISON._repr_html_().count("<tr>") == 1 + 4
    assert "<td>ridge</td><td>1.000e-02</td>" in DISTANCES._repr_html_()


def test_distances_are_labelled_by_algorithm() -> None:
    assert str(DISTANCES).splitlines()[2:] == [
        "zero       5.000e-01",
        "ridge      1.000e-02",
        "nearest: ridge",
    ]
    assert DISTANCES.to_dataset()["distance"].sel(algorithm="ridge") == 0.01
    assert DISTANCES.to_dataset()["error"] == 0.1
    assert DISTANCES.to_dataframe()["distance"].tolist() == [0.5, 0.01]
