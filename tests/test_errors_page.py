"""Every message on the page of error messages is what its example produces."""

import re
import shlex
from pathlib import Path

import pytest
from tests.links import ROOT

from saddlescope.cli import main
from saddlescope.errors import SaddlescopeError

PAGE = (ROOT / "docs/errors.md").read_text("utf-8")
QUOTED = re.findall(r"^### `([^\n]+)`\n\n```(python|shell)\n(.+?)```", PAGE, re.M | re.S)
ASSUMED = re.search(r"All examples start with\n\n```python\n(.+?)```", PAGE, re.S)


def test_every_heading_has_its_example() -> None:
    assert len(QUOTED) == PAGE.count("\n### ") > 20


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    assert ASSUMED is not None
    names: dict[str, object] = {"Path": Path}
    exec(ASSUMED[1], names)
    return names


@pytest.mark.parametrize(("message", "kind", "code"), QUOTED, ids=[one[0][:40] for one in QUOTED])
def test_the_message_is_what_is_said(
    message: str,
    kind: str,
    code: str,
    names: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("weights.pt").write_bytes(b"\x80\x04nothing")
    said = shown(code, capsys) if kind == "shell" else raised(code, dict(names), capsys)
    parts = (re.escape(part) for part in message.split("…"))
    assert re.fullmatch(".+".join(parts), said), said


def raised(code: str, names: dict[str, object], capsys: pytest.CaptureFixture[str]) -> str:
    try:
        exec(compile(code, "docs/errors.md", "exec"), names)
    except SaddlescopeError as problem:
        return str(problem)
    # A message that is not an error is printed.
    return capsys.readouterr().out.strip()


def shown(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    program, *words = shlex.split(command)
    with pytest.raises(SystemExit) as left:
        main(words)
    lines = capsys.readouterr().err.splitlines()
    assert program == "saddlescope"
    assert left.value.code in (1, 2)
    assert len(lines) == 1
    return lines[0].removeprefix("saddlescope: ")
