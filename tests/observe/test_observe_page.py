"""What the page on other people's runs says: its examples run."""

from __future__ import annotations

import re
from pathlib import Path

from saddlescope.observe import adapters

PAGE = Path(__file__).parents[2] / "docs" / "observe.md"


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    try:
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
            exec(compile(block, str(PAGE), "exec"), names)
        assert adapters.known()[0].name == "mine"
    finally:
        adapters.unregister("mine")
    assert names["found"].step.values.tolist() == [0, 10, 20, 30]
    assert names["curve"].notes == ("row 3: no finite loss, left out",)
