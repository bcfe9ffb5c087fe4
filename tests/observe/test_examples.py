"""The examples of `observe` run, with fewer steps."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import nbformat
import pytest

from saddlescope import observe

EXAMPLES = Path(__file__).parents[2] / "examples"


def main_of(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def test_plain_torch(tmp_path, capsys):
    main_of("plain_torch")(steps=20, out=str(tmp_path / "seen"))
    assert "attends to what came next" in capsys.readouterr().out
    assert observe.load(tmp_path / "seen").sizes["step"] == 21


@pytest.mark.filterwarnings("ignore:'pin_memory'")
def test_hugging_faces_trainer(tmp_path, capsys):
    main_of("huggingface_trainer")(steps=20, out=str(tmp_path / "run"))
    last = capsys.readouterr().out.splitlines()[-1]
    assert float(last.partition(":")[2]) < 1e-6
    assert observe.load(tmp_path / "run" / "observed").sizes["step"] == 21


def test_the_notebook(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = nbformat.read(EXAMPLES / "checkpoints.ipynb", as_version=4)
    names = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            exec(compile(cell.source, cell.id, "exec"), names)
    assert names["found"].sizes["step"] == 11
    (drop,) = names["stages"].drops
    assert drop.time == pytest.approx(500, abs=5)
    # What grows in every weight shows in every layer.
    assert (names["found"].ov_effective_rank[-1] < names["found"].ov_effective_rank[0]).all()
