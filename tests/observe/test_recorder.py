"""A recorder in a plain loop: what it records, and that the run does not know of it."""

from __future__ import annotations

import logging
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.observe.conftest import VOCABULARY, Repeated, made

from saddlescope import observe
from saddlescope.errors import InvalidInput
from saddlescope.measure import prefix_matching
from saddlescope.observe.store import Store

TOKENS = Repeated(4).tokens


class Small(torch.nn.Module):
    """An encoder with dropout and a causal mask, on embedded tokens."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(VOCABULARY, 16)
        layer = torch.nn.TransformerEncoderLayer(16, 4, 16, dropout=0.2, batch_first=True)
        self.body = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = torch.nn.Linear(16, VOCABULARY)
        # A part that its user keeps out of training.
        self.body.layers[1].dropout.eval()

    def forward(self, tokens):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.out(self.body(self.embed(tokens), mask=mask, is_causal=True))


def train(model, steps, recorder=None, wrapped=None):
    """The losses of a run with dropout and noise from three generators."""
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    losses = []
    for _ in range(steps):
        rows = torch.tensor([random.randrange(4), np.random.randint(4)])  # noqa: NPY002
        logits = (model if wrapped is None else wrapped)(TOKENS[rows])
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].mT, TOKENS[rows][:, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        if recorder is not None:
            recorder.step(loss=loss)
    return losses


def test_the_run_is_the_same_bit_for_bit_and_all_is_recorded(tmp_path):
    alone, watched = Small(), Small()
    expected = train(alone, 12)
    modes = [module.training for module in watched.modules()]
    with observe.Recorder(watched, every=3, out=tmp_path / "seen", tokens=TOKENS) as recorder:
        assert train(watched, 12, recorder) == expected
    for one, other in zip(alone.parameters(), watched.parameters(), strict=True):
        assert torch.equal(one, other)
    assert [module.training for module in watched.modules()] == modes
    assert False in modes
    assert not any(module._forward_hooks for module in watched.modules())
    dataset = recorder.dataset
    assert dataset.step.values.tolist() == [0, 3, 6, 9, 12]
    assert dataset.loss_step.values.tolist() == list(range(1, 13))
    np.testing.assert_array_equal(dataset.loss, expected)
    assert dataset.drift_from.values.tolist()[1:] == [0, 3, 6, 9]
    assert dataset.attrs["problems"] == []
    assert dataset.prefix_matching.shape == (5, 2, 4)
    last = observe.look(watched)
    for name in ("qk_effective_rank", "ov_norm", "qk_spectrum", "ov_marginal_rank"):
        np.testing.assert_array_equal(dataset[name][-1], last[name])
    assert (dataset.qk_turn[-1] > dataset.qk_drift[-1]).all()


def test_scores_are_those_of_the_models_own_patterns_and_losses(tmp_path):
    model = made("gpt2")
    with observe.Recorder(model, out=tmp_path / "seen", tokens=TOKENS, early=2, late=14) as one:
        pass
    assert model.config._attn_implementation == "sdpa"
    model.set_attn_implementation("eager")
    with torch.no_grad():
        said = model(TOKENS, output_attentions=True)
    found = one.dataset
    expected = prefix_matching(said.attentions, TOKENS)
    np.testing.assert_allclose(found.prefix_matching[0], expected, atol=1e-6)
    losses = torch.nn.functional.cross_entropy(
        said.logits[:, :-1].mT, TOKENS[:, 1:], reduction="none"
    ).mean(0)
    assert found.in_context_score[0] == pytest.approx(float(losses[14] - losses[2]), abs=1e-5)
    assert found.probe_loss[0] == pytest.approx(float(losses.mean()), abs=1e-5)
    assert "predicted token 14 minus that of token 2" in found.attrs["notes"][-1]


def test_multihead_patterns_are_asked_of_the_modules_themselves(tmp_path):
    model = Small().eval()
    kept = []
    attention = model.body.layers[0].self_attn
    forward = attention.forward

    def with_weights(*given, **named):
        named |= {"need_weights": True, "average_attn_weights": False}
        kept.append(forward(*given, **named)[1])
        return forward(*given, **named)

    with observe.Recorder(model, out=tmp_path / "seen", tokens=TOKENS) as one:
        pass
    attention.forward = with_weights
    # With gradients the layers take no path around their modules.
    model(TOKENS)
    expected = prefix_matching(kept[0], TOKENS)
    np.testing.assert_allclose(one.dataset.prefix_matching[0, 0], expected, atol=1e-6)


def test_patterns_belong_to_their_layers_whatever_is_called_first(tmp_path):
    class Reversed(Small):
        def forward(self, tokens):
            mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
            read = self.embed(tokens)
            for layer in reversed(self.body.layers):
                read = layer(read, src_mask=mask)
            return self.out(read)

    model = Reversed().eval()
    with torch.no_grad():
        # The first layer by name attends to all alike, with every head.
        model.body.layers[0].self_attn.in_proj_weight.zero_()
    with observe.Recorder(model, out=tmp_path / "seen", tokens=TOKENS) as one:
        pass
    even, other = one.dataset.prefix_matching[0].values
    assert np.ptp(even) < 1e-6
    assert np.ptp(other) > 1e-3


def test_a_function_of_ones_own_is_asked(tmp_path):
    model = torch.nn.MultiheadAttention(8, 2)
    patterns = [torch.softmax(torch.randn(4, 2, 16, 16).tril(), -1)]

    def ask(model, tokens):
        return torch.zeros(4, 16, VOCABULARY), patterns

    out = tmp_path / "seen"
    with observe.Recorder(model, out=out, tokens=TOKENS, probe=ask) as one:
        pass
    np.testing.assert_allclose(one.dataset.probe_loss, np.log(VOCABULARY), rtol=1e-6)
    np.testing.assert_allclose(
        one.dataset.prefix_matching[0], prefix_matching(patterns, TOKENS), atol=1e-6
    )


# Of Python 3.13.0 alone, by torch's compiler.
@pytest.mark.filterwarnings("ignore:Guards may run slower:RuntimeWarning")
def test_compiled_and_replicated_models_are_unwrapped(tmp_path):
    model = Small()
    compiled = torch.compile(model, backend="eager")
    replicated = torch.nn.DataParallel(compiled)
    with observe.Recorder(replicated, every=2, out=tmp_path / "seen", tokens=TOKENS) as one:
        train(model, 2, one, wrapped=compiled)
    assert one.dataset.layer_name.values.tolist() == [
        "body.layers.0.self_attn",
        "body.layers.1.self_attn",
    ]
    assert one.dataset.attrs["problems"] == []
    model.body.layers[0].self_attn = torch.compile(model.body.layers[0].self_attn, backend="eager")
    assert observe.look(model).layer_name.values[0] == "body.layers.0.self_attn"


def test_what_fails_is_noted_and_the_run_goes_on(tmp_path, caplog):
    model = Small()
    with (
        caplog.at_level(logging.WARNING, "saddlescope"),
        observe.Recorder(model, every=1, out=tmp_path / "seen", tokens=TOKENS) as one,
    ):
        one.step(loss=torch.tensor(1.0))
        with torch.no_grad():
            model.body.layers[0].self_attn.in_proj_weight[0, 0] = torch.nan
        one.step(loss=torch.tensor(torch.nan))
        one.step(loss=torch.tensor(2.0))
    found = one.dataset
    assert found.step.values.tolist() == [0, 1, 2, 3]
    assert np.isnan(found.qk_norm[2:, 0]).all()
    assert np.isfinite(found.qk_norm[2:, 1]).all()
    assert np.isfinite(found.qk_norm[:2]).all()
    assert any("step 2: body.layers.0" in line for line in found.attrs["problems"])
    assert any("finite" in line for line in found.attrs["problems"])
    assert sum("the run goes on" in record.message for record in caplog.records) == 1
    np.testing.assert_array_equal(found.loss, [1.0, np.nan, 2.0])


def test_a_measure_that_breaks_altogether_leaves_a_record_that_says_so(tmp_path, monkeypatch):
    model = Small()
    one = observe.Recorder(model, every=1, out=tmp_path / "seen")

    def broken(*given):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr("saddlescope.observe._watch.measure_heads", broken)
        one.step(loss=1.0)
    one.step(loss=2.0)
    one.close()
    assert one.dataset.step.values.tolist() == [0, 2]
    assert one.dataset.loss.values.tolist() == [1.0, 2.0]
    assert one.dataset.attrs["problems"] == ["step 1: RuntimeError: out of memory"]


def test_a_loss_of_any_kind_is_kept_and_breaks_nothing(tmp_path):
    one = observe.Recorder(torch.nn.MultiheadAttention(8, 2), every=100, out=tmp_path / "seen")
    for loss in (np.float32(1.5), torch.tensor([2.0, 4.0]), 3, "lost", None):
        one.step(loss=loss)
    one.close()
    assert one.dataset.loss_step.values.tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(one.dataset.loss, [1.5, 3.0, 3.0, np.nan])


def test_a_disk_that_refuses_costs_no_step(tmp_path, monkeypatch, caplog):
    from saddlescope.errors import CannotWrite

    model = Small()
    one = observe.Recorder(model, every=1, out=tmp_path / "seen")
    append = Store.append
    full = CannotWrite(tmp_path, OSError(28, "No space left on device"))

    def refuse(self, record):
        raise full

    monkeypatch.setattr(Store, "append", refuse)
    with caplog.at_level(logging.WARNING, "saddlescope"):
        one.step(loss=1.0)
        one.step(loss=2.0)
    monkeypatch.setattr(Store, "append", append)
    one.step(loss=3.0)
    one.close()
    # The losses of the steps that could not be written come with the next record.
    assert one.dataset.loss.values.tolist() == [1.0, 2.0, 3.0]
    assert one.dataset.step.values.tolist() == [0, 3]
    assert "No space left" in caplog.text


def test_a_restart_takes_the_place_of_what_it_does_again(tmp_path):
    model, out = Small(), tmp_path / "seen"
    with observe.Recorder(model, every=2, out=out) as first:
        for step in range(1, 7):
            first.step(loss=float(step))
    with pytest.raises(InvalidInput, match="holds an observation already"):
        observe.Recorder(model, out=out)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    with observe.Recorder(model, every=2, out=out, resume=True, start=3) as second:
        for step in range(4, 6):
            second.step(loss=10.0 * step)
    found = second.dataset
    assert found.step.values.tolist() == [0, 2, 3, 4, 5]
    assert found.loss.values.tolist() == [1.0, 2.0, 3.0, 40.0, 50.0]
    np.testing.assert_allclose(found.qk_norm[2], 4 * found.qk_norm[1], rtol=1e-5)


def test_without_a_folder_every_run_has_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = []
    for _ in range(2):
        with observe.Recorder(torch.nn.MultiheadAttention(8, 2)) as one:
            folders.append(one.out)
    assert folders == [Path("out/observed"), Path("out/observed-2")]


def test_it_is_read_while_it_goes_on_and_one_writes(tmp_path):
    model, out = Small(), tmp_path / "seen"
    one = observe.Recorder(model, every=1, out=out)
    one.step(loss=1.0)
    assert observe.load(out).step.values.tolist() == [0, 1]
    with pytest.raises(InvalidInput, match="is in use by process"):
        observe.Recorder(model, out=out, resume=True)
    one.close()


def test_a_damaged_record_costs_itself(tmp_path):
    model, out = Small(), tmp_path / "seen"
    with observe.Recorder(model, every=1, out=out) as one:
        one.step(loss=1.0)
        one.step(loss=2.0)
    file = out / "records" / "00000001.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    found = observe.load(out)
    assert found.step.values.tolist() == [0, 2]
    assert "00000001" in found.attrs["problems"][0]
    assert "is damaged" in found.attrs["problems"][0]


KILLED = """
import sys, torch
from saddlescope import observe
recorder = observe.Recorder(torch.nn.MultiheadAttention(8, 2), every=1, out=sys.argv[1])
for step in range(10**9):
    recorder.step(loss=1.0)
    print(step, flush=True)
"""


def test_a_killed_run_leaves_whole_records(tmp_path):
    out = tmp_path / "seen"
    command = [sys.executable, "-c", KILLED, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(5):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    found = observe.load(out)
    assert found.sizes["step"] >= 5
    assert found.attrs["problems"] == []
    with observe.Recorder(torch.nn.MultiheadAttention(8, 2), out=out, resume=True, start=3) as one:
        pass
    assert one.dataset.step.values.tolist() == [0, 1, 2, 3]


def test_decoders_of_ours(tmp_path):
    import jax

    from saddlescope.transformer import Decoder, DecoderShape

    shape = DecoderShape(vocabulary=VOCABULARY, context=16, layers=2, heads=2, d_model=8)
    first, second = (Decoder.start(shape, jax.random.key(n)) for n in range(2))
    with observe.Recorder(first, every=1, out=tmp_path / "seen", tokens=TOKENS) as one:
        one.step(loss=1.0, model=second)
    found = one.dataset
    np.testing.assert_allclose(found.qk_spectrum[1], observe.look(second).qk_spectrum)
    patterns = np.moveaxis(np.asarray(second.patterns(jax.numpy.asarray(TOKENS.numpy()))), 1, 0)
    np.testing.assert_allclose(
        found.prefix_matching[1], prefix_matching(patterns, TOKENS.numpy()), atol=1e-6
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every = 0: must be a whole number"),
        ({"start": -1}, "start = -1: must be a whole number"),
        ({"tokens": [[1.5, 2.0, 3.0]]}, "tokens = .*must be whole numbers"),
        ({"tokens": [[1, 2]]}, "3 positions or more"),
        ({"tokens": [[1, 2, 3]], "early": 0}, "must be given both, or neither"),
        ({"tokens": [[1, 2, 3]], "early": 0, "late": 9}, "late = 9: must hold some"),
        ({"directions": 0}, "directions = 0"),
        ({"tokens": TOKENS, "probe": 3}, "probe = 3: must be a function"),
        ({"fold_norms": 1}, "fold_norms = 1: must be True or False"),
        ({"adapter": "bert"}, "adapter = 'bert': must be an adapter or one of gpt2"),
        ({"heads": 0}, "heads = 0"),
        ({"heads": 3}, "heads = 3: must divide"),
        ({"out": ""}, "out = '': must be a path"),
    ],
)
def test_bad_options_are_told_in_one_line_before_anything_is_written(
    options, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=message) as caught:
        observe.Recorder(torch.nn.MultiheadAttention(8, 2), **options)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_numbers_of_numpy_are_numbers(tmp_path):
    options = {"every": np.int64(2), "directions": np.int64(1), "heads": np.int64(2)}
    with observe.Recorder(torch.nn.MultiheadAttention(8, 2), out=tmp_path / "seen", **options) as r:
        r.step(step=np.int64(2))
    assert r.dataset.step.values.tolist() == [0, 2]
