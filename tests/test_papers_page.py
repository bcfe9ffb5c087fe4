"""The index from the papers: each link leads somewhere, and each number cited is in it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.links import ROOT, has_test, resolve

from saddlescope.figures import FIGURES

PAGE = (ROOT / "docs/papers.md").read_text("utf-8")
THEORY = (ROOT / "docs/theory.md").read_text("utf-8")


@dataclass(frozen=True)
class Row:
    """A line of one of the page's tables."""

    number: str
    tag: str
    function: str
    figure: str
    test: str


def rows() -> Iterator[Row]:
    for line in PAGE.splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if len(cells) == 6 and re.match(r"(Z|MT) ", cells[0]):
            number, _, *links = cells
            yield Row(number, *links)


ROWS = list(rows())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_every_link_leads_somewhere(row: Row) -> None:
    assert callable(resolve(row.function))
    assert has_test(f"tests/{row.test}"), row.test
    assert row.figure == "—" or row.figure in {kind.id for kind in FIGURES}
    tag = re.fullmatch(r"\[T(\d+)\]\(#t\1\)", row.tag)
    assert row.tag == "—" or (tag and f"(t{tag[1]})=" in THEORY), row.tag


def test_no_number_stands_twice_and_every_figure_of_the_papers_has_one() -> None:
    numbers = [row.number for row in ROWS]
    assert len(set(numbers)) == len(numbers) > 50
    named = {row.figure for row in ROWS}
    published = {kind.id for kind in FIGURES if re.fullmatch(r"fig\d+|mt\d", kind.id)}
    assert published <= named


def test_every_tag_of_the_theory_is_named() -> None:
    tags = set(re.findall(r"^\(t(\d+)\)=", THEORY, re.MULTILINE))
    assert tags - set(re.findall(r"\(#t(\d+)\)", PAGE)) == set()


def equations(text: str, paper: str) -> set[int]:
    """The numbers of equations that a text cites: `Z 24, 59`, `Z eq. 21–23`, `Z 68 and 73`.

    >>> sorted(equations("(Z eq. 21–23; Z 68 and 73), not Z section 4.2 or Z Figure 6", "Z"))
    [21, 22, 23, 68, 73]
    """
    part = r"\d+(?!\.\d)\b(?:–\d+)?"
    cited = set()
    for match in re.finditer(rf"\b{paper} (?:eqs?\. )?({part}(?:(?:, | and ){part})*)", text):
        for number in re.findall(part, match[1]):
            first, _, last = number.partition("–")
            cited |= set(range(int(first), int(last or first) + 1))
    return cited


def figures(text: str, paper: str) -> set[str]:
    """The figures that a text cites by number."""
    return set(re.findall(rf"\b{paper} (?:section [\w.]+, )?(?:Figure|Fig\.) (\d+B?)\b", text))


@pytest.fixture(scope="module")
def cited() -> str:
    """All that the package and its documentation say."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
    texts = (file.read_text("utf-8") for file in files if file.name != "papers.md")
    # A citation may go over the end of a line.
    return " ".join(" ".join(texts).split())


@pytest.mark.parametrize("paper", ["Z", "MT"])
def test_every_number_that_is_cited_has_its_row(paper: str, cited: str) -> None:
    here = " ".join(row.number + ";" for row in ROWS)
    assert len(equations(cited, paper)) > 5
    assert equations(cited, paper) - equations(here, paper) == set()
    assert figures(cited, paper) - figures(here, paper) == set()


def test_the_numbers_that_are_not_cited_are_listed() -> None:
    known = equations(" ".join(row.number + ";" for row in ROWS), "Z")
    listed = re.search(r"the highest that is cited:\s+([\d–,\s]+)\.", PAGE)
    assert listed is not None
    assert equations("Z " + " ".join(listed[1].split()), "Z") == set(range(1, 88)) - known
