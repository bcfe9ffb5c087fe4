"""A sheet is read as it was written, and what is not understood is refused."""

import json

import numpy as np
import pytest

from saddlescope.charts import Sheet, SheetBuilder, read_sheet, write_sheet
from saddlescope.errors import CannotRead


def test_a_sheet_is_read_as_it_was_written(sheet: Sheet) -> None:
    again = read_sheet(*write_sheet(sheet))
    assert write_sheet(again) == write_sheet(sheet)
    assert again.colour_bars == sheet.colour_bars
    assert again.legend == sheet.legend
    for one, other in zip(sheet.panels, again.panels, strict=True):
        assert (one.x, one.y, one.legend, one.place) == (
            other.x,
            other.y,
            other.legend,
            other.place,
        )
        for layer, copy in zip(one.layers, other.layers, strict=True):
            assert type(layer) is type(copy)
            assert layer.look == copy.look
            for name, value in vars(layer).items():
                np.testing.assert_array_equal(value, getattr(copy, name))


def test_an_array_of_many_curves_is_kept_once() -> None:
    drawing, time = SheetBuilder(1, 1, 3, 3), np.linspace(0, 1, 100)
    for power in range(5):
        drawing.grid[0, 0].plot(time, time**power)
    described = json.loads(write_sheet(drawing.build())[0])
    layers = described["sheet"]["panels"][0]["layers"]
    assert {layer["x"]["array"] for layer in layers} == {0}
    assert len({layer["y"]["array"] for layer in layers}) == 5


@pytest.mark.parametrize(
    ("was", "put", "message"),
    [
        ('"format": 1', '"format": 2', "format 2: this version reads format 1"),
        ('"kind": "span"', '"kind": "quiver"', "'quiver'"),
        ('"axis": "y"', '"axis": "z"', "'z' is not allowed"),
        ('"label": "level"', '"name": "level"', "no field name"),
        ('"array": 0', '"array": 99', "99"),
        ("{", "", "cannot be read"),
    ],
)
def test_what_is_not_understood_is_refused(sheet: Sheet, was: str, put: str, message: str) -> None:
    text, packed = write_sheet(sheet)
    with pytest.raises(CannotRead, match=message) as refused:
        read_sheet(text.replace(was.encode(), put.encode(), 1), packed)
    assert "\n" not in str(refused.value)
