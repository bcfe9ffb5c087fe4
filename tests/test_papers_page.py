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

    published: str
    """The number in the published version, or a dash. MT has only one column of numbers."""
    number: str
    """The number that the package cites, or a dash."""
    tag: str
    function: str
    figure: str
    test: str

    @property
    def name(self) -> str:
        return " = ".join(number for number in (self.published, self.number) if number != "—")


def tables() -> Iterator[list[list[str]]]:
    """The page's tables, each as the cells of its lines, with the header first."""
    for block in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        yield [
            [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
            for line in block.splitlines()
        ]


def rows() -> Iterator[Row]:
    for head, _, *lines in tables():
        for line in lines:
            if len(line) != len(head):
                continue  # A test below reports it.
            cells = [cell.strip("`") for cell in line]
            published = cells.pop(0) if head[0] == "published" else "—"
            number, _, *links = cells
            yield Row(published, number, *links)


ROWS = list(rows())


def test_every_line_of_a_table_has_the_cells_of_its_head() -> None:
    found = list(tables())
    assert len(found) == 5
    for head, rule, *lines in found:
        assert all(set(cell) == {"-"} for cell in rule)
        for line in [rule, *lines]:
            assert len(line) == len(head), line
            assert all(line)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_link_leads_somewhere(row: Row) -> None:
    function = resolve(row.function)
    assert callable(function) or isinstance(function, property)
    assert has_test(f"tests/{row.test}"), row.test
    assert row.figure == "—" or row.figure in {kind.id for kind in FIGURES}
    tag = re.fullmatch(r"\[T(\d+)\]\(#t\1\)", row.tag)
    assert row.tag == "—" or (tag and f"(t{tag[1]})=" in THEORY), row.tag


def test_no_number_stands_twice_and_every_figure_of_the_papers_has_one() -> None:
    for numbers in ([row.number for row in ROWS], [row.published for row in ROWS]):
        given = [number for number in numbers if number != "—"]
        assert len(set(given)) == len(given) > 40
    assert all(row.name for row in ROWS)
    named = {row.figure for row in ROWS}
    ours = {kind.id for kind in FIGURES if re.fullmatch(r"fig\d+|mt\d", kind.id)}
    assert ours <= named


def equation_of(row: Row) -> int | None:
    """The published number of an equation, without the letters of its parts."""
    found = re.fullmatch(r"\((\d+)(?:[a-z][–, a-z]*)?\)", row.published)
    return int(found[1]) if found else None


def test_every_equation_of_the_published_main_text_has_its_row() -> None:
    numbers = [number for row in ROWS if (number := equation_of(row)) is not None]
    # In the order of the paper; the main text refers to one equation of the appendix.
    assert numbers == [*range(1, 23), 71]
    published = [row.published for row in ROWS]
    for name in ("(M)", "(S)", "(C1)", "(C2)", "(C3)"):
        assert published.count(name) == 1
    figures_there = [name.removeprefix("Figure ") for name in published if "Figure" in name]
    assert figures_there == ["1", "2", "3", "4", "5", "6", "11", "12"]


def test_the_first_version_counts_five_more() -> None:
    for row in ROWS:
        number = equation_of(row)
        if number is not None and 6 <= number <= 22:
            assert row.number == f"Z {number + 5}"


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
    """The figures that a text cites by number, published ones with their year.

    >>> sorted(figures("Z Figure 5 (ICML 2025), Z section E.4, Figure 8", "Z"))
    ['5 (ICML 2025)', '8']
    """
    cited = rf"\b{paper} (?:section [\w.]+, )?(?:Figure|Fig\.) (\d+B?\b(?: \(ICML 2025\))?)"
    return set(re.findall(cited, text))


@pytest.fixture(scope="module")
def cited() -> str:
    """The text of the package and its documentation."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
    texts = (file.read_text("utf-8") for file in files if file.name != "papers.md")
    # A citation may continue on the next line.
    return " ".join(" ".join(texts).split())


@pytest.mark.parametrize("paper", ["Z", "MT"])
def test_every_number_that_is_cited_has_its_row(paper: str, cited: str) -> None:
    here = " ".join(row.number + ";" for row in ROWS)
    published = {f"{row.published.removeprefix('Figure ')} (ICML 2025)" for row in ROWS}
    assert len(equations(cited, paper)) > 5
    assert equations(cited, paper) - equations(here, paper) == set()
    assert figures(cited, paper) - figures(here, paper) - published == set()


def test_the_numbers_that_are_not_cited_are_listed() -> None:
    known = equations(" ".join(row.number + ";" for row in ROWS), "Z")
    listed = re.search(r"the highest that is cited:\s+([\d–,\s]+)\.", PAGE)
    assert listed is not None
    assert equations("Z " + " ".join(listed[1].split()), "Z") == set(range(1, 88)) - known
