"""The lab in the system's chromium: from a change of a control to the redrawn page.

All views are redrawn, for the seed and the playhead that are shown. The law of the first drop and
the records of the other seeds follow later and are not measured.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.table import Findings, Row

# Targets for the medians, in seconds.
SMALL, LARGE, PREDICTION = 0.1, 0.25, 0.05

DEFAULT = "the default (D = 4, H = 5, R = 1, 6 seeds, 20 000 steps)"
LARGEST = "the large shape (D = 8, H = 9, R = 4, 4 seeds, 20 000 steps)"
_LARGEST_STATE = {
    "spectrum": [0.368, 0.184, 0.123, 0.092, 0.074, 0.061, 0.053, 0.046],
    "heads": 9,
    "rank": 4,
    "seeds": 4,
}


@dataclass(frozen=True)
class _Times:
    """Seconds of each change."""

    prediction: list[float]
    run: list[float]


def measure(quick: bool) -> Findings:
    """Medians over changes of the initialisation scale, as in a drag."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    rows: list[Row] = []
    if chromium is None:
        note = "no chromium on this machine"
        rows = [Row(what, None, None, "", note=note) for what in (DEFAULT, LARGEST)]
        return Findings("The lab, from drag to redraw (medians)", rows=tuple(rows))
    small, large = _in_browser(chromium, times=5 if quick else 25)
    for what, times, most in (
        (f"prediction alone, {DEFAULT}", small.prediction, PREDICTION),
        (f"drag to redraw, {DEFAULT}", small.run, SMALL),
        (f"drag to redraw, {LARGEST}", large.run, LARGE),
    ):
        worst = f"worst {max(times):.3f} s of {len(times)}"
        median = statistics.median(times)
        rows.append(Row(what, median, None, "", seconds_below=most, note=worst))
    return Findings("The lab, from drag to redraw (medians)", rows=tuple(rows))


def _in_browser(chromium: str, times: int) -> list[_Times]:
    from playwright.sync_api import sync_playwright

    from saddlescope.lab.server import Lab

    lab = Lab(port=0)
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            page.goto(lab.address)
            page.wait_for_selector("#views[aria-busy=false]", timeout=120_000)
            lab.wait_until_warm()
            results = []
            for state in ({}, _LARGEST_STATE):
                page.evaluate(f"lab.change({json.dumps(state)})")
                page.wait_for_selector("#views[aria-busy=false]", timeout=120_000)
                results.append(_drag(page.evaluate, page.wait_for_selector, times))
            browser.close()
    finally:
        lab.close()
    return results


def _drag(evaluate: Callable[[str], object], wait: Callable[[str], object], times: int) -> _Times:
    """Change the scale repeatedly, each time after the page has settled."""
    evaluate("performance.clearMeasures()")
    for change in range(times):
        evaluate(f"lab.change({{ init_scale: {0.01 * (1 + 0.01 * change)} }})")
        wait("#views[aria-busy=false]")
        # Let the law of the first drop, which comes after the run, finish.
        time.sleep(0.2)
    measured = evaluate(
        "performance.getEntriesByType('measure').map((one) => [one.name, one.duration / 1000])"
    )
    assert isinstance(measured, list)
    return _Times(
        *(
            [value for name, value in measured if name == f"lab {what}"]
            for what in ("prediction", "run")
        )
    )
