"""The page of a sweep."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from playwright.sync_api import Browser
from tests.browser.opened import OpenedPage

from saddlescope.sweep.page import write_sweep_page


def test_the_page_holds_all_numbers_and_asks_nothing_of_anybody(
    tmp_path: Path, browser: Browser
) -> None:
    scales, heads = [0.01, 0.1, 1.0], [2, 4]
    times = np.arange(36.0).reshape(3, 2, 3, 2) + 1
    coordinates = {"init_scale": scales, "heads": heads, "seed": [0, 1, 2], "drop": [1, 2]}
    drops = (("init_scale", "heads", "seed"), times[..., 0])
    array = xr.Dataset({"drop_time": (tuple(coordinates), times), "drops": drops}, coordinates)
    page = write_sweep_page(array, tmp_path / "page.html")
    (data,) = re.findall(r'id="data">(.*?)</script>', page.read_text())
    kept = json.loads(data)["kept"]
    assert kept["drops"]["mean"] == pytest.approx(
        array["drops"].mean("seed").to_numpy().ravel(), 1e-5
    )
    opened = OpenedPage(browser, page.as_uri(), "light")
    assert opened.complaints == []
    assert opened.requests == [page.as_uri()]
    view = opened.page
    chart = view.locator("#chart")
    assert view.locator("#sliders input").count() == 1, "drop, which is neither side"
    before = chart.evaluate("chart => chart.toDataURL()")
    view.locator("#sliders input").fill("1")
    assert view.locator("#sliders output").inner_text() == "2"
    assert chart.evaluate("chart => chart.toDataURL()") != before
    view.locator("#choices select").nth(2).select_option("")
    assert view.locator("#sliders input").count() == 2
    chart.hover()
    assert re.fullmatch(r"init_scale = 0\.1: drop_time = [\d.]+", view.inner_text("#readout"))
    opened.context.close()
