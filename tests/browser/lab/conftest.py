"""One lab and one page for all tests of it, put back to one setting before each."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from tests.browser.lab.shown import SETTING, current, settle
from tests.browser.opened import OpenedPage

import saddlescope as ss
from saddlescope.lab.server import Lab


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    served = Lab(SETTING, port=0, warm_up=False)
    yield served
    served.close()


@pytest.fixture(scope="session")
def run() -> ss.Trajectory:
    return ss.train(SETTING)


@pytest.fixture(scope="session")
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
