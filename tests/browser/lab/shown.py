"""The setting of all tests of the lab's page, and what the page shows of it."""

from typing import Any

from playwright.sync_api import Page

import saddlescope as ss

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


def settle(page: Page) -> None:
    """Wait until what was asked for is drawn, and the other seeds have come."""
    page.wait_for_selector("#views[aria-busy=false]", timeout=PATIENCE)
    assert not page.locator("#status.refused").count(), page.inner_text("#status")
    page.evaluate("lab.whole()")


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
