"""The page of a run, as the system's chromium shows it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from tests.browser.opened import OpenedPage

import saddlescope as ss
from saddlescope.comparison import Comparison
from saddlescope.report import write_run_page

# WCAG 2.1, success criterion 1.4.3: text at its usual size.
READABLE = 4.5


@pytest.fixture(scope="module")
def run() -> ss.Trajectory:
    task = ss.InContextRegression([0.6, 0.3], context_length=31)
    model = ss.SeparateAttention(heads=3)
    method = ss.GradientDescent(0.2, 5000)
    return ss.train(model, task, method=method, init_scale=0.1, seeds=3, record=200)


@pytest.fixture(scope="module")
def comparison(run: ss.Trajectory) -> Comparison:
    return run.compare()


@pytest.fixture(scope="module")
def address(
    run: ss.Trajectory, comparison: Comparison, tmp_path_factory: pytest.TempPathFactory
) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "index.html"
    return write_run_page(run, path, "saddlescope train --seeds 3").as_uri()


@pytest.fixture(scope="module", params=["light", "dark"])
def visit(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[OpenedPage]:
    opened = OpenedPage(browser, address, request.param)
    yield opened
    opened.context.close()


def test_nothing_is_asked_of_the_network_and_nothing_complains(
    visit: OpenedPage, address: str
) -> None:
    elsewhere = [url for url in visit.requests if not url.startswith("data:") and url != address]
    assert visit.requests
    assert elsewhere == []
    assert visit.complaints == []


def test_the_table_holds_the_comparison(visit: OpenedPage, comparison: Comparison) -> None:
    rows: list[list[str]] = visit.page.eval_on_selector_all(
        "tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    )
    expected = comparison.to_dict()
    drops = [(seed, drop) for seed in expected["seeds"] for drop in seed["drops"]]
    assert len(rows) == len(drops) == 6
    for row, (seed, drop) in zip(rows, drops, strict=True):
        seed_text, number, before, after, time, predicted, error = row
        assert (int(seed_text), int(number)) == (seed["seed"], drop["number"])
        assert float(before) == pytest.approx(drop["loss_before"], abs=5e-6)
        assert float(after) == pytest.approx(drop["loss_after"], abs=5e-6)
        assert float(time) == pytest.approx(drop["time"], abs=0.051)
        assert predicted.endswith("?") == drop["is_open"]
        time_text = predicted.removesuffix("?")
        assert float(time_text) == pytest.approx(drop["predicted_time"], abs=0.051)
        relative = 100 * (drop["predicted_time"] / drop["time"] - 1)
        assert float(error.removesuffix("%")) == pytest.approx(relative, abs=5.1e-4)
    text = visit.page.inner_text("main")
    for level in expected["plateau_losses"]:
        assert f"{level:.5f}" in text


def test_the_picture_is_drawn(visit: OpenedPage) -> None:
    box = visit.page.locator("figure svg").bounding_box()
    assert box is not None
    assert box["width"] > 600
    assert 100 < box["height"] < box["width"]
    # Three seeds' losses, among others, have an extent on the screen.
    wide = visit.page.eval_on_selector_all(
        "figure svg path",
        "paths => paths.filter(p => p.getBoundingClientRect().width > 150).length",
    )
    assert wide >= 3 + 2 + 3


def luminance(colour: tuple[float, ...]) -> float:
    """Relative luminance of an sRGB colour (WCAG 2.1)."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (part / 255 for part in colour[:3])
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def channels(text: str) -> tuple[float, ...]:
    """The red, green and blue of a computed colour."""
    found = tuple(float(number) for number in re.findall(r"[\d.]+", text))
    assert text.startswith("rgb"), text
    return found


COLOURS_OF_TEXT = """() => {
    const seen = [];
    for (const element of document.querySelectorAll('h1, h2, p, th, td, pre, code, figcaption')) {
        if (element.innerText.trim())
            seen.push([element.tagName, getComputedStyle(element).color]);
    }
    return [getComputedStyle(document.body).backgroundColor, seen];
}"""


def test_text_is_readable(visit: OpenedPage) -> None:
    background, seen = visit.page.evaluate(COLOURS_OF_TEXT)
    paper = channels(background)
    assert len(seen) > 40
    faint = {
        (name, colour): round(contrast(channels(colour), paper), 2)
        for name, colour in seen
        if contrast(channels(colour), paper) < READABLE
    }
    assert faint == {}


COLOURS_OF_PICTURE = """() => {
    const svg = document.querySelector('figure svg');
    const letters = [...svg.querySelectorAll('[id^=text_] use, [id^=text_] text, [id^=text_] path')]
        .filter(letter => !letter.closest('defs'));
    const axes = [...svg.querySelectorAll('[id^=xtick_] use, [id^=ytick_] use')]
        .filter(mark => !mark.closest('[id^=text_]'));
    return [
        getComputedStyle(document.body).backgroundColor,
        letters.map(letter => getComputedStyle(letter).fill),
        axes.map(mark => getComputedStyle(mark).stroke),
    ];
}"""


def test_letters_and_axes_of_the_picture_are_readable(visit: OpenedPage) -> None:
    background, letters, marks = visit.page.evaluate(COLOURS_OF_PICTURE)
    paper = channels(background)
    assert len(letters) > 20
    assert len(marks) > 10
    faint = {c for c in {*letters, *marks} if contrast(channels(c), paper) < READABLE}
    assert faint == set()


def test_the_two_schemes_differ(browser: Browser, address: str) -> None:
    papers: list[Any] = []
    for scheme in ("light", "dark"):
        opened = OpenedPage(browser, address, scheme)
        papers.append(channels(opened.page.evaluate(COLOURS_OF_TEXT)[0]))
        opened.context.close()
    assert luminance(papers[0]) > 0.8
    assert luminance(papers[1]) < 0.1


def test_a_telephone_does_not_scroll_sideways(browser: Browser, address: str) -> None:
    opened = OpenedPage(browser, address, "light", width=390)
    wider = opened.page.evaluate(
        "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    opened.context.close()
    assert wider <= 0
