"""What the benchmarks record, and the page that shows it."""

from __future__ import annotations

import pytest
from benchmarks.__main__ import main
from benchmarks.page import PAGE, README, page, recorded, with_measured
from benchmarks.table import Row


def test_the_page_shows_what_is_recorded() -> None:
    records = recorded()
    assert records
    assert page(records) == PAGE.read_text(), "python -m benchmarks.page writes it"


def test_readme_has_the_numbers_that_are_recorded() -> None:
    text = README.read_text()
    assert text.count("<!-- measured -->") == text.count("<!-- end of measured -->") == 1
    assert with_measured(text, recorded()) == text, "python -m benchmarks.page writes it"


def test_a_number_that_was_changed_by_hand_is_noticed() -> None:
    text = README.read_text()
    row = next(line for line in text.splitlines() if "| plain vmap |" in line)
    other = text.replace(row, row.replace("| plain", "| 9 | plain"))
    assert other != text
    assert with_measured(other, recorded()) == text


def test_a_record_is_of_a_whole_run() -> None:
    for record in recorded().values():
        assert record["machine"]["device"]
        for subject in record["subjects"].values():
            assert "--quick" not in subject["command"]
            for row in subject["rows"]:
                assert row["met"] == Row.from_dict(row).met


def test_a_target_needs_its_condition_too() -> None:
    row = Row("a step", 1.0, 3.0, "numba", ratio_above=2.0, seconds_below=2.0)
    assert row.met
    assert Row.from_dict(row.to_dict()) == row
    assert not Row("a step", 1.0, 3.0, "numba", ratio_above=2.0, holds=False).met
    assert not Row("a step", 1.0, 3.0, "numba", ratio_above=4.0).met
    assert not Row("a step", 1.0, None, "none", seconds_below=0.5).met
    assert Row("a step", 1.0, 3.0, "numba").met is None


def test_an_unknown_subject_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "nonsense"])
    assert "nonsense" in capsys.readouterr().err


def test_the_gpu_part_says_that_it_needs_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr("jax.default_backend", lambda: "cpu")
    with pytest.raises(SystemExit, match="needs a GPU"):
        main(["--gpu", "--out", str(tmp_path)])
