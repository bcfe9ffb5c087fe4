"""How fixed points are shown."""

import numpy as np

from saddlescope.task import InContextRegression
from saddlescope.theory import fixed_points

POINTS = fixed_points(InContextRegression([0.3, 0.3, 0.2], 31))


def test_the_repr_says_how_many() -> None:
    losses = POINTS.losses
    assert repr(POINTS) == (
        f"FixedPoints(6 of 3 eigenvectors, losses {losses.max():.5g} to {losses.min():.5g})"
    )
    assert repr(POINTS[0]).startswith("FixedPoint(subset=(), loss=0.")


def test_tables_count_eigenvectors_from_one() -> None:
    lines = str(POINTS).splitlines()
    assert lines[0].split() == ["learned", "loss", "index", "rest"]
    assert [line[: line.index("}") + 1] for line in lines[2:]] == [
        "{}",
        "{e1}",
        "{e3}",
        "{e1, e2}",
        "{e1, e3}",
        "{e1, e2, e3}",
    ]
    assert [line.split()[-1] == "continuum" for line in lines[2:]] == [
        point.is_continuum for point in POINTS
    ]
    assert "{e1, e3}" in str(POINTS.at([0, 2]))
    assert POINTS._repr_html_().count("<tr>") == 1 + 6
    assert "<td>{e1, e3}</td>" in POINTS.at([0, 2])._repr_html_()


def test_the_frame_has_a_row_a_point() -> None:
    frame = POINTS.to_dataframe()
    assert frame["subset"].tolist() == [point.subset for point in POINTS]
    assert frame["loss"].tolist() == POINTS.losses.tolist()
    assert frame["index"].tolist() == POINTS.indices.tolist()


def test_the_data_set_counts_from_zero() -> None:
    data = POINTS.to_dataset()
    assert dict(data.sizes) == {"point": 6, "direction": 3}
    for place, point in enumerate(POINTS):
        learned = np.flatnonzero(data["learned"].isel(point=place))
        assert tuple(learned.tolist()) == point.subset
    np.testing.assert_array_equal(data["point_loss"], POINTS.losses)
    np.testing.assert_array_equal(data["amplitude"], POINTS.modes.amplitude)
