"""What is taken away from the lab: address, code, command, files of views, and the saved page."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Download, Page
from tests.browser.lab.shown import PATIENCE, VIEWS, current, drawn, known, settle
from tests.browser.opened import OpenedPage

import saddlescope as ss
from saddlescope.cli._app import run as run_command
from saddlescope.lab.server import Lab


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


def test_a_saved_page_has_no_law_of_an_older_run(page: Page, tmp_path: Path) -> None:
    page.evaluate("lab.change({ model: 'merged', seeds: 1 })")
    page.wait_for_selector("#views[aria-busy=false]", timeout=PATIENCE)
    page.click("#take-away summary")
    saved(page, page.get_by_role("button", name="Save as page").click).save_as(
        tmp_path / "lab.html"
    )
    alone = page.context.new_page()
    alone.goto((tmp_path / "lab.html").as_uri())
    alone.wait_for_selector("#view-loss .uplot", timeout=PATIENCE)
    assert "separate keys and queries only" in alone.inner_text("#view-law .silent")
    alone.close()


def test_what_is_on_the_screen_is_saved_and_a_saved_page_can_be_saved_again(
    page: Page, tmp_path: Path
) -> None:
    page.evaluate("lab.change({ heads: 40 })")
    page.wait_for_selector("#status.refused", timeout=PATIENCE)
    page.click("#take-away summary")
    saved(page, page.get_by_role("button", name="Save as page").click).save_as(tmp_path / "0.html")
    alone = page.context.new_page()
    for copy in range(2):
        alone.goto((tmp_path / f"{copy}.html").as_uri())
        alone.wait_for_selector("#view-loss .uplot", timeout=PATIENCE)
        # Not the setting that was refused.
        assert known(alone, "[lab.state.heads, known.heads]") == [3, 3]
        assert alone.locator(".view").count() == len(VIEWS)
        assert alone.locator("#controls fieldset").count() == 4
        alone.click("#take-away summary")
        click = alone.get_by_role("button", name="Save as page").click
        saved(alone, click).save_as(tmp_path / f"{copy + 1}.html")
    alone.close()


def test_a_saved_page_shows_its_views_first_on_a_phone(page: Page, tmp_path: Path) -> None:
    page.click("#take-away summary")
    saved(page, page.get_by_role("button", name="Save as page").click).save_as(
        tmp_path / "lab.html"
    )
    alone = page.context.new_page()
    alone.set_viewport_size({"width": 390, "height": 844})
    alone.goto((tmp_path / "lab.html").as_uri())
    alone.wait_for_selector("#view-loss .uplot", timeout=PATIENCE)
    loss = alone.locator("#view-loss").bounding_box()
    assert loss is not None
    assert loss["y"] + loss["height"] < 844
    alone.close()


def test_a_page_is_saved_when_the_run_that_was_asked_for_is_there(
    page: Page, tmp_path: Path
) -> None:
    page.evaluate("lab.change({ heads: 2 }); document.getElementById('take-away').open = true")
    saved(page, page.get_by_role("button", name="Save as page").click).save_as(
        tmp_path / "lab.html"
    )
    alone = page.context.new_page()
    alone.goto((tmp_path / "lab.html").as_uri())
    alone.wait_for_selector("#view-loss .uplot", timeout=PATIENCE)
    assert known(alone, "[lab.state.heads, known.heads]") == [2, 2]
    assert known(alone, "known.prediction.number === known.run.number") is True
    alone.close()


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
