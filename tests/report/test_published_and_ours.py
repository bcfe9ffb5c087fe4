"""What was published and what is ours, in tables of their own; departures with their figure."""

from pathlib import Path

from saddlescope.figures.kit.claim import Claim, at_most, equal
from saddlescope.figures.kit.claims import Claims
from saddlescope.figures.kit.reproduction import Result
from saddlescope.figures.zhang.fig3 import Figure3
from saddlescope.report import write_reproduction_page

PUBLISHED = equal("the order", [1, 2], [1, 2]).stated_in("Z Figure 3")
OURS = at_most("the drift", 1e-9, 1e-8)


def page_of(tmp_path: Path, *claims: Claim) -> str:
    result = Result(Figure3(), Claims(claims))
    return write_reproduction_page([result], tmp_path / "index.html").read_text()


def test_two_tables_above_and_two_in_the_figure(tmp_path: Path) -> None:
    page = page_of(tmp_path, OURS, PUBLISHED)
    for level in ("h2", "h3"):
        published, ours = (
            page.index(f"<{level}>{heading}</{level}>")
            for heading in ("As published", "Our own criteria")
        )
        assert published < page.index("Z Figure 3: the order", published) < ours
        assert "the drift" in page[ours:]


def test_no_table_is_empty(tmp_path: Path) -> None:
    page = page_of(tmp_path, OURS)
    assert "As published" not in page
    assert page.count("Our own criteria") == 2


def test_departures_are_listed_with_the_figure(tmp_path: Path) -> None:
    page = page_of(tmp_path, OURS)
    assert "Departures from the published setting" in page
    for departure in Figure3.departures:
        assert f"<li>{departure}</li>" in page
    assert Result(Figure3()).to_dict()["departures"] == list(Figure3.departures)
