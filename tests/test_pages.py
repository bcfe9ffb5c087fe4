"""The Python on the pages that no other test runs block by block."""

import re
from pathlib import Path

import pytest
from tests.links import ROOT

PAGES = ("lab", "reproduction", "sweeps", "transformers")


@pytest.mark.parametrize("page", PAGES)
def test_examples_run_in_order(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / f"docs/{page}.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_every_page_with_python_is_run() -> None:
    """Here, or by a test of its own, or at the build (tutorials); the first page has README's."""
    elsewhere = {"errors", "guide", "measures", "observe"}
    with_python = {
        path.stem
        for path in (ROOT / "docs").glob("*.md")
        if "```python\n" in path.read_text("utf-8")
    }
    assert with_python == elsewhere | {"index"} | set(PAGES)
    (first,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/index.md").read_text("utf-8"), re.S)
    lines = first.splitlines()
    assert "\n".join(lines[:-1]) in (ROOT / "README.md").read_text("utf-8")
    assert lines[-1].startswith("run.compare()")
