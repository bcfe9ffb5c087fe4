"""What the page on measures says: its examples run, and its table is what the benchmark makes."""

import re
from pathlib import Path

import pytest
from benchmarks.stages import CORRELATIONS, RATIOS, score

PAGE = Path(__file__).parents[2] / "docs" / "measures.md"


def table():
    """Noise and ratio to precision and recall."""
    rows = re.findall(r"\| (white|AR\(\.8\)) \| (\d+) \| ([\d.]+) \| ([\d.]+) \|", PAGE.read_text())
    return {(noise, float(ratio)): (float(p), float(r)) for noise, ratio, p, r in rows}


def test_the_examples_run(capsys):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    assert [round(drop.time, -2) for drop in names["found"].drops] == [1500, 3500]
    assert "Stages: 2 drops" in capsys.readouterr().out


def test_the_table_has_every_line():
    expected = {(noise, ratio) for noise in ("white", "AR(.8)") for ratio in RATIOS}
    assert set(table()) == expected


@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("ratio", RATIOS)
def test_the_table_is_what_is_measured(ratio, correlation):
    """Forty of its three hundred curves, with some 120 drops."""
    precision, recall = table()["AR(.8)" if correlation else "white", ratio]
    scores = score(ratio, correlation, curves=40, points=2000)
    # Four standard errors of a share of 120, and a single drop where all or none should be found.
    for ours, stated in ((scores.precision, precision), (scores.recall, recall)):
        allowed = 4 * (stated * (1 - stated) / 120) ** 0.5 + 1 / 120
        assert ours == pytest.approx(stated, abs=allowed)
