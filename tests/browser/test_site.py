"""The documentation as the system's chromium shows it from disk, with the network off."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_notebook
from playwright.sync_api import Browser
from tests.browser.opened import OpenedPage
from tests.browser.test_run_page import READABLE, channels, contrast

from saddlescope.figures import FIGURES

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "docs" / "_build" / "html"
WIDTHS = (1280, 820, 390)

# What `make docs` runs, except that no tutorial is executed, the table of contents stays small and
# modules have no pages of source code.
BUILD = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
EXTENSIONS = "myst_nb,sphinx.ext.autodoc,sphinx.ext.mathjax,sphinx.ext.napoleon"
CHEAPLY = ["-D", "nb_execution_mode=off", "-D", "toc_object_entries=0"]
CHEAPLY += ["-D", f"extensions={EXTENSIONS}"]
# The pictures that tutorials begin with come from executing them.
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
    // Whatever is wider than a phone scrolls in a box of its own (tables, displayed formulas).
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
    """What `make docs` has built, if nothing has changed since, or else a build for these tests."""
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
    """Everything that a reader without a network would miss or stumble over."""
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


def test_the_index_from_the_papers_leads_to_the_reference_and_the_gallery(site: Path) -> None:
    html = (site / "papers.html").read_text("utf-8")
    links = re.findall(r'href="(api|transformers|gallery)\.html#([^"]+)"', html)
    pages = {name: (site / f"{name}.html").read_text("utf-8") for name in {n for n, _ in links}}
    assert set(pages) == {"api", "transformers", "gallery"}
    assert [anchor for name, anchor in links if f'id="{anchor}"' not in pages[name]] == []
    index = (ROOT / "docs/papers.md").read_text("utf-8")
    rows = re.findall(r" (\S+) \| `[\w/]+\.py::\w+` \|$", index, flags=re.MULTILINE)
    assert sum(name != "gallery" for name, _ in links) == len(rows) > 80
    figures = {f"figure-{figure.strip('`')}" for figure in rows if figure != "—"}
    assert {anchor for name, anchor in links if name == "gallery"} == figures


def test_every_tag_in_the_reference_leads_to_the_theory(site: Path) -> None:
    html = (site / "api.html").read_text("utf-8")
    html = re.sub(r"<(head|script|style|pre|code|a)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert re.findall(r"\bT\d+\b", re.sub(r"<[^>]+>", "", html)) == []


def test_an_option_keeps_both_of_its_hyphens(site: Path) -> None:
    pages = [path.read_text("utf-8") for path in site.glob("*.html")]
    assert any("saddlescope --help" in html for html in pages)
    assert [found for html in pages for found in re.findall(r".{20}\s–\w+", html)] == []


def test_the_site_comes_with_the_licence_of_what_it_includes(site: Path) -> None:
    assert (site / "_static" / "tex-svg.js").is_file()
    html = (site / "index.html").read_text("utf-8")
    assert "MathJax Consortium" in html
    (file,) = re.findall(r'href="([^"]+/LICENSE)"', html)
    assert "Apache License" in (site / file).read_text("utf-8")


def test_what_a_command_prints_stays_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NotebookClient, "__init__", NotebookClient.__init__)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    runpy.run_path(str(ROOT / "docs/conf.py"))
    assert NotebookClient(new_notebook()).coalesce_streams
