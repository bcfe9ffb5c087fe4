"""The page of a reproduction, as the system's chromium shows it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from PIL import Image
from playwright.sync_api import Browser, Locator
from tests.browser.opened import OpenedPage

from saddlescope.charts import Sheet
from saddlescope.drawing import COLOURS, draw_sheet
from saddlescope.figures import AbstractFigure, Claim, Watch
from saddlescope.figures.kit.claim import at_least, equal, relatively_within, within
from saddlescope.figures.kit.claims import Claims
from saddlescope.figures.kit.panels import levels, sheet
from saddlescope.figures.kit.reproduction import Result
from saddlescope.report import write_reproduction_page
from saddlescope.report._colours import luminance

# WCAG 2.1, success criterion 1.4.3: text at its usual size.
READABLE = 4.5
HOSTILE = "a <script>alert(1)</script> & \"quoted\" 'claim'"


@dataclass(frozen=True)
class Staircase(AbstractFigure):
    """Curves on a logarithmic axis beside a heat map."""

    heads: int = 3
    spectrum: tuple[float, ...] = (0.6, 0.3)

    id = "staircase"
    title = "A staircase & its map"
    source = "nobody, Figure 0"
    text = "What it <shows>."
    seconds = 1.0

    @classmethod
    def quick(cls) -> "Staircase":
        return cls(heads=2)

    def compute(self, watch: Watch) -> xr.Dataset:
        time = np.geomspace(1, 1000, 3000)
        loss = np.select([time < 10, time < 100], [1.0, 0.5], 0.25)
        return xr.Dataset({"loss": ("time", loss)}, coords={"time": time})

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        return (
            within("levels", [1.0, 0.52, 0.25], [1.0, 0.5, 0.25], 0.05),
            relatively_within("times", [10.0, np.nan], [10.0, 100.0], 0.01),
            at_least(HOSTILE, [0.2, 0.9], 0.99).expected_to_fail("the run is too short"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        drawing, axes = sheet(1, 2)
        chart, heat = axes[0]
        levels(chart, [1.0, 0.5, 0.25], "levels")
        chart.plot(data["time"], data["loss"], color=COLOURS[0], label="training")
        chart.set(xscale="log", xlim=(1, 1000), xlabel=r"time $t/\tau$", ylabel="loss")
        chart.legend()
        heat.imshow([[0.125, 0.0], [0.0, 0.75]], cmap="RdBu_r", vmin=-1, vmax=1)
        heat.xaxis.tick_at([0, 1], ["$e_1$", "$e_2$"])
        heat.yaxis.tick_at([0, 1], ["first", "second"])
        drawing.colorbar([heat], "$v_i$")
        return drawing.build()


@dataclass(frozen=True)
class Cloud(AbstractFigure):
    """Points and bars; too large a picture for the page."""

    starts: int = 40

    id = "cloud"
    title = "A cloud"
    source = "nobody, Figure 1"
    text = "Points."
    seconds = 1.0

    @classmethod
    def quick(cls) -> "Cloud":
        return cls(starts=10)

    def compute(self, watch: Watch) -> xr.Dataset:
        return xr.Dataset({"y": ("start", np.linspace(0.1, 1, self.starts))})

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        return (equal("order", [1, 2, 3], [1, 2, 3]), equal("shape", [1, 3, 2], [1, 2, 3]))

    def draw(self, data: xr.Dataset) -> Sheet:
        drawing, axes = sheet(1, 2)
        axes[0, 0].plot(data["y"], data["y"] ** 2, "o", color=COLOURS[5], label="starts")
        axes[0, 0].set(xlabel="predicted", ylabel="measured")
        axes[0, 0].legend()
        axes[0, 1].bar(["merged", "separate"], [2, 3], color=COLOURS[2])
        # They end before the last start, which is then the only thing near (1, 1).
        for height in np.linspace(0, 1, 60):
            axes[0, 0].plot(np.linspace(0, 0.9, 300), np.sin(np.arange(300)) + height, color="0.9")
        return drawing.build()


@dataclass(frozen=True)
class Broken(AbstractFigure):
    """A figure that cannot be made."""

    heads: int = 0

    id = "broken"
    title = "Broken"
    source = "nobody, Figure 2"
    text = "Nothing."
    seconds = 1.0

    @classmethod
    def quick(cls) -> "Broken":
        return cls()

    def compute(self, watch: Watch) -> xr.Dataset:
        raise NotImplementedError

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        raise NotImplementedError

    def draw(self, data: xr.Dataset) -> Sheet:
        raise NotImplementedError


def result_of(figure: AbstractFigure, folder: Path) -> Result:
    data = figure.compute(Watch())
    described = figure.draw(data)
    drawing = draw_sheet(described)
    (folder / figure.id).mkdir()
    files = {kind: f"{figure.id}/figure.{kind}" for kind in ("pdf", "png", "svg")}
    for name in files.values():
        drawing.savefig(folder / name)
    data.to_netcdf(folder / figure.id / "data.nc", engine="scipy")
    files["data"] = f"{figure.id}/data.nc"
    files["film"] = f"{figure.id}/film.gif"
    Image.open(folder / files["png"]).convert("L").save(folder / files["film"])
    command = f"saddlescope reproduce {figure.id}"
    return Result(figure, Claims(figure.claims(data)), 1.25, described, files, command, quick=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reproduction")


@pytest.fixture(scope="module")
def results(folder: Path) -> list[Result]:
    made = [result_of(Staircase(), folder), result_of(Cloud(), folder)]
    return [*made, Result(Broken(), problem="InvalidInput: heads 0 is too few")]


@pytest.fixture(scope="module")
def address(results: list[Result], folder: Path) -> str:
    path = write_reproduction_page(results, folder / "index.html", "saddlescope reproduce")
    return path.as_uri()


class Visit(OpenedPage):
    """A page that was opened, its charts shown."""

    def __init__(self, browser: Browser, address: str, scheme: str, width: int = 1280) -> None:
        super().__init__(browser, address, scheme, width)
        self.page.locator("#claims > summary").press("Enter")
        for button in self.page.locator("button.interactive").all() if width > 640 else ():
            button.press("Enter")

    def stage(self, place: int) -> Locator:
        return self.page.locator(".stage").nth(place)

    def view(self, place: int) -> list[float]:
        """The ends of the x axis and of the y axis of a chart."""
        text = self.stage(place).get_attribute("data-view")
        assert text is not None
        return [float(number) for number in text.split()]

    def point(self, place: int, across: float, down: float) -> tuple[float, float]:
        """A place of the screen, in shares of a chart's inside."""
        inside = self.stage(place).locator(".u-over")
        inside.scroll_into_view_if_needed()
        box = inside.bounding_box()
        assert box is not None
        return box["x"] + across * box["width"], box["y"] + down * box["height"]

    def readout(self, place: int) -> str:
        return self.page.locator(".readout").nth(place).inner_text()


@pytest.fixture(scope="module", params=["light", "dark"])
def visit(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    opened = Visit(browser, address, request.param)
    yield opened
    opened.context.close()


def test_only_files_beside_the_page_are_asked_for_and_nothing_complains(
    visit: Visit, address: str, folder: Path
) -> None:
    home = folder.as_uri() + "/"
    elsewhere = [url for url in visit.requests if not url.startswith(("data:", home))]
    assert address in visit.requests
    assert elsewhere == []
    assert visit.complaints == []


def test_every_image_is_decoded_and_every_link_leads_somewhere(visit: Visit, folder: Path) -> None:
    widths = visit.page.eval_on_selector_all("img", "all => all.map(image => image.naturalWidth)")
    assert len(widths) == 3
    assert min(widths) > 100
    links: list[str] = visit.page.eval_on_selector_all(
        "a", "all => all.map(link => link.getAttribute('href'))"
    )
    names = visit.page.eval_on_selector_all("[id]", "all => all.map(one => one.id)")
    assert len(set(names)) == len(names)
    for link in links:
        assert (link[1:] in names) if link.startswith("#") else (folder / link).is_file(), link
    assert sum(not link.startswith("#") for link in links) == 10


ROWS = """rows => rows.map(row => ({
    figure: row.dataset.figure, name: row.dataset.claim, verdict: row.dataset.verdict,
    expected: row.dataset.expected, cells: [...row.cells].map(cell => cell.innerText),
}))"""


def test_the_table_is_what_the_json_says(visit: Visit, results: list[Result]) -> None:
    rows = visit.page.eval_on_selector_all("#claims tr[data-claim]", ROWS)
    wanted = [(result.figure.id, claim) for result in results for claim in result.claims]
    assert len(rows) == len(wanted) == 5
    for row, (figure, claim) in zip(rows, wanted, strict=True):
        plain = claim.to_dict()
        assert row["figure"] == figure
        for name in ("name", "verdict", "expected"):
            assert row[name] == plain[name]
        link, name, verdict, expected, numbers = row["cells"]
        assert (link, numbers) == (figure, claim.summary)
        assert name == "\n".join(filter(None, (claim.name, claim.reason)))
        assert claim.verdict in verdict
        assert ("✓" if claim.verdict == "holds" else "✗") in verdict
        assert ("unexpectedly" in verdict) == (not claim.as_expected)
        assert expected == claim.expected


def test_every_number_of_a_claim_is_there(visit: Visit, results: list[Result]) -> None:
    found = visit.page.eval_on_selector_all(
        "section code[data-of]", "all => all.map(one => [one.dataset.of, one.textContent])"
    )
    wanted = [
        (name, claim.to_dict()[name])
        for result in results
        for claim in result.claims
        for name in ("relation", "measured", "predicted", "tolerance")
    ]
    assert [(name, json.loads(text)) for name, text in found] == wanted


def test_the_summary_counts(visit: Visit) -> None:
    text = visit.page.inner_text("#summary")
    assert text.startswith("5 claims about 2 figures judged; 3 as expected (1 of them known")
    assert "2 not; 1 figure could not be made" in text


def test_a_figure_that_could_not_be_made_says_why(visit: Visit) -> None:
    assert "heads 0 is too few" in visit.page.inner_text(".problem")
    assert "heads 0 is too few" in visit.page.inner_text("#claims tr[data-problem]")


def test_setting_time_and_command_are_shown(visit: Visit) -> None:
    text = visit.page.locator("section#staircase").inner_text()
    for part in ("heads\n3", "spectrum\n0.6, 0.3", "1.2 s", "saddlescope reproduce staircase"):
        assert part in text, part


def test_the_filter_leaves_what_is_not_as_expected(visit: Visit) -> None:
    rows = visit.page.locator("#claims tbody tr:visible")
    assert rows.count() == 6
    visit.page.check("#unexpected-only")
    assert rows.count() == 3
    visit.page.uncheck("#unexpected-only")


def test_small_pictures_are_part_of_the_page_and_large_ones_files(visit: Visit) -> None:
    assert visit.page.locator("section#staircase figure svg").count() == 1
    assert visit.page.locator("section#cloud figure svg").count() == 0
    assert visit.page.locator("section#cloud figure img").get_attribute("src") == "cloud/figure.png"


INK_OF_CHARTS = """all => all.map(canvas => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let drawn = 0;
    for (let place = 3; place < data.length; place += 4) drawn += data[place] > 0;
    return drawn / (canvas.width * canvas.height);
})"""


def test_charts_are_drawn(visit: Visit) -> None:
    assert visit.page.locator(".stage").count() == 4
    inked = visit.page.eval_on_selector_all(".stage canvas", INK_OF_CHARTS)
    assert min(inked) > 0.01
    assert visit.view(0)[:2] == pytest.approx([1, 1000])


def test_wheel_box_keys_and_buttons_zoom_and_a_double_click_goes_back(visit: Visit) -> None:
    whole = visit.view(0)
    visit.page.mouse.move(*visit.point(0, 0.5, 0.5))
    visit.page.mouse.wheel(0, -300)
    visit.page.wait_for_function(
        "was => document.querySelector('.stage').dataset.view !== was",
        arg=" ".join(map(js_number, whole)),
    )
    wheeled = visit.view(0)
    assert whole[0] < wheeled[0] < wheeled[1] < whole[1]
    assert whole[2] < wheeled[2] < wheeled[3] < whole[3]
    # About the middle of a logarithmic axis.
    assert np.sqrt(wheeled[0] * wheeled[1]) == pytest.approx(np.sqrt(1000), rel=0.02)

    visit.page.mouse.dblclick(*visit.point(0, 0.5, 0.5))
    settled(visit, whole)

    visit.page.mouse.move(*visit.point(0, 1 / 3, 0.2))
    visit.page.mouse.down()
    visit.page.mouse.move(*visit.point(0, 2 / 3, 0.8), steps=4)
    visit.page.mouse.up()
    visit.page.wait_for_function(
        "() => +document.querySelector('.stage').dataset.view.split(' ')[0] > 5"
    )
    boxed = visit.view(0)
    assert boxed[:2] == pytest.approx([10, 100], rel=0.05)

    visit.stage(0).press("0")
    settled(visit, whole)
    visit.stage(0).press("+")
    visit.page.wait_for_function(
        "() => +document.querySelector('.stage').dataset.view.split(' ')[1] < 999"
    )
    visit.page.locator(".chart").first.get_by_role("button", name="whole range").click()
    settled(visit, whole)


def js_number(value: float) -> str:
    return f"{value:g}" if value == int(value) else repr(value)


def settled(visit: Visit, view: list[float]) -> None:
    """Wait until the first chart shows these ranges."""
    visit.page.wait_for_function(
        "view => document.querySelector('.stage').dataset.view.split(' ')"
        ".every((end, n) => Math.abs(end - view[n]) < 1e-9)",
        arg=view,
    )
    assert visit.view(0) == pytest.approx(view)


def test_a_curve_is_read_out(visit: Visit) -> None:
    low, high = visit.view(0)[2:]
    # Half a decade into the second level.
    visit.page.mouse.move(*visit.point(0, 0.5, 1 - (0.5 - low) / (high - low)))
    text = visit.readout(0)
    assert "training" in text
    found = re.search(r"time t/τ: ([\d.]+).*loss: ([\d.]+)", text)
    assert found is not None, text
    assert float(found[1]) == pytest.approx(np.sqrt(1000), rel=0.02)
    assert float(found[2]) == pytest.approx(0.5, abs=0.001)
    keys = visit.page.locator(".chart").first.locator(".legend button").all_inner_texts()
    assert [" ".join(key.split()) for key in keys] == ["levels 0.25 … 1", "training 0.5"]


def test_a_cell_of_a_heat_map_is_read_out(visit: Visit) -> None:
    visit.page.mouse.move(*visit.point(1, 0.75, 0.75))
    text = visit.readout(1)
    assert "e₂" in text
    assert "second" in text
    assert "vᵢ: 0.75" in text
    visit.page.mouse.move(*visit.point(1, 0.25, 0.25))
    assert "vᵢ: 0.125" in visit.readout(1)


def test_points_and_bars_are_read_out(visit: Visit) -> None:
    x0, x1, y0, y1 = visit.view(2)
    visit.page.mouse.move(*visit.point(2, (1 - x0) / (x1 - x0), 1 - (1 - y0) / (y1 - y0)))
    assert "predicted: 1 " in visit.readout(2)
    assert "measured: 1" in visit.readout(2)
    bars = visit.view(3)
    visit.page.mouse.move(*visit.point(3, (1 - bars[0]) / (bars[1] - bars[0]), 0.97))
    assert visit.readout(3).startswith("separate · 3")


def test_the_cursor_moves_by_keys(visit: Visit) -> None:
    visit.page.mouse.move(0, 0)
    visit.stage(0).press("ArrowRight")
    assert visit.readout(0)


def test_the_legend_hides_and_shows(visit: Visit) -> None:
    key = visit.page.locator(".chart").first.locator(".legend button").nth(1)
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    visit.page.mouse.move(*visit.point(0, 0.5, 0.5))
    assert "training" not in visit.readout(0)
    key.click()
    assert key.get_attribute("aria-pressed") == "true"


COLOURS_OF_TEXT = """() => {
    const seen = [];
    const kinds = 'h1, h2, h3, h4, p, th, td, a, pre, code, dt, dd, span, button, output, summary';
    for (const element of document.querySelectorAll(kinds)) {
        if (element.innerText.trim() && !element.closest('svg'))
            seen.push([element.tagName, element.className, getComputedStyle(element).color]);
    }
    return [getComputedStyle(document.body).backgroundColor, seen];
}"""


def channels(text: str) -> tuple[float, ...]:
    assert text.startswith("rgb"), text
    return tuple(float(number) / 255 for number in re.findall(r"[\d.]+", text)[:3])


def contrast(one: str, other: str) -> float:
    low, high = sorted(luminance(channels(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def test_text_is_readable(visit: Visit) -> None:
    paper, seen = visit.page.evaluate(COLOURS_OF_TEXT)
    assert len(seen) > 80
    faint = {tuple(one): contrast(one[2], paper) for one in seen}
    assert {one: value for one, value in faint.items() if value < READABLE} == {}


def test_a_change_of_scheme_recolours_the_charts(browser: Browser, address: str) -> None:
    opened = Visit(browser, address, "light")
    darkest = """() => {
        const canvas = document.querySelector('.stage canvas');
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        let least = 765;
        for (let n = 0; n < data.length; n += 4)
            if (data[n + 3] === 255) least = Math.min(least, data[n] + data[n + 1] + data[n + 2]);
        return least;
    }"""
    light = opened.page.evaluate(darkest)
    opened.page.emulate_media(color_scheme="dark")
    opened.page.wait_for_function(f"was => ({darkest})() > was + 50", arg=light)
    opened.context.close()


def test_a_telephone_does_not_scroll_sideways(browser: Browser, address: str) -> None:
    opened = Visit(browser, address, "light", width=400)
    # The charts stand in the place of the picture, from when it comes near.
    for place, name in enumerate(("staircase", "cloud"), start=1):
        opened.page.locator(f"section#{name} h2").scroll_into_view_if_needed()
        opened.page.wait_for_function(
            "count => document.querySelectorAll('section.as-charts').length >= count", arg=place
        )
    pictures = opened.page.locator("figure.picture:visible").count()
    wider = opened.page.evaluate(
        "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    widths: list[Any] = opened.page.eval_on_selector_all(
        ".uplot", "all => all.map(chart => chart.getBoundingClientRect().width)"
    )
    opened.context.close()
    assert (wider, pictures) == (0, 0)
    assert len(widths) == 4
    assert max(widths) <= 400


def test_the_first_picture_comes_before_any_table(visit: Visit) -> None:
    first = visit.page.evaluate(
        "() => document.querySelector('figure.picture').compareDocumentPosition("
        "document.querySelector('section table')) & Node.DOCUMENT_POSITION_FOLLOWING"
    )
    assert first
    folded = visit.page.evaluate("() => document.querySelector('#claims').tagName")
    assert folded == "DETAILS"
