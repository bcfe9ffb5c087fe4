"""The callbacks in the real Trainers of Hugging Face and Lightning."""

from __future__ import annotations

import json

import lightning
import numpy as np
import pytest
import torch
import transformers
from tests.observe.conftest import FAMILIES, Repeated, gpt2, trainer
from tests.observe.explicit import dense_spectrum, explicit_products

from saddlescope import observe

KINDS = {"gpt2": "gpt2", "pythia": "gpt_neox", "llama": "llama", "qwen2": "llama"}
ONLY_GPT2 = pytest.mark.parametrize("trained", ["gpt2"], indirect=True)


def logged(folder):
    """What the Trainer has logged until its last checkpoint."""
    state = json.loads((folder / "checkpoint-24" / "trainer_state.json").read_text())
    return state["log_history"]


def test_hugging_faces_trainer_is_observed(trained):
    found = observe.load(trained.folder / "observed")
    assert found.step.values.tolist() == [0, 8, 16, 24]
    assert found.attrs["adapter"] == KINDS[trained.family]
    assert found.attrs["problems"] == []
    assert np.isfinite(found.prefix_matching).all()
    assert np.isfinite(found.qk_drift[1:]).all()
    losses = [(one["step"], one["loss"]) for one in logged(trained.folder)]
    steps = found.loss_step.values.tolist()
    assert list(zip(steps, found.loss.values.tolist(), strict=True)) == losses
    assert len(losses) == 12


def test_what_is_seen_is_what_a_dense_decomposition_gives(trained):
    found = observe.load(trained.folder / "observed").isel(step=-1)
    name = str(trained.folder / "checkpoint-24")
    model = transformers.AutoModelForCausalLM.from_pretrained(name)
    # With biases QK acts on (x; 1), which the tests of adapters write out.
    circuits = ("qk", "ov") if trained.family == "llama" else ("ov",)
    for layer, heads in enumerate(explicit_products(model)):
        for head, products in enumerate(heads):
            for circuit in circuits:
                dense = dense_spectrum(products[circuit == "ov"])
                ours = found[f"{circuit}_spectrum"].values[layer, head]
                np.testing.assert_allclose(ours, dense, atol=2e-6 * dense[0])


def test_the_trainers_losses_do_not_know_of_it(trained, tmp_path):
    torch.manual_seed(0)
    alone = trainer(FAMILIES[trained.family](), tmp_path)
    alone.train()
    fixed = ("step", "loss", "grad_norm", "learning_rate", "epoch")
    ours = [{name: one.get(name) for name in fixed} for one in alone.state.log_history[:-1]]
    assert ours == [{name: one.get(name) for name in fixed} for one in logged(trained.folder)]


def test_a_compiled_model_is_observed_in_the_trainer(tmp_path):
    torch.manual_seed(0)
    compiled = {"torch_compile": True, "torch_compile_backend": "eager", "max_steps": 2}
    callback = observe.HuggingFaceCallback(every=1, tokens=Repeated(4).tokens)
    one = trainer(gpt2(), tmp_path, callbacks=[callback], arguments=compiled)
    # Wrapped, but not traced, which would take most of the time.
    with torch.compiler.set_stance("force_eager"):
        one.train()
    assert isinstance(one.model_wrapped, torch._dynamo.OptimizedModule)
    found = observe.load(tmp_path / "observed")
    assert found.step.values.tolist() == [0, 1, 2]
    assert found.layer_name.values.tolist() == ["transformer.h.0", "transformer.h.1"]
    assert found.attrs["problems"] == []


@ONLY_GPT2
def test_a_resumed_trainer_goes_on_in_the_same_folder(trained, tmp_path):
    out = tmp_path / "seen"
    torch.manual_seed(0)
    callback = observe.HuggingFaceCallback(every=8, out=out)
    one = trainer(gpt2(), trained.folder, callbacks=[callback])
    one.train(resume_from_checkpoint=str(trained.folder / "checkpoint-16"))
    found = observe.load(out)
    assert found.step.values.tolist() == [16, 24]
    whole = observe.load(trained.folder / "observed")
    np.testing.assert_allclose(found.qk_norm[0], whole.qk_norm[2], rtol=1e-5)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.model = gpt2()

    def training_step(self, batch, index):
        return self.model(**batch).loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 3e-3)


def fit(folder, module, *callbacks, **options):
    one = lightning.Trainer(
        max_steps=6,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=list(callbacks),
        accumulate_grad_batches=2,
        **options,
    )
    torch.manual_seed(7)
    loader = torch.utils.data.DataLoader(Repeated(), batch_size=4)
    one.fit(module, loader)
    return one


@pytest.mark.filterwarnings("ignore")
def test_lightnings_trainer_is_observed_and_does_not_know_of_it(tmp_path):
    watched, alone = Module(), Module()
    fit(tmp_path / "watched", watched, observe.LightningCallback(every=2))
    fit(tmp_path / "alone", alone)
    for one, other in zip(watched.parameters(), alone.parameters(), strict=True):
        assert torch.equal(one, other)
    found = observe.load(tmp_path / "watched" / "observed")
    assert found.step.values.tolist() == [0, 2, 4, 6]
    assert found.loss_step.values.tolist() == [1, 2, 3, 4, 5, 6]
    assert found.layer_name.values.tolist() == ["model.transformer.h.0", "model.transformer.h.1"]
    last = observe.look(watched)
    np.testing.assert_array_equal(found.qk_spectrum[-1], last.qk_spectrum)

    # Its own checkpoints are observed as others are.
    (checkpoint,) = (tmp_path / "watched").rglob("*.ckpt")
    done = observe.observe_checkpoints([checkpoint], tmp_path / "out", heads=4)
    assert done.problems == ()
    again = observe.load(tmp_path / "out")
    assert again.step.values.tolist() == [6]
    np.testing.assert_allclose(again.qk_spectrum[0], last.qk_spectrum, rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_lightning_closes_the_record_when_training_breaks_off(tmp_path):
    class Broken(Module):
        def training_step(self, batch, index):
            if self.global_step == 3:
                raise RuntimeError("broken off")
            return super().training_step(batch, index)

    with pytest.raises(RuntimeError, match="broken off"):
        fit(tmp_path, Broken(), observe.LightningCallback(every=100))
    assert observe.load(tmp_path / "observed").step.values.tolist() == [0, 3]
