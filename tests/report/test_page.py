"""The static page: whole, safe, and of one file."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import saddlescope as ss
from saddlescope.report import Section, figure, paragraphs, table, write_page, write_run_page
from saddlescope.setting.toml import to_toml

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
VOID = {"meta", "link", "br", "img", "path", "use", "hr", "input", "rect"}


class Structure(HTMLParser):
    """Checks that tags close in order, and keeps what the page refers to and says."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.cells: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.addresses += [
            value for name, value in attrs if name in {"href", "src", "xlink:href"} and value
        ]
        if tag == "td":
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [
            value for name, value in attrs if name in {"href", "src", "xlink:href"} and value
        ]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] == "td":
            self.cells[-1] += data


def read(path: Path) -> Structure:
    page = Structure()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    assert page.open == []
    return page


def test_parts_are_escaped() -> None:
    hostile = '<script>&"'
    assert "<script>" not in table([hostile], [[hostile]])
    assert "<script>" not in paragraphs([hostile])
    assert "<script>" not in figure("<svg></svg>", hostile)
    assert paragraphs(["a", "b"]) == "<p>a</p><p>b</p>"


def test_a_page_is_whole_and_escaped(tmp_path: Path) -> None:
    sections = [Section("One & two", "<p>body</p>"), Section("Three", "")]
    path = write_page(tmp_path / "deep" / "page.html", "<title>", "lead & more", sections)
    page = read(path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert '<meta charset="utf-8">' in text
    assert "&lt;title&gt;" in text
    assert "One & two" in page.text
    assert "lead & more" in page.text


@pytest.fixture(scope="module")
def run() -> ss.Trajectory:
    method = ss.GradientDescent(0.2, 5000)
    model = ss.SeparateAttention(heads=3)
    return ss.train(model, TASK, method=method, init_scale=0.1, seeds=3, record=200)


def test_the_page_of_a_run_holds_picture_table_setting_and_command(
    run: ss.Trajectory, tmp_path: Path
) -> None:
    comparison = run.compare()
    command = "saddlescope train --spectrum '.6,.3' && echo <b>"
    path = write_run_page(run, tmp_path / "index.html", command)
    page = read(path)
    text = path.read_text(encoding="utf-8")
    assert text.count("<svg") == 1
    assert page.cells == [cell for row in comparison.cells() for cell in row]
    assert to_toml(run.setting) in page.text
    assert run.setting.digest in page.text
    assert command in page.text
    for line in comparison.summary:
        assert line in page.text


def test_without_a_command_none_is_shown(run: ss.Trajectory, tmp_path: Path) -> None:
    path = write_run_page(run, tmp_path / "index.html")
    assert "How to make it" not in path.read_text(encoding="utf-8")


def test_the_page_asks_for_nothing(run: ss.Trajectory, tmp_path: Path) -> None:
    path = write_run_page(run, tmp_path / "index.html")
    assert all(address.startswith(("#", "data:")) for address in read(path).addresses)
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text
    assert not re.search(r"url\(\s*['\"]?(https?:)?//", text)
    assert "@import" not in text
