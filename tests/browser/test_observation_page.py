"""The page of observed runs, as the system's chromium shows it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import xarray as xr
from playwright.sync_api import Browser
from tests.browser.opened import OpenedPage

from saddlescope.report import write_observation_page

STEPS, LAYERS, HEADS, SIZE = [0, 10, 20, 50], 3, 4, 5


def observed(seed: int) -> xr.Dataset:
    """What `observe.load` gives, of numbers that are known."""
    random = np.random.default_rng(seed)
    axes, shape = ("step", "layer", "head"), (len(STEPS), LAYERS, HEADS)
    names = ("qk_effective_rank", "ov_effective_rank", "qk_drift", "ov_drift")
    data = {name: (axes, random.uniform(1, 4, shape)) for name in names}
    data["qk_drift"][1][0] = np.nan
    spectra = {
        f"{circuit}_spectrum": ((*axes, "index"), random.uniform(0.1, 1, (*shape, SIZE)))
        for circuit in ("qk", "ov")
    }
    steps = np.arange(1, 51)
    return xr.Dataset(
        {
            **data,
            **spectra,
            "in_context_score": ("step", random.normal(size=len(STEPS))),
            "loss": ("loss_step", 2 - 1.5 / (1 + np.exp((25 - steps) / 2))),
        },
        coords={
            "step": STEPS,
            "loss_step": steps,
            "layer_name": ("layer", [f"h.{n}" for n in range(LAYERS)]),
        },
        attrs={"adapter": "gpt2", "notes": ["a < b"], "problems": ["step 10: <lost>"]},
    )


@pytest.fixture(scope="module")
def runs() -> dict[str, xr.Dataset]:
    return {"first": observed(0), "second": observed(1)}


@pytest.fixture(scope="module")
def address(runs: dict[str, xr.Dataset], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "index.html"
    return write_observation_page(runs, path).as_uri()


@pytest.fixture(params=["light", "dark"])
def visit(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[OpenedPage]:
    opened = OpenedPage(browser, address, request.param)
    yield opened
    opened.context.close()


def test_all_is_linked_and_nothing_is_asked_of_the_network(
    visit: OpenedPage, address: str, runs: dict[str, xr.Dataset]
) -> None:
    page = visit.page
    elsewhere = [url for url in visit.requests if not url.startswith("data:") and url != address]
    assert elsewhere == []
    maps = page.locator("canvas.map")
    assert maps.count() == 2
    # Loss, course, two drifts, two spectra and the score; each with both runs.
    charts = page.locator("#observation .chart")
    assert charts.count() == 7
    assert page.locator("#observation .bar output").inner_text() == "50"

    # A click on a cell chooses its head in every chart.
    box = maps.first.bounding_box()
    assert box is not None
    maps.first.click(position={"x": box["width"] * 2.5 / HEADS, "y": box["height"] * 1.5 / LAYERS})
    titles = page.locator("#observation .chart h3").all_inner_texts()
    assert sum("head 1.2" in title for title in titles) == 5
    value = float(runs["first"].qk_effective_rank[-1, 1, 2])
    maps.first.hover(position={"x": box["width"] * 2.5 / HEADS, "y": box["height"] * 1.5 / LAYERS})
    assert f"h.1, head 2: qk_effective_rank {value:.4g}" in page.inner_text("#observation .maps")

    # Keys move it, and the measure changes what is drawn.
    maps.first.focus()
    page.keyboard.press("ArrowRight")
    assert "head 1.3" in page.locator("#observation .chart h3").nth(1).inner_text()
    page.select_option("#observation select", "ov_effective_rank")
    assert "ov_effective_rank" in page.locator("#observation .chart h3").nth(1).inner_text()

    # The slider moves every map to the last record that is not after it.
    page.locator("#observation input[type=range]").evaluate(
        "slider => { slider.value = 1; slider.dispatchEvent(new Event('input')); }"
    )
    assert [maps.nth(n).get_attribute("data-record") for n in range(2)] == ["1", "1"]
    assert page.locator("#observation .bar output").inner_text() == "10"
    assert visit.complaints == []


def ranges(visit: OpenedPage) -> list[list[float]]:
    """The steps that the time axes show."""
    stages = visit.page.locator("#observation [data-range]")
    found = [stages.nth(n).get_attribute("data-range") for n in range(stages.count())]
    return [[float(end) for end in (text or "").split()] for text in found]


def test_a_drag_zooms_all_time_axes_and_a_double_click_goes_back(visit: OpenedPage) -> None:
    page = visit.page
    assert ranges(visit) == [[0, 50]] * 5
    over = page.locator("#observation .chart .u-over").first
    box = over.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=4)
    page.mouse.up()
    for low, high in ranges(visit):
        # Within the pixels of a drag.
        assert (low, high) == (pytest.approx(10, abs=0.2), pytest.approx(30, abs=0.2))
    # Zooming leaves the slider where it was.
    assert page.locator("#observation .bar output").inner_text() == "50"
    page.locator("#observation .chart .u-over").first.dblclick()
    assert ranges(visit) == [[0, 50]] * 5
    assert visit.complaints == []


def test_texts_are_shown_as_they_are(visit: OpenedPage) -> None:
    text = visit.page.inner_text("main")
    assert "A < b." in text
    assert "step 10: <lost>" in text
    assert "Stages of the loss: first" in text
