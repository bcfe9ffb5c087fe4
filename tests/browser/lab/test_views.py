"""The lab's views: numbers are those of Python, the playhead moves them, they fit the screen."""

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page
from tests.browser.lab.shown import SETTING, VIEWS, drawn, known, settle
from tests.browser.opened import OpenedPage

import saddlescope as ss
from saddlescope.lab.server import Lab


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
    prompts = SETTING.task.sample(100_000, seed=1)  # type: ignore[attr-defined]
    points, maps = ss.theory.fixed_points(SETTING.task), run.dataset["effective_map"].to_numpy()
    for place in (100, 200, -1):
        near = known(page, f"known.nearest({place % maps.shape[1]})")
        squares = [
            np.einsum(
                "pa,ab,pb->p", prompts.summary, maps[0, place] - point.effective_map, prompts.query
            )
            ** 2
            for point in points
        ]
        best = min(squares, key=np.mean)
        error = best.std() / np.sqrt(len(best))
        assert tuple(near["point"]["subset"]) == points[int(np.argmin(np.mean(squares, 1)))].subset
        assert abs(near["distance"] ** 2 - best.mean()) < 5 * error + 1e-12


def test_a_run_at_the_lowest_level_is_nearest_to_a_point_of_that_level(page: Page) -> None:
    # Of weak eigenvectors the map is large, and hardly anything of the answers.
    page.evaluate(
        """lab.change({ model: "merged", heads: 3, spectrum: [.6, .003], steps: 3000,
                        spacing: "linear" })"""
    )
    settle(page)
    near = known(page, "known.nearest()")
    loss = known(page, "known.loss(0).at(-1)")
    assert near["distance"] < 0.1
    assert near["point"]["loss"] == pytest.approx(loss, rel=0.1)
    assert near["point"]["subset"] != []


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


def test_a_seed_that_is_chosen_before_it_has_come_is_shown_with_it(page: Page) -> None:
    seeds = page.evaluate(
        """async () => {
            const show = lab.on_run.bind(lab), seeds = [], choice = document.getElementById("seed");
            lab.on_run = (frame) => {
                show(frame);
                if (frame.shown !== null) {
                    choice.selectedIndex = 2;
                    choice.dispatchEvent(new Event("change"));
                }
                seeds.push([frame.shown, lab.known.seed]);
            };
            lab.change({ heads: 2 });
            while (lab.isBusy) await new Promise((next) => setTimeout(next, 5));
            await lab.whole();
            delete lab.on_run;
            return seeds;
        }"""
    )
    assert seeds == [[0, 0], [None, 2]]
    run = ss.train(SETTING.replace(heads=2))
    values = page.evaluate("lab.cards.cards.get('values').picture.lines[0].y.at(-1)")
    page.select_option("#seed", "0")
    assert values == pytest.approx(float(run.dataset["v"].to_numpy()[2, -1, 0]), rel=1e-5)


def test_nothing_flickers_or_jumps_while_the_setting_moves(page: Page) -> None:
    seen = page.evaluate(
        """async () => {
            const flickers = [], shifts = [], medians = [];
            const views = document.getElementById("views");
            const watch = new MutationObserver((all) => {
                for (const { target, oldValue } of all)
                    if (target.hidden !== (oldValue !== null))
                        flickers.push(`${target.closest("figure").id} ${target.className}`);
            });
            watch.observe(views, { subtree: true, attributeFilter: ["hidden"],
                                   attributeOldValue: true });
            const layout = new PerformanceObserver((list) => {
                shifts.push(...list.getEntries().map((entry) => entry.value));
            });
            layout.observe({ type: "layout-shift" });
            const { known } = lab;
            for (const change of [{ init_scale: 0.06 }, { init_scale: 0.07 }, { heads: 2 },
                                  { spectrum: [0.5, 0.3, 0.2] }, { spectrum: [0.6, 0.3] }]) {
                lab.change(change);
                while (lab.isBusy) await new Promise((next) => setTimeout(next, 5));
                await lab.whole();
                while (known.prompts.arrays.summary.shape[1] !== known.dimension)
                    await new Promise((next) => setTimeout(next, 5));
                medians.push(document.querySelector("#view-law .note").textContent);
                await new Promise((next) => requestAnimationFrame(() => setTimeout(next, 0)));
            }
            watch.disconnect();
            layout.disconnect();
            return { flickers, shifts, medians };
        }"""
    )
    assert seen["flickers"] == []
    # Below .1 a page counts as still.
    assert sum(seen["shifts"]) < 0.01
    # The law is drawn anew all the same.
    assert len(set(seen["medians"])) >= 4


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": "merged"}, "This law is known for separate keys and queries only."),
        ({"share": 0.5}, "No such law is known when a fixed task comes back."),
        ({"method": "optimiser", "optimiser": "sgd"}, "Drop times are not predicted under this"),
    ],
)
def test_where_there_is_no_law_it_says_why(page: Page, change: dict[str, Any], reason: str) -> None:
    assert page.is_hidden("#view-law .silent")
    page.evaluate("change => lab.change(change)", change)
    settle(page)
    assert page.inner_text("#view-law .silent").startswith(reason)
    # Heads race to the first drop, or they are no particles either.
    for view in ("law", "particles"):
        assert page.is_hidden(f"#view-{view} .stage")
        assert page.is_hidden(f"#view-{view} .legend")


def test_the_law_of_small_starts_says_so_of_large_ones(page: Page) -> None:
    assert page.inner_text("#view-law .note").startswith("over random starts; median")
    page.evaluate("lab.change({ init_scale: 1 })")
    settle(page)
    assert page.inner_text("#view-law .note").startswith("for small starts, unlike these; median")


def test_drops_that_come_later_are_not_called_unpredicted(page: Page) -> None:
    page.evaluate("lab.change({ steps: 10 })")
    settle(page)
    assert page.inner_text("#view-loss .note") == "2 predicted drops, after the end of this run"


def test_the_space_bar_plays_from_the_playhead(page: Page) -> None:
    page.locator("#playhead").focus()
    page.keyboard.press("Space")
    assert page.get_attribute("#play", "aria-label") == "Pause"
    page.keyboard.press("Space")
    assert page.get_attribute("#play", "aria-label") == "Play"


def test_labels_of_axes_are_exact_and_fit(page: Page) -> None:
    labels, widths, rooms = page.evaluate(
        """async () => {
            const { brief } = await import("./page/drawing/chart.js");
            const labels = [125000, 1.25e-4, -2e-5, 0.00125, 12500].map(brief);
            const context = document.createElement("canvas").getContext("2d");
            context.font = "11px system-ui";
            const [, y] = lab.cards.cards.get("conserved").renderer.plot.axes;
            const words = ["−1.25e−4", "−0.00125", "0.0015", "−5e−4"];
            return [labels, words.map((one) => context.measureText(one).width),
                    words.map((one) => y.size(null, [one]) - y.gap)];
        }"""
    )
    assert labels == ["1.25e5", "1.25e−4", "−2e−5", "0.00125", "12.5k"]
    assert all(width < room for width, room in zip(widths, rooms, strict=True))


def test_what_differs_by_rounding_alone_is_drawn_flat(page: Page) -> None:
    low, high = page.evaluate(
        """async () => {
            const { span } = await import("./page/views/time.js");
            return span([-7.6e-5, -7.6e-5 * (1 + 1e-9)]);
        }"""
    )
    assert low < -7.9e-5
    assert high > -7.3e-5


def positions(picture: str, words: str) -> tuple[float, float]:
    """Where words stand in an SVG."""
    found = re.search(rf'<text x="([-\d.]+)" y="([-\d.]+)"[^>]*>{re.escape(words)}<', picture)
    assert found is not None
    return float(found[1]), float(found[2])


def test_words_in_files_do_not_overlap(page: Page) -> None:
    picture = drawn(page, "loss")
    axis, legend = positions(picture, "training time t/τ"), positions(picture, "predicted levels")
    assert legend[1] - axis[1] > 14
    page.evaluate("lab.change({ spectrum: [0.5] })")
    settle(page)
    picture = drawn(page, "map")
    now, nearest = positions(picture, "now"), positions(picture, "nearest fixed point")
    assert nearest[0] - now[0] > 90


def test_legends_keep_to_one_line(page: Page) -> None:
    # A second line would change the size of the drawing while a control is dragged.
    heights = page.evaluate(
        """() => {
            const { legend } = lab.cards.cards.get("values");
            const heads = [3, 9].map((count) => {
                lab.cards.cards.get("values").showLegend(Array.from({ length: count }, (_, head) =>
                    ({ label: head ? `${head + 1}` : "head 1", colour: "red", form: "dot" })));
                return legend.offsetHeight;
            });
            lab.cards.draw();
            return [...heads, ...["graph", "maps", "law", "conserved"].map((id) =>
                lab.cards.cards.get(id).legend.offsetHeight)];
        }"""
    )
    assert len(set(heights)) == 1


def test_the_map_of_every_merged_head_is_drawn(page: Page) -> None:
    page.evaluate("lab.change({ model: 'merged', heads: 5 })")
    settle(page)
    assert all(f">head {head}<" in drawn(page, "maps") for head in range(1, 6))


def test_a_view_that_comes_with_the_run_is_brought_on_the_screen(page: Page) -> None:
    page.evaluate(
        """() => {
            lab.cards.point("memory");
            lab.known.state = { ...lab.known.state, share: 0.4 };
            lab.cards.draw();
        }"""
    )
    page.wait_for_function(
        """() => {
            const view = document.getElementById("view-memory").getBoundingClientRect();
            const room = document.getElementById("views").getBoundingClientRect();
            return view.height > 0 && view.top >= room.top && view.bottom <= room.bottom;
        }"""
    )
    page.evaluate("lab.cards.point(null)")


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
    clipped = visit.page.evaluate(
        """() => [...document.querySelectorAll(".view .note, .view h2")]
            .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"""
    )
    assert clipped == []
    if width > 1000:
        # The loss and the next row are seen without scrolling.
        values = visit.page.locator("#view-values").bounding_box()
        assert values is not None
        assert values["y"] + values["height"] < height
    visit.context.close()


def test_on_a_phone_the_loss_stays_in_sight_while_a_control_is_moved(
    browser: Browser, lab: Lab
) -> None:
    visit = OpenedPage(browser, lab.address, "light", width=390)
    visit.page.set_viewport_size({"width": 390, "height": 844})
    settle(visit.page)
    visit.page.click("#setting > summary")
    for control in visit.page.locator("#controls input[type=range]:enabled").all():
        control.focus()
        header, loss, moved, footer = visit.page.evaluate(
            """() => [document.querySelector("header"), document.querySelector("#view-loss"),
                      document.activeElement, document.querySelector("footer")]
                .map((one) => one.getBoundingClientRect())"""
        )
        edges = [header["bottom"], loss["top"], loss["bottom"], moved["top"], moved["bottom"]]
        edges.append(footer["top"])
        assert (np.diff(edges) > -1).all()
    visit.context.close()


def test_a_loss_far_above_the_levels_is_in_sight(page: Page) -> None:
    page.evaluate("lab.change({ init_scale: 10, learning_rate: 8 })")
    settle(page)
    lowest = known(page, "Math.min(...known.seeds.map((_, seed) => known.loss(seed)[0]))")
    assert lowest > 20 * known(page, "known.levels[0]")
    assert page.evaluate("lab.cards.cards.get('loss').picture.y.high") >= lowest


def test_a_page_without_a_run_says_so_in_every_view(browser: Browser, lab: Lab) -> None:
    visit = OpenedPage(browser, lab.address.partition("#")[0] + "#heads=40", "light", width=1280)
    visit.page.wait_for_selector("#status.refused")
    views = visit.page.locator(".view:visible")
    assert views.locator(".silent").all_inner_texts() == ["No run yet."] * (len(VIEWS) - 1)
    assert not visit.page.locator(".view details:visible").count()
    visit.page.evaluate("lab.change({ heads: 3, steps: 2000 })")
    settle(visit.page)
    assert "No run yet." not in views.locator(".silent:visible").all_inner_texts()
    visit.context.close()


def test_nothing_complained_and_nothing_left_the_machine(opened: OpenedPage, lab: Lab) -> None:
    own = f"http://127.0.0.1:{lab.port}/"
    elsewhere = [
        url for url in opened.requests if not url.startswith((own, "data:", "blob:", "ws://127.0."))
    ]
    assert opened.requests
    assert elsewhere == []
    assert opened.complaints == []
