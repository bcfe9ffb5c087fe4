"""The lab's guided tour."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Page
from tests.browser.lab.shown import settle
from tests.browser.opened import OpenedPage

import saddlescope as ss
from saddlescope.lab.server import Lab


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
        ("model=merged", "steps=20000", "rank=2", "seeds=6", "init_scale=2.0", "share=0.4"),
        strict=True,
    ):
        assert field in address.split("&")
    assert page.locator("#tour").is_hidden()


def test_on_a_phone_words_and_view_are_seen_together_after_the_setting_was_open(
    browser: Browser, lab: Lab
) -> None:
    visit = OpenedPage(browser, lab.address, "light", width=390)
    page = visit.page
    page.set_viewport_size({"width": 390, "height": 844})
    settle(page)
    page.click("#setting > summary")
    page.evaluate("lab.tour.goTo(3)")
    settle(page)
    # The page scrolls smoothly, until the view is above what stays at the bottom.
    page.wait_for_function(
        """() => {
            const box = (name) => document.querySelector(name).getBoundingClientRect();
            return box(".view.shown").bottom <= box("footer").top;
        }"""
    )
    header, tour, view = page.evaluate(
        """["header", "#tour", ".view.shown"].map(
            (name) => document.querySelector(name).getBoundingClientRect())"""
    )
    assert header["bottom"] <= tour["top"] + 1
    assert tour["bottom"] <= view["top"]
    visit.context.close()
