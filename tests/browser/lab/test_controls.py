"""The lab's controls: each changes the setting, and the view that it should."""

import pytest
from playwright.sync_api import Page
from tests.browser.lab.shown import PATIENCE, SETTING, current, drawn, known, settle

import saddlescope as ss
from saddlescope.lab._copying import as_address

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


def test_what_is_out_of_bounds_is_said(page: Page) -> None:
    page.evaluate("lab.change({ spectrum: [0.3, 0.6] })")
    page.wait_for_selector("#status.refused", timeout=PATIENCE)
    assert "falling order" in page.inner_text("#status")


def test_what_a_refused_request_cancelled_comes_all_the_same(page: Page) -> None:
    # The second request waits for the first seed of the first, and cancels what comes after it.
    page.evaluate("lab.change({ heads: 2 }); lab.change({ heads: 40 })")
    page.wait_for_selector("#status.refused", timeout=PATIENCE)
    for _ in range(500):
        if known(page, "known.heads === 2 && !lab.isBusy && !known.isIncomplete"):
            break
        page.wait_for_timeout(20)
    assert known(page, "[known.heads, known.isIncomplete]") == [2, False]
    assert known(page, "known.prediction.number === known.run.number")
    assert page.inner_text("#status").startswith("model.heads = 40")


@pytest.mark.parametrize(
    ("fragment", "reason"),
    [
        ("heads=abc", "model.heads = 'abc': the lab takes a whole number from 1 to 9"),
        ("spectrum=", "task.spectrum[0] = '': the lab takes a number from 0.001 to 10"),
        ("share=abc", "task.share = 'abc': the lab takes a number from 0 to 1"),
        ("task=nonsense", "task.kind = 'nonsense': the lab takes in_context_regression, task_pool"),
        ("batch_size=4", "setting.batch_size = 4: unknown field"),
        ("spectrum=" + "0.1," * 20_000, "the setting is too long"),
    ],
)
def test_an_address_that_is_no_setting_is_refused_by_its_field(
    page: Page, fragment: str, reason: str
) -> None:
    page.evaluate("fragment => { location.hash = fragment; }", fragment)
    page.wait_for_selector("#status.refused", timeout=PATIENCE)
    # The prompts are refused, too: neither answer may be lost.
    page.wait_for_selector("#views[aria-busy=false]", timeout=PATIENCE)
    assert page.inner_text("#status").startswith(reason)


@pytest.mark.parametrize(
    "setting",
    [
        SETTING.replace(method=ss.GradientFlow(300.0, rtol=1e-8), points=50),
        # What has its default is not in the address, and a pool has other defaults than the page.
        SETTING.replace(
            model=ss.SeparateAttention(3, blocks="full"), task=ss.TaskPool([0.6, 0.3], 31, tasks=1)
        ),
        SETTING.replace(task=ss.TaskPool([0.6, 0.3], 31, tasks=1, share=0.4)),
    ],
)
def test_the_page_asks_for_the_setting_in_its_address(page: Page, setting: ss.Setting) -> None:
    from saddlescope.lab._bounds import read_setting

    asked = page.evaluate(
        """async (fragment) => {
            const { fromAddress, toSetting } = await import("./page/settings.js");
            return toSetting(fromAddress(fragment));
        }""",
        as_address(setting),
    )
    assert read_setting(asked) == setting


def test_what_a_fixed_task_changes_is_said(page: Page) -> None:
    page.evaluate("lab.change({ share: 0.4, spectrum: [0.5, 0.2, 0.1, 0.1, 0.1], heads: 2 })")
    assert known(page, "[lab.state.share, lab.adjusted]") == [0, ["share"]]
    # Nor do all blocks stay, which an address may have given.
    page.evaluate("lab.change({ share: 0.4, others: { blocks: 'full' }, spectrum: [0.6, 0.3] })")
    page.evaluate("lab.change({ spectrum: [0.5, 0.2, 0.1, 0.1, 0.1] })")
    assert known(page, "[lab.state.share, lab.state.others]") == [0, {}]
    page.evaluate("lab.change({ spectrum: [0.6, 0.3] })")
    settle(page)
    page.evaluate("lab.adjusted = ['heads']")
    assert "set to heads = 2" in page.evaluate("lab.about(lab.known.run)")


@pytest.mark.parametrize("typed", ["40", "2.5", ""])
def test_a_number_that_cannot_be_is_said_and_not_taken(page: Page, typed: str) -> None:
    field = page.get_by_label("Heads H, exact value")
    field.fill(typed)
    field.press("Enter")
    reason = f"Heads H = {typed or 'nothing'}: the lab takes a whole number from 1 to 9"
    assert page.inner_text("#status.refused") == reason
    assert field.input_value() == "3"
    assert known(page, "lab.state.heads") == 3


def test_an_exact_number_stays_exact(page: Page) -> None:
    field = page.get_by_label("Learning rate η, exact value")
    field.fill("0.123456")
    field.press("Enter")
    settle(page)
    field.blur()
    assert "learning_rate=0.123456" in current(page).split("&")
    assert field.input_value() == "0.123456"


def test_a_run_that_diverges_is_told_and_drawn_as_far_as_it_came(page: Page) -> None:
    page.evaluate("lab.change({ learning_rate: 8 })")
    settle(page)
    assert page.inner_text("#status").startswith("3 of 3 seeds: diverged")
    assert known(page, "known.run.ended") == ["diverged"] * 3
    for view in ("algorithm", "map", "particles"):
        assert "diverged" in page.inner_text(f"#view-{view} .silent")
        assert page.is_hidden(f"#view-{view} .legend")
