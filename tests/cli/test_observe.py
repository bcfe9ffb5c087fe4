"""`saddlescope observe` and `saddlescope measure`, as users give them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from saddlescope import observe
from saddlescope.cli import main


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    """Exit code, output and complaints of a command in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("EQX_ON_ERROR", "nan")

    def run(*words):
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Five checkpoints of GPT-2's names, and the log of their run."""
    folder = tmp_path_factory.mktemp("saved")
    generator = torch.Generator().manual_seed(0)
    state = {
        f"h.{layer}.attn.{name}.weight": torch.randn(8, columns, generator=generator)
        for layer in range(2)
        for name, columns in (("c_attn", 24), ("c_proj", 8))
    }
    for step in range(0, 500, 100):
        torch.save(state, folder / f"step{step}.pt")
        state = {
            name: weight + 0.3 * torch.randn(weight.shape, generator=generator)
            for name, weight in state.items()
        }
    steps = np.arange(0, 401, 4)
    losses = 3 - 2 / (1 + np.exp((200 - steps) / 8))
    pd.DataFrame({"step": steps, "loss": losses}).to_csv(folder / "train.csv", index=False)
    return folder


def test_checkpoints_become_a_summary_tables_and_a_page(command, saved):
    words = ["observe", saved, "--heads", 2, "--log", saved / "train.csv", "--csv", "--tensorboard"]
    code, out, err = command(*words)
    assert (code, err) == (0, "")
    assert "5 steps (0 to 400) of 2 layers with 2 heads each, gpt2" in out
    assert "Stages: 1 drop" in out
    assert "Heads that changed most:" in out
    assert "5 checkpoints observed" in out
    found = observe.load("out/observed")
    heads = pd.read_csv("out/observed/csv/heads.csv", index_col=["step", "layer", "head"])
    assert len(heads) == 5 * 2 * 2
    assert heads["qk_effective_rank"][100, 1, 0] == pytest.approx(
        float(found.qk_effective_rank.sel(step=100, layer=1, head=0))
    )
    assert len(pd.read_csv("out/observed/csv/loss.csv")) == 101
    code, out, err = command(*words)
    assert (code, err) == (0, "")
    assert "0 checkpoints observed, 5 known before" in out


def test_event_files_are_read_back_by_tensorboard_itself(command, saved):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):
        # The second time in place of the first.
        code, *_ = command("observe", saved, "--heads", 2, "--tensorboard", "--out", "seen")
        assert code == 0
    read = EventAccumulator("seen/tensorboard")
    read.Reload()
    found = observe.load("seen")
    events = read.Scalars("qk_effective_rank/layer1.head0")
    assert [event.step for event in events] == [0, 100, 200, 300, 400]
    np.testing.assert_allclose(
        [event.value for event in events], found.qk_effective_rank[:, 1, 0], rtol=1e-6
    )


def test_json_holds_what_the_summary_says(command, saved):
    code, out, err = command("observe", saved / "step*.pt", "--heads", 2, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["steps"] == [0, 100, 200, 300, 400]
    assert found["problems"] == found["remarks"] == []
    assert found["changes"][0]["measure"] in ("qk_effective_rank", "ov_effective_rank")


def test_a_broken_checkpoint_is_told_and_the_exit_code_is_1(command, saved, tmp_path):
    shutil.copytree(saved, tmp_path / "run")
    (tmp_path / "run" / "step150.pt").write_bytes(b"half")
    code, out, err = command("observe", "run", "--heads", 2)
    assert code == 1
    assert "5 checkpoints observed" in out
    assert err.count("\n") == 1
    assert err.startswith("saddlescope: path = 'run/step150.pt': step150.pt ")
    code, out, err = command("observe", "run/step150.pt", "--out", "none")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    # Without the number of heads: a line each, and no folder that holds nothing.
    code, out, err = command("observe", "run", "--out", "none")
    assert (code, out) == (1, "")
    assert err.count("\n") == 6
    assert "heads = None: must be given" in err
    assert not Path("none").exists()


def test_a_recorders_folder_and_another_beside_it(command, saved):
    with observe.Recorder(torch.nn.MultiheadAttention(8, 2), every=1, out="live") as one:
        one.step(loss=1.0)
    code, out, err = command("observe", "live")
    assert (code, err) == (0, "")
    assert "2 steps (0 to 1) of 1 layer with 2 heads each, multihead" in out
    command("observe", saved, "--heads", 2, "--out", "saved")
    code, out, err = command("observe", "live", "--compare", "saved")
    assert (code, err) == (0, "")
    assert "gpt2" in out
    assert '"name":"saved"' in Path("live/index.html").read_text()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--out", "elsewhere"], "out = 'elsewhere'"),
        (["--log", "train.csv"], "log = 'train.csv'"),
        (["--fold-norms"], "fold_norms = 'True'"),
        (["--directions", 2], "directions = '2'"),
    ],
    ids=str,
)
def test_what_would_not_change_an_observation_is_refused(words, named, command):
    with observe.Recorder(torch.nn.MultiheadAttention(8, 2), every=1, out="live") as one:
        one.step(loss=1.0)
    code, out, err = command("observe", "live", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"saddlescope: {named}: is for checkpoints")


def test_checkpoints_are_not_measured_in_two_ways_in_one_folder(command, saved):
    code, _, _ = command("observe", saved, "--heads", 2, "--out", "seen")
    assert code == 0
    code, out, err = command("observe", saved, "--heads", 2, "--out", "seen", "--fold-norms")
    assert (code, out) == (2, "")
    assert err == (
        "saddlescope: fold_norms = True: seen was measured with False: name another folder\n"
    )


def test_a_file_that_is_no_checkpoint_is_not_said_to_be_damaged(command, saved):
    code, out, err = command("observe", saved / "train.csv", "--heads", 2)
    assert (code, out) == (1, "")
    assert "train.csv is not a checkpoint" in err


def test_an_adapter_of_ones_own_from_a_file(command, tmp_path):
    state = {f"body.{n}.{name}.weight": torch.randn(8, 8) for n in range(2) for name in "qkvo"}
    torch.save(state, tmp_path / "step3.pt")
    (tmp_path / "my_adapter.py").write_text(
        "from saddlescope.observe import Projections\n"
        "mine = Projections('mine', 'q', 'k', 'v', 'o', heads=2)\n"
    )
    code, out, _ = command("observe", "step3.pt", "--adapter", "my_adapter.py:mine")
    assert code == 0
    assert "1 step (3) of 2 layers with 2 heads each, mine" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "checkpoints = '': must be files"),
        (["nowhere"], "checkpoints = 'nowhere': there is no such file or folder"),
        (["{saved}", "--heads", "two"], "heads = 'two': must be a whole number"),
        (["{saved}", "--directions", "0"], "directions = '0': must be a whole number"),
        (["{saved}", "--compare", "nowhere"], "compare = 'nowhere': must be an observation"),
        (["{saved}", "--log", "nowhere"], "log = 'nowhere': there is no such file"),
        (["{saved}", "--adapter", "nowhere.py:mine"], "adapter = 'nowhere.py'"),
        (["{saved}", "--adapter", "bert"], "adapter = 'bert': must be an adapter or one of gpt2"),
    ],
)
def test_nonsense_is_told_in_one_line(words, message, command, saved, tmp_path):
    code, out, err = command("observe", *(word.format(saved=saved) for word in words))
    assert (code, out) == (2, "")
    assert err.startswith(f"saddlescope: {message}")
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_stages_of_a_log_as_table_picture_and_json(command, saved):
    log = saved / "train.csv"
    code, out, err = command("measure", log, "--plot", "stages.png")
    assert (code, err) == (0, "")
    assert "101 steps, 0 to 400" in out
    assert "Stages: 1 drop" in out
    assert Path("stages.png").read_bytes().startswith(b"\x89PNG")
    code, out, err = command("measure", log, "--json")
    (run,) = json.loads(out)["runs"]
    assert run["stages"]["drops"][0]["time"] == pytest.approx(200, abs=4)


def test_a_picture_that_cannot_be_written_costs_no_result(command, saved):
    log = saved / "train.csv"
    code, out, err = command("measure", log, "--plot", "missing/stages.png")
    assert code == 1
    assert "Stages: 1 drop" in out
    assert err.startswith("saddlescope: path = 'missing/stages.png': cannot be written")
    code, out, _ = command("measure", log, "--plot", "missing/stages.png", "--json")
    assert code == 1
    assert len(json.loads(out)["runs"]) == 1


def test_a_messy_log_is_measured_and_what_was_done_is_said(command, saved, tmp_path):
    lines = (saved / "train.csv").read_text().splitlines()
    messy = [*lines[:30], "112,nan", *lines[30:], *lines[-20:]]
    (tmp_path / "messy.csv").write_text("\n".join(messy))
    code, out, err = command("measure", "messy.csv")
    assert (code, err) == (0, "")
    assert "row 31: no finite loss, left out" in out
    assert "row 104: a restart at step 324; 20 earlier rows" in out
    (tmp_path / "two.csv").write_text("\n".join([*lines, *lines[1:]]))
    code, out, _ = command("measure", "two.csv", "--plot", "two.svg")
    assert "run 1: 101 steps" in out
    assert out.endswith("wrote two-run-1.svg, two-run-2.svg\n")
    assert (tmp_path / "two-run-2.svg").exists()
    (tmp_path / "short.csv").write_text("step,loss\n1,2\n")
    code, out, _ = command("measure", "short.csv")
    assert code == 0
    assert "no stages" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "log = 'nowhere': there is no such file"),
        (["{log}", "--column", "val"], "column = 'val': must be one of 'step', 'loss'"),
        (["{log}", "--smoothing", "much"], "smoothing = 'much': must be a share"),
        (["{log}", "--smoothing", "2"], "smoothing = 2.0: must be a share"),
        (["{log}", "--plot", "a.xyz"], "plot = 'a.xyz': must end in .png, .pdf, .svg"),
        (["{log}", "--plot", "."], "plot = '.': must end in .png, .pdf, .svg"),
    ],
)
def test_nonsense_about_logs_is_told_in_one_line(words, message, command, saved):
    code, out, err = command("measure", *(word.format(log=saved / "train.csv") for word in words))
    assert (code, out) == (2, "")
    assert err.startswith(f"saddlescope: {message}")
    assert err.count("\n") == 1
