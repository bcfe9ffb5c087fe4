"""The documentation as the system's chromium shows it from disk, with the network off."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.opened import OpenedPage
from tests.browser.test_run_page import READABLE, channels, contrast

from saddlescope.figures import FIGURES

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "docs" / "_build" / "html"
WIDTHS = (1280, 820, 390)

# What `make docs` runs, but that no tutorial is carried out, the tree of contents stays small and
# no module is set as a page of source code.
BUILD = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
EXTENSIONS = "myst_nb,sphinx.ext.autodoc,sphinx.ext.mathjax,sphinx.ext.napoleon"
CHEAPLY = ["-D", "nb_execution_mode=off", "-D", "toc_object_entries=0"]
CHEAPLY += ["-D", f"extensions={EXTENSIONS}"]
# Pictures that tutorials begin with come from carrying them out.
CHEAPLY += ["-D", "suppress_warnings=mystnb.glue"]

FORMULAS = """async () => {
    if (document.querySelector('.math')) await MathJax.startup.promise;
    const left = document.createTreeWalker(document.querySelector('article, main, body'), 4);
    const raw = [];
    while (left.nextNode()) {
        const node = left.currentNode;
        if (!node.parentElement.closest('pre, code, script') && /\\\\[([]/.test(node.data))
            raw.push(node.data.trim().slice(0, 60));
    }
    return {
        formulas: document.querySelectorAll('.math').length,
        drawn: [...document.querySelectorAll('.math svg')]
            .filter(svg => svg.getBoundingClientRect().width > 3).length,
        refused: document.querySelectorAll('[data-mml-node=merror], [data-mjx-error]').length,
        raw,
        missing: [...document.images].filter(image => !image.naturalWidth).map(image => image.src),
    };
}"""
SIDEWAYS = """() => {
    const page = document.documentElement;
    // What is wider than a telephone is scrolled in a box of its own (tables, displayed formulas).
    const cut = [...document.querySelectorAll('span.math')].filter(
        formula => formula.getBoundingClientRect().right > page.clientWidth
            && !formula.closest('.table-wrapper'));
    return [page.scrollWidth - page.clientWidth, cut.map(formula => formula.textContent)];
}"""
INK = """() => {
    const ink = [...document.querySelectorAll('.math svg')].map(svg => getComputedStyle(svg).color);
    return [[...new Set(ink)], getComputedStyle(document.body).backgroundColor];
}"""


def _newest(*folders: Path) -> float:
    files = (file for folder in folders for file in folder.rglob("*"))
    return max(
        file.stat().st_mtime
        for file in files
        if file.is_file() and "_build" not in file.parts and "__pycache__" not in file.parts
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` has built if nothing changed since, and else a build for this test alone."""
    index = BUILT / "index.html"
    if index.exists() and index.stat().st_mtime > _newest(ROOT / "docs", ROOT / "src"):
        return BUILT
    folder = tmp_path_factory.mktemp("site")
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [*BUILD, *CHEAPLY, str(ROOT / "docs"), str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return folder


def _faults(opened: OpenedPage) -> list[object]:
    """All that a reader without a network would miss or stumble over."""
    page, found = opened.page, opened.page.evaluate(FORMULAS)
    faults: list[object] = [*opened.complaints, *found["raw"], *found["missing"]]
    faults += [url for url in opened.requests if not url.startswith(("file:", "data:"))]
    if found["drawn"] != found["formulas"] or found["refused"]:
        faults.append(found)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        beyond, cut = page.evaluate(SIDEWAYS)
        if beyond > 0 or cut:
            faults.append((width, beyond, cut))
    papers = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        inks, paper = page.evaluate(INK)
        papers.append(paper)
        faint = [ink for ink in inks if contrast(channels(ink), channels(paper)) < READABLE]
        faults += [(scheme, ink, paper) for ink in faint]
    if papers[0] == papers[1]:
        faults.append(f"light and dark are both {papers[0]}")
    return faults


def test_every_page_shows_its_formulas_without_a_network(browser: Browser, site: Path) -> None:
    pages = sorted(site.glob("*.html")) + sorted((site / "tutorials").glob("*.html"))
    faults, formulas, cards = {}, 0, 0
    for path in pages:
        opened = OpenedPage(browser, path.as_uri(), "light", offline=True)
        faults[path.name] = _faults(opened)
        formulas += opened.page.locator(".math").count()
        cards += opened.page.locator(".gallery .card img").count()
        opened.context.close()
    assert {name: found for name, found in faults.items() if found} == {}
    assert {"theory.html", "api.html", "index.html"} <= set(faults)
    assert formulas > 600
    assert cards == len(FIGURES)
