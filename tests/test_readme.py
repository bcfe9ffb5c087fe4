"""The Python in the README and in the guide runs, and prints what the README shows."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
def test_examples_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert names["run"].loss.shape[0] == 6
    if page == "README.md":
        assert_shown(text, str(names["run"].compare()))


def assert_shown(text: str, printed: str) -> None:
    """The table under the five lines is the one that is printed, up to rounding."""
    shown = re.search(r"^```\n(seed  drop .+?)```", text, flags=re.DOTALL | re.MULTILINE)
    assert shown is not None
    lines = [line for line in shown[1].splitlines() if line != "…"]
    assert len(lines) > 5
    for line, real in zip(lines[:-1], printed.splitlines(), strict=False):
        assert masked(line) == masked(real)
        # The last digits of a time and of an error depend on how XLA compiled the run.
        assert numbers(line) == pytest.approx(numbers(real), rel=1e-4, abs=0.011)
    assert lines[-1] in printed.splitlines()


def masked(line: str) -> str:
    return re.sub(r"[+-]?\d+\.\d+", lambda number: "0" * len(number[0]), line)


def numbers(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"[+-]?\d+\.\d+", line)]
