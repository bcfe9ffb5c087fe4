"""Tables as text and as HTML."""

from saddlescope.tables import Cell, html_table, name_eigenvectors, or_dash, paragraphs, text_table

HOSTILE = '<script>&"'


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    text = text_table(["a", "number"], [["first", "1"], ["x", "1234567"]], left=1)
    assert text.splitlines() == [
        "a       number",
        "─────  ───────",
        "first        1",
        "x      1234567",
    ]


def test_a_table_without_rule_or_rows() -> None:
    assert text_table(["a", "b"], [["1", "22"]], rule=False) == "a   b\n1  22"
    assert text_table(["a", "b"], []) == "a  b\n─  ─"


def test_lines_end_with_their_last_word() -> None:
    lines = text_table(["", "last"], [["x", ""]], left=2, rule=False).splitlines()
    assert lines == ["   last", "x"]


def test_html_is_escaped_but_for_cells_that_are_html() -> None:
    html = html_table([HOSTILE], [[HOSTILE], [Cell("<b>1</b>", "wide")]], kind="claims")
    assert "<script>" not in html
    assert '<td class="wide"><b>1</b></td>' in html
    assert html.startswith('<table class="claims">')
    assert "<script>" not in paragraphs([HOSTILE])


def test_rows_have_their_attributes() -> None:
    html = html_table(["n"], [["1"], ["2"]], attributes=[{"data-n": "1"}, {"data-n": ""}])
    assert '<tr data-n="1"><td>1</td></tr>' in html
    assert "<tr><td>2</td></tr>" in html


def test_people_count_from_one() -> None:
    assert name_eigenvectors([0, 3]) == "{e1, e4}"
    assert name_eigenvectors(()) == "{}"


def test_nothing_is_a_dash() -> None:
    assert [or_dash(value, ".2f") for value in (None, 0.0, 1.234)] == ["—", "0.00", "1.23"]
