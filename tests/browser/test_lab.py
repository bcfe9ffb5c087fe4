"""The lab in the system's chromium: controls, views, tour, take-away and the saved page."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Download, Page
from tests.browser.opened import OpenedPage

import saddlescope as ss
from saddlescope.cli._app import run as run_command
from saddlescope.lab.server import Lab

# A run of a tenth of a second, in the one program that is compiled here.
SETTING = ss.Setting(
    ss.SeparateAttention(heads=3),
    ss.InContextRegression([0.6, 0.3], context_length=31),
    ss.GradientDescent(0.5, 2000),
    ss.RandomStart(0.05),
    ss.Record(401),
    seeds=3,
)
VIEWS = (
    "loss", "graph", "memory", "values", "particles", "law", "maps", "map", "conserved",
    "algorithm",
)  # fmt: skip
PATIENCE = 60_000


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    served = Lab(SETTING, port=0, warm_up=False)
    yield served
    served.close()


@pytest.fixture(scope="module")
def run() -> ss.Trajectory:
    return ss.train(SETTING)


@pytest.fixture(scope="module")
def opened(browser: Browser, lab: Lab) -> Iterator[OpenedPage]:
    visit = OpenedPage(browser, lab.address, "light", width=1280)
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    settle(visit.page)
    yield visit
    visit.context.close()


@pytest.fixture
def page(opened: OpenedPage, lab: Lab) -> Page:
    """The page at the setting of all tests."""
    fragment = lab.address.partition("#")[2]
    opened.page.evaluate(
        """async (fragment) => {
            const { fromAddress } = await import("./page/settings.js");
            lab.change(fromAddress(fragment), { share: 1 });
        }""",
        fragment,
    )
    settle(opened.page)
    assert current(opened.page) == fragment
    return opened.page


def settle(page: Page) -> None:
    """Wait until what was asked for is drawn."""
    page.wait_for_selector("#views[aria-busy=false]", timeout=PATIENCE)
    assert not page.locator("#status.refused").count(), page.inner_text("#status")


def current(page: Page) -> str:
    return str(page.evaluate("location.hash.slice(1)"))


def known(page: Page, expression: str) -> Any:
    """Something that the page knows of the run on the screen."""
    return page.evaluate(f"(() => {{ const {{ known }} = lab; return {expression}; }})()")


def drawn(page: Page, view: str) -> str:
    """The SVG of a view: all that is drawn in it."""
    return str(
        page.evaluate(
            """async (view) => {
                const { toSvg } = await import("./page/drawing/files.js");
                const { picture } = lab.cards.cards.get(view);
                return !picture ? "" : "silent" in picture ? picture.silent : toSvg(picture);
            }""",
            view,
        )
    )


def test_the_numbers_drawn_are_those_of_the_api(page: Page, run: ss.Trajectory) -> None:
    losses = known(page, "known.seeds.map((_, seed) => [...known.loss(seed)])")
    np.testing.assert_allclose(losses, run.loss, rtol=1e-9)
    lines = page.evaluate(
        "lab.cards.cards.get('loss').picture.lines.map((line) => [...line.y]).reverse()"
    )
    # The seed that is shown is drawn last, over the others.
    np.testing.assert_allclose(lines[0], run.loss[0], rtol=1e-9)
    prediction = ss.predict(SETTING, by="quadrature")
    levels = page.evaluate("lab.cards.cards.get('loss').picture.levels.map((one) => one.value)")
    assert levels == list(prediction.plateau_losses or ())
    marks = page.evaluate("lab.cards.cards.get('loss').picture.marks.map((one) => one.x)")
    expected = [time for seed in prediction.seeds for time in seed.drop_times if time is not None]
    assert marks == pytest.approx(expected)
    effective = known(page, "[...known.map()]")
    np.testing.assert_allclose(
        effective, run.dataset["effective_map"].to_numpy()[0, -1].reshape(-1), rtol=1e-6, atol=1e-9
    )


def test_crossings_and_the_nearest_fixed_point(page: Page, run: ss.Trajectory) -> None:
    times = known(page, "known.seeds.map((_, seed) => known.crossing(seed, 0))")
    measured = run.summary()["drop_time"].to_numpy()[:, 0]
    # Records are five steps apart, and the page goes straight between them.
    np.testing.assert_allclose(times, measured, rtol=0.01)
    near = known(page, "known.nearest().point.subset")
    points = ss.theory.fixed_points(SETTING.task)
    final = run.dataset["effective_map"].to_numpy()[0, -1]
    distances = [float(np.linalg.norm(final - point.effective_map)) for point in points]
    assert tuple(near) == points[int(np.argmin(distances))].subset


def test_which_algorithm_it_runs_is_what_the_api_says(page: Page, run: ss.Trajectory) -> None:
    page.wait_for_selector("#view-algorithm canvas")
    names = known(page, "known.prompts.names")
    distances = dict(zip(names, known(page, "known.distances()"), strict=True))
    weights = run.weights(seed=0)
    found = ss.identify_algorithm(
        lambda prompts: SETTING.model.predict(weights, prompts),
        SETTING.task,
        SETTING.task.sample(256, seed=0),  # type: ignore[attr-defined]
    )
    for name, distance in zip(found.names, found.distances, strict=True):
        assert distances[name] == pytest.approx(distance, rel=1e-5, abs=1e-12)
    assert "nearest" in page.inner_text("#view-algorithm .note")


SLIDERS = [
    ("heads", "heads=4", "values"),
    ("dimension", "spectrum=0.6,0.3,0.21", "map"),
    ("context_length", "context_length=33", "loss"),
    ("label_noise", "label_noise=0.01", "loss"),
    ("init_scale", "init_scale=0.0554", "loss"),
    ("seeds", "seeds=4", "loss"),
    ("learning_rate", "learning_rate=0.548", "loss"),
    ("steps", "steps=2193", "loss"),
]


@pytest.mark.parametrize(("control", "expected", "view"), SLIDERS)
def test_a_slider_moved_by_keys_changes_the_setting_and_the_view(
    page: Page, control: str, expected: str, view: str
) -> None:
    before = drawn(page, view)
    slider = page.get_by_label(page.inner_text(f"label[for=control-{control}]"), exact=True)
    slider.focus()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert expected in current(page).split("&")
    assert drawn(page, view) != before


@pytest.mark.parametrize(
    ("control", "value", "expected", "view"),
    [
        ("inputs", "laplace", "inputs=laplace", "loss"),
        ("spacing", "log", "spacing=log", "loss"),
    ],
)
def test_a_choice_changes_the_setting_and_the_view(
    page: Page, control: str, value: str, expected: str, view: str
) -> None:
    before = drawn(page, view)
    page.select_option(f"#control-{control}", value)
    settle(page)
    assert expected in current(page).split("&")
    assert drawn(page, view) != before


def test_bars_are_dragged_and_keep_their_order(page: Page) -> None:
    bar = page.get_by_role("slider", name="Variance along eigenvector 2")
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    assert box is not None
    x, top = box["x"] + box["width"] / 2, box["y"]
    page.mouse.move(x, top + box["height"] * 0.6)
    page.mouse.down()
    page.mouse.move(x, top + 2, steps=4)
    page.mouse.up()
    settle(page)
    first, second = known(page, "lab.state.spectrum")
    assert first == second > 0.6
    bar.focus()
    page.keyboard.press("ArrowDown")
    settle(page)
    assert known(page, "lab.state.spectrum[1]") < second
    page.get_by_role("button", name="white").click()
    settle(page)
    assert "spectrum=0.5,0.5" in current(page).split("&")


def test_the_stable_limit_is_marked(page: Page) -> None:
    mark = page.locator(".limit:not([hidden])")
    rate = ss.predict(SETTING, by="quadrature").stable_learning_rate
    assert rate is not None
    assert mark.count() == 1
    assert f"{rate:.4g}" in (mark.get_attribute("title") or "")


def test_every_control_is_labelled_and_explained(page: Page) -> None:
    unlabelled = page.evaluate(
        """() => [...document.querySelectorAll('#controls select, #controls input, [role=slider]')]
            .filter((one) => !(one.labels?.length || one.getAttribute('aria-label')))
            .map((one) => one.outerHTML)"""
    )
    assert unlabelled == []
    unexplained = page.evaluate(
        """() => [...document.querySelectorAll('#controls select, #controls input[type=range]')]
            .filter((one) => !document.getElementById(one.getAttribute('aria-describedby'))
                ?.textContent.trim()).map((one) => one.id)"""
    )
    assert unexplained == []
    assert page.locator(".control").count() >= 16


def test_a_heavy_or_foreign_kind_is_asked_for_as_the_control_says(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Methods and models that would be compiled here are looked at in what is asked for."""
    asked = page.evaluate(
        """async () => {
            const { toSetting } = await import("./page/settings.js");
            const base = lab.state;
            return [toSetting({ ...base, model: "merged" }), toSetting({ ...base, method: "flow" }),
                    toSetting({ ...base, method: "optimiser", optimiser: "adam" }),
                    toSetting({ ...base, share: 0.4 })];
        }"""
    )
    from saddlescope.lab._bounds import read_setting

    merged, flow, adam, mixed = map(read_setting, asked)
    assert isinstance(merged.model, ss.MergedAttention)
    assert isinstance(flow.method, ss.GradientFlow)
    assert isinstance(adam.method, ss.Optimiser)
    assert isinstance(mixed.task, ss.TaskPool)
    assert mixed.model.blocks == "full"  # type: ignore[attr-defined]


def test_the_playhead_moves_every_view(page: Page) -> None:
    before = {view: drawn(page, view) for view in VIEWS}
    page.locator("#playhead").focus()
    page.keyboard.press("Home")
    assert known(page, "known.now") == 0
    after = {view: drawn(page, view) for view in VIEWS}
    still = {view for view in VIEWS if before[view] == after[view]}
    # The law is over starts, and no task comes back here.
    assert still == {"law", "memory"}
    box = page.locator("#view-loss .u-over").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.25, box["y"] + box["height"] / 2)
    end = float(SETTING.method.end)
    assert known(page, "known.moment") == pytest.approx(end / 4, rel=0.05)
    page.click("#play")
    page.wait_for_timeout(300)
    page.click("#play")
    assert known(page, "known.moment") > end / 4


def test_another_seed_is_shown(page: Page, run: ss.Trajectory) -> None:
    page.select_option("#seed", "2")
    values = page.evaluate("lab.cards.cards.get('values').picture.lines[0].y.at(-1)")
    page.select_option("#seed", "0")
    assert values == pytest.approx(float(run.dataset["v"].to_numpy()[2, -1, 0]), rel=1e-5)


def test_a_prompt_is_drawn_anew(page: Page) -> None:
    before = known(page, "[...known.prompts.arrays.x.data]")
    page.click(".resample")
    while known(page, "known.prompts.seed") == 0:
        page.wait_for_timeout(20)
    seed = known(page, "known.prompts.seed")
    expected = SETTING.task.sample(256, seed=seed).x[0]  # type: ignore[attr-defined]
    after = known(page, "[...known.prompts.arrays.x.data]")
    assert after != before
    np.testing.assert_array_equal(after, expected.reshape(-1))


def test_what_is_out_of_bounds_is_said(page: Page) -> None:
    page.evaluate("lab.change({ spectrum: [0.3, 0.6] })")
    page.wait_for_selector("#status.refused", timeout=PATIENCE)
    assert "falling order" in page.inner_text("#status")


def test_a_run_that_diverges_is_told_and_drawn_as_far_as_it_came(page: Page) -> None:
    page.evaluate("lab.change({ learning_rate: 8 })")
    settle(page)
    assert "diverged" in page.inner_text("#status")
    assert known(page, "known.run.ended") == ["diverged"] * 3
    assert "diverged" in page.inner_text("#view-algorithm .silent")


def test_the_address_opens_the_same_run(browser: Browser, page: Page, lab: Lab) -> None:
    page.evaluate("lab.change({ heads: 2, init_scale: 0.08 })")
    settle(page)
    address = page.evaluate("lab.link")
    again = OpenedPage(browser, address, "dark", width=1000)
    settle(again.page)
    assert current(again.page) == current(page)
    assert known(again.page, "[...known.loss(0)]") == known(page, "[...known.loss(0)]")
    again.context.close()


def copied(page: Page, name: str) -> str:
    page.click("#take-away summary")
    page.get_by_role("button", name=name).click()
    page.wait_for_selector("#status:has-text('copied')")
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_copied_python_and_command_give_the_run_on_the_screen(
    page: Page,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The pages that the command writes too are tested by themselves.
    monkeypatch.setattr("saddlescope.cli.train._write_pages", lambda *given: tmp_path)
    shown = known(page, "known.seeds.map((_, seed) => known.loss(seed).at(-1))")
    code = copied(page, "Copy as Python").replace("print(run.compare())", "")
    names: dict[str, Any] = {}
    exec(code, names)
    np.testing.assert_allclose(names["run"].loss[:, -1], shown, rtol=1e-9)
    words = shlex.split(copied(page, "Copy as command"))
    assert words[0] == "saddlescope"
    assert run_command([*words[1:], "--out", str(tmp_path), "--json"]) == 0
    finals = [seed["final_loss"] for seed in json.loads(capsys.readouterr().out)["seeds"]]
    np.testing.assert_allclose(finals, shown, rtol=1e-9)


def saved(page: Page, click: Any) -> Download:
    with page.expect_download(timeout=PATIENCE) as waiting:
        click()
    return waiting.value


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "memory"])
def test_every_view_can_be_taken_away(page: Page, view: str, tmp_path: Path) -> None:
    if view == "law":
        page.wait_for_selector("#view-law .stage:not([hidden])")
    menu = page.locator(f"#view-{view} details")
    for label, begin in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("CSV", None)):
        menu.locator("summary").click()
        got = saved(page, menu.get_by_role("button", name=label).click)
        path = tmp_path / got.suggested_filename
        got.save_as(path)
        content = path.read_bytes()
        assert len(content) > 60
        assert begin is None or content.startswith(begin)
        assert got.suggested_filename == f"saddlescope-{view}.{label.lower()}"


def test_the_csv_of_the_loss_is_the_loss(page: Page, run: ss.Trajectory, tmp_path: Path) -> None:
    menu = page.locator("#view-loss details")
    menu.locator("summary").click()
    saved(page, menu.get_by_role("button", name="CSV").click).save_as(tmp_path / "loss.csv")
    table = np.genfromtxt(tmp_path / "loss.csv", delimiter=",", names=True)
    assert len(table) == len(run.time)
    np.testing.assert_allclose(table["loss_of_seed_1"], run.loss[1], rtol=1e-9)


def test_the_saved_page_opens_from_disk_without_a_network(
    browser: Browser, page: Page, tmp_path: Path
) -> None:
    page.evaluate("lab.playhead.goTo(123)")
    page.click("#take-away summary")
    saved(page, page.get_by_role("button", name="Save as page").click).save_as(
        tmp_path / "lab.html"
    )
    shown = {view: drawn(page, view) for view in VIEWS}
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    alone = context.new_page()
    requests: list[str] = []
    complaints: list[str] = []
    alone.on("request", lambda request: requests.append(request.url))
    alone.on("console", lambda message: complaints.append(message.text))
    alone.on("pageerror", lambda error: complaints.append(str(error)))
    address = (tmp_path / "lab.html").as_uri()
    alone.goto(address)
    alone.wait_for_selector("#view-loss .uplot", timeout=PATIENCE)
    assert known(alone, "known.now") == 123
    assert known(alone, "[...known.loss(0)]") == known(page, "[...known.loss(0)]")
    assert [url for url in requests if not url.startswith("data:")] == [address]
    assert complaints == []
    assert alone.locator("#controls input:enabled, #controls select:enabled").count() == 0
    drawn_alone = alone.evaluate(
        """async (views) => {
            const { toSvg } = await import("lab/drawing/files.js");
            return Object.fromEntries(views.map((view) => {
                const { picture } = lab.cards.cards.get(view);
                const isSilent = "silent" in picture;
                return [view, isSilent ? picture.silent : toSvg(picture)];
            }));
        }""",
        [view for view in VIEWS if view != "memory"],
    )
    assert {view: shown[view] for view in drawn_alone} == drawn_alone
    alone.locator("#playhead").focus()
    alone.keyboard.press("Home")
    assert known(alone, "known.now") == 0
    context.close()


def test_the_tour_sets_the_controls_and_points(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    from saddlescope.lab import _session

    # What the stops compile is not what is tested here: runs of other programs end at once.
    plain = _session.Simulator.run

    def only_ours(self: Any, setting: ss.Setting, show: Any, button: Any) -> None:
        if self.is_ready(setting):
            plain(self, setting, show, button)

    monkeypatch.setattr(_session.Simulator, "run", only_ours)
    page.click("#open-tour")
    seen = []
    for stop in range(6):
        page.wait_for_selector(f"#tour:has-text('Stop {stop + 1} of 6')")
        address = page.evaluate(
            """async () => {
                while (lab.known.prediction.number !== lab.connection.latest.run || lab.isDirty)
                    await new Promise((done) => setTimeout(done, 10));
                return location.hash.slice(1);
            }"""
        )
        seen.append((page.inner_text("#tour h2"), page.get_attribute(".view.shown", "id"), address))
        if stop < 5:
            page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Close").click()
    titles, views, addresses = zip(*seen, strict=True)
    assert len(set(titles)) == 6
    assert views[3:] == ("view-particles", "view-loss", "view-memory")
    for address, field in zip(
        addresses,
        ("model=merged", "steps=20000", "rank=2", "seeds=6", "init_scale=1.0", "share=0.4"),
        strict=True,
    ):
        assert field in address.split("&")
    assert page.locator("#tour").is_hidden()


@pytest.mark.parametrize(
    ("width", "height", "scheme"), [(1280, 720, "light"), (1440, 900, "dark"), (390, 844, "light")]
)
def test_it_fits_the_screen(
    browser: Browser, lab: Lab, width: int, height: int, scheme: str
) -> None:
    visit = OpenedPage(browser, lab.address, scheme, width=width)
    visit.page.set_viewport_size({"width": width, "height": height})
    settle(visit.page)
    wider = visit.page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert wider <= 0
    loss = visit.page.locator("#view-loss").bounding_box()
    assert loss is not None
    assert loss["width"] > min(width * 0.45, 340)
    if width > 1000:
        # The loss and the next row are seen without scrolling.
        values = visit.page.locator("#view-values").bounding_box()
        assert values is not None
        assert values["y"] + values["height"] < height
    visit.context.close()


def test_nothing_complained_and_nothing_left_the_machine(opened: OpenedPage, lab: Lab) -> None:
    own = f"http://127.0.0.1:{lab.port}/"
    elsewhere = [
        url for url in opened.requests if not url.startswith((own, "data:", "blob:", "ws://127.0."))
    ]
    assert opened.requests
    assert elsewhere == []
    assert opened.complaints == []
