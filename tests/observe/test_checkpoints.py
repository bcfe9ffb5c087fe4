"""Checkpoints of every form, whole and broken, against the models that they were saved from."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.observe.conftest import FAMILIES, made

from saddlescope import observe
from saddlescope.errors import InvalidInput
from saddlescope.observe import checkpoints as checkpoints_module
from saddlescope.observe.logs import history_losses


def disturb(model):
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Checkpoints of one Llama in every form, and what it measured when each was saved."""
    folder, model = tmp_path_factory.mktemp("run"), made("llama")
    torch.manual_seed(1)
    expected = {}
    for step in (5, 10, 20, 100):
        disturb(model)
        expected[step] = observe.look(model)
        if step == 5:
            model.save_pretrained(folder / "step5")
        elif step == 10:
            model.save_pretrained(folder / "step10", max_shard_size="4KB")
        elif step == 20:
            state = {"model": model.state_dict(), "config": model.config.to_dict(), "best": 0.5}
            torch.save(state, folder / "step20.pt")
        else:
            os.mkdir(folder / "step100")
            model.config.save_pretrained(folder / "step100")
            state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            save_file(state, folder / "step100" / "weights.safetensors")
    return folder, expected


def test_every_form_holds_what_the_model_was(run, tmp_path):
    folder, expected = run
    assert len(list((folder / "step10").glob("*.safetensors"))) > 1
    done = observe.observe_checkpoints([folder], tmp_path / "out")
    assert (done.observed, done.problems) == ((5, 10, 20, 100), ())
    found = observe.load(tmp_path / "out")
    assert found.step.values.tolist() == list(expected)
    for place, look in enumerate(expected.values()):
        for name in look.data_vars:
            np.testing.assert_allclose(found[name][place], look[name], rtol=1e-5, err_msg=name)
    assert found.drift_from.values.tolist()[1:] == [5, 10, 20]
    assert np.isfinite(found.qk_drift[1:]).all()
    assert [Path(source).name for source in found.source.values] == [
        "step5",
        "step10",
        "step20.pt",
        "weights.safetensors",
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_read_from_its_folder(family, tmp_path):
    model = made(family)
    model.save_pretrained(tmp_path / "checkpoint-3")
    observe.observe_checkpoints([tmp_path / "checkpoint-3"], tmp_path / "out", fold_norms=True)
    look = observe.look(model, fold_norms=True)
    found = observe.load(tmp_path / "out")
    np.testing.assert_allclose(found.qk_spectrum[0], look.qk_spectrum, rtol=1e-5)
    assert found.attrs["notes"] == look.attrs["notes"]
    assert (look.qk_norm != observe.look(model).qk_norm).all()


def test_half_precision_is_read(tmp_path):
    model = made("gpt2").bfloat16()
    model.save_pretrained(tmp_path / "1")
    observe.observe_checkpoints([tmp_path / "1"], tmp_path / "out")
    look = observe.look(model.float())
    np.testing.assert_allclose(
        observe.load(tmp_path / "out").ov_spectrum[0], look.ov_spectrum, rtol=1e-5
    )


def test_the_trainers_checkpoints_bring_their_losses(trained, tmp_path):
    done = observe.observe_checkpoints([trained.folder], tmp_path / "out")
    assert (done.observed, done.problems, done.remarks) == ((8, 16, 24), (), ())
    found, live = observe.load(tmp_path / "out"), observe.load(trained.folder / "observed")
    # What was seen live at these steps, and the same losses.
    np.testing.assert_allclose(found.qk_spectrum, live.qk_spectrum[1:], rtol=1e-5)
    np.testing.assert_allclose(found.ov_drift[1:], live.ov_drift[2:], rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(found.loss, live.loss)


def test_what_was_observed_is_not_read_again(run, tmp_path, monkeypatch):
    folder, _ = run
    out, read = tmp_path / "out", []
    opened = checkpoints_module.opened

    def noting(checkpoint, given):
        read.append(checkpoint.path.name)
        return opened(checkpoint, given)

    monkeypatch.setattr(checkpoints_module, "opened", noting)
    observe.observe_checkpoints([folder / "step5", folder / "step10"], out)
    assert read == ["step5", "step10"]
    read.clear()
    done = observe.observe_checkpoints([folder], out)
    assert read == ["step20.pt", "weights.safetensors"]
    assert (done.observed, done.known) == ((20, 100), (5, 10))
    # The directions of the last step were kept.
    assert observe.load(out).drift_from.values.tolist()[1:] == [5, 10, 20]
    assert np.isfinite(observe.load(out).qk_drift[2]).all()


def test_an_interrupted_series_goes_on(run, tmp_path, monkeypatch):
    folder, _ = run
    opened = checkpoints_module.opened

    def interrupted(checkpoint, given):
        if checkpoint.path.name == "step20.pt":
            raise KeyboardInterrupt
        return opened(checkpoint, given)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints_module, "opened", interrupted)
        with pytest.raises(KeyboardInterrupt):
            observe.observe_checkpoints([folder], tmp_path / "out")
    done = observe.observe_checkpoints([folder], tmp_path / "out")
    assert (done.observed, done.known) == ((20, 100), (5, 10))
    whole = observe.observe_checkpoints([folder], tmp_path / "whole")
    assert whole.observed == (5, 10, 20, 100)
    assert observe.load(tmp_path / "out").equals(observe.load(tmp_path / "whole"))


class Hostile:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def test_broken_files_get_a_line_each_and_the_rest_is_observed(run, tmp_path):
    folder, _ = run
    place = tmp_path / "run"
    shutil.copytree(folder, place)
    whole = (place / "step20.pt").read_bytes()
    tensors = (place / "step100" / "weights.safetensors").read_bytes()
    ran = tmp_path / "ran"
    torch.save({"model": Hostile(ran)}, place / "step21.pt")
    (place / "step22.pt").write_bytes(pickle.dumps(Hostile(ran)))
    (place / "step23.pt").write_bytes(whole[: len(whole) // 2])
    (place / "step24.pt").write_bytes(b"")
    (place / "step25.pt").write_text("no state dict")
    torch.save([1, 2], place / "step26.pt")
    torch.save({"step": 3, "note": "no tensors"}, place / "step27.pt")
    torch.save({"weight": torch.ones(2, 2)}, place / "step28.pt")
    (place / "step29.safetensors").write_bytes(tensors[: len(tensors) // 2])
    (place / "step30.safetensors").write_bytes(b"\xff" * 64)
    (place / "step31.safetensors").write_bytes(b"")
    for name, spoil in (
        ("step32", lambda folder: next(folder.glob("*-00002-of-*")).unlink()),
        ("step33", lambda folder: (folder / "model.safetensors.index.json").unlink()),
        ("step34", lambda folder: (folder / "model.safetensors.index.json").write_text("{")),
    ):
        shutil.copytree(place / "step10", place / name)
        spoil(place / name)
    done = observe.observe_checkpoints([place], tmp_path / "out")
    assert done.observed == (5, 10, 20, 100)
    assert not ran.exists()
    said = {Path(line.split("'")[1]).name: line.partition("': ")[2] for line in done.problems}
    assert all("\n" not in line for line in done.problems)
    refused = "holds objects that only running its code could make"
    expected = {
        "step21.pt": refused,
        "step22.pt": "is no plain state dict",
        "step23.pt": "damaged or half written",
        "step24.pt": "is empty",
        "step25.pt": "is no plain state dict",
        "step26.pt": "holds no state dict",
        "step27.pt": "holds no tensors by name",
        "step28.pt": "must have attention layers of a known family",
        "step29.safetensors": "damaged or half written",
        "step30.safetensors": "damaged or half written",
        "step31.safetensors": "is empty",
        "step32": "is missing",
        "step33": "its shards have no index",
        "step34": "its index is damaged",
    }
    assert set(said) == set(expected)
    for name, text in expected.items():
        assert text in said[name], (name, said[name])


def test_duplicates_gaps_and_shapes_are_reported(tmp_path):
    model, place = made("gpt2"), tmp_path / "run"
    for step in (10, 20, 40, 50):
        model.save_pretrained(place / f"checkpoint-{step}")
        disturb(model)
    shutil.copytree(place / "checkpoint-50", place / "final")
    shutil.copytree(place / "checkpoint-50", place / "checkpoint-60")
    shutil.copytree(place / "checkpoint-10", place / "other-20")
    model.config.n_layer = 1
    smaller = type(model)(model.config)
    smaller.save_pretrained(place / "checkpoint-70")
    done = observe.observe_checkpoints([place], tmp_path / "out")
    assert done.observed == (10, 20, 40, 50, 60, 70)
    said = [line.replace(f"{place}/", "") for line in done.remarks]
    assert "final: the same weights as checkpoint-50, left out" in said
    assert "checkpoint-60: the same weights as checkpoint-50" in said
    assert "a gap from step 20 to step 40: 1 checkpoint missing by the stride" in said
    assert (
        "step 70: 1 layer of 4 heads of size 4, where there were 2 layers of 4 heads of size 4"
        in said
    )
    (problem,) = done.problems
    assert "is of step 20, as" in problem
    found = observe.load(tmp_path / "out")
    assert np.isnan(found.qk_norm[-1, 1]).all()
    assert np.isfinite(found.qk_norm[:-1]).all()


def test_steps_come_from_metadata_or_are_counted(tmp_path):
    model = made("gpt2")
    state = {
        name: tensor.clone() for name, tensor in model.state_dict().items() if "lm" not in name
    }
    for name, step in (("early", 7), ("late", 30)):
        save_file(state, tmp_path / f"{name}.safetensors", metadata={"global_step": str(step)})
        state = {name: tensor + 0.01 for name, tensor in state.items()}
    torch.save({"state_dict": state, "iter_num": 300}, tmp_path / "ckpt.pt")
    done = observe.observe_checkpoints([tmp_path], tmp_path / "out", heads=4)
    assert done.observed == (7, 30, 300)
    plain = tmp_path / "plain"
    plain.mkdir()
    for name in "ab":
        state = {name: tensor + 0.01 for name, tensor in state.items()}
        torch.save(state, plain / f"{name}.pt")
    done = observe.observe_checkpoints([plain / "*.pt"], tmp_path / "counted", heads=4)
    assert done.observed == (0, 1)
    assert "counted from 0" in done.remarks[0]


def test_superscripts_and_numbers_beyond_64_bits_are_no_steps(tmp_path):
    (tmp_path / "1²").mkdir()
    weights = torch.nn.MultiheadAttention(8, 2).state_dict()
    for name, step in (("a", "²"), ("b", "9" * 5000)):
        weights = {name: tensor + 0.01 for name, tensor in weights.items()}
        save_file(weights, tmp_path / "1²" / f"{name}.safetensors", metadata={"step": step})
    done = observe.observe_checkpoints([tmp_path], tmp_path / "out", heads=2)
    assert done.observed == (0, 1)
    assert "counted from 0" in done.remarks[0]


def test_a_damaged_history_costs_its_own_lines():
    history = [{"step": 1, "loss": 10**400}, {"step": True, "loss": 3}, {"step": 2, "loss": 2.5}]
    assert history_losses(history) == ([2], [2.5])


def test_decoders_of_ours_and_a_log_beside(tmp_path):
    import jax

    from saddlescope.transformer import Decoder, DecoderShape, save_decoder

    shape = DecoderShape(vocabulary=7, context=8, layers=1, heads=2, d_model=8)
    decoders = [Decoder.start(shape, jax.random.key(n)) for n in range(2)]
    for step, decoder in enumerate(decoders):
        save_decoder(tmp_path / f"step{step}.safetensors", decoder)
    log = tmp_path / "log.csv"
    log.write_text("epoch,loss\n0,3\n0.5,2\n1,1\n")
    observe.observe_checkpoints([tmp_path], tmp_path / "out", log=log)
    found = observe.load(tmp_path / "out")
    np.testing.assert_allclose(found.ov_norm[1], observe.look(decoders[1]).ov_norm)
    assert found.loss.values.tolist() == [3, 2, 1]
    assert found.loss_step.values.tolist() == [0, 0.5, 1]
    assert not any("rotary" in note for note in found.attrs["notes"])


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (["nowhere"], "checkpoints = 'nowhere': there is no such file or folder"),
        (["empty"], "checkpoints = 'empty': must hold checkpoints"),
        ([3], "checkpoints = 3: must be a path"),
        (3, "checkpoints = 3: must be files, folders and patterns"),
    ],
)
def test_places_without_checkpoints(places, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match=message):
        observe.observe_checkpoints(places, "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_not_written_to(run, tmp_path):
    folder, _ = run
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="holds something else"):
        observe.observe_checkpoints([folder], tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
    with observe.Recorder(torch.nn.MultiheadAttention(8, 2), out=tmp_path / "live"):
        pass
    with pytest.raises(InvalidInput, match="holds an observation of a live run"):
        observe.observe_checkpoints([folder], tmp_path / "live")


def test_weights_are_those_of_the_file(run):
    """The fixture itself: what was saved is what the last model was."""
    folder, expected = run
    state = load_file(folder / "step100" / "weights.safetensors")
    config = json.loads((folder / "step100" / "config.json").read_text())
    look = observe.look(state, heads=config["num_attention_heads"])
    np.testing.assert_array_equal(look.qk_norm, expected[100].qk_norm)
