"""Every adapter against what the model itself computes, and against dense decompositions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.observe.conftest import FAMILIES, VOCABULARY, made, qwen3
from tests.observe.explicit import attention_of, dense_spectrum, explicit_products

from saddlescope import observe
from saddlescope.errors import InvalidInput
from saddlescope.observe import adapters
from saddlescope.observe.snapshot import weights_of

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


def seen(model, layer):
    """What a layer read before its norm, and after it, what it wrote and attended to."""
    attention, norm = attention_of(model, layer)
    kept = SimpleNamespace()
    hooks = [
        norm.register_forward_hook(
            lambda _, given, result: vars(kept).update(raw=given[0], read=result)
        ),
        attention.register_forward_hook(
            lambda _, given, result: vars(kept).update(written=result[0])
        ),
    ]
    model.set_attn_implementation("eager")
    with torch.no_grad():
        said = model(TOKENS, output_attentions=True)
    for hook in hooks:
        hook.remove()
    kept.pattern = said.attentions[layer][0]
    return kept


def normalised(family, raw):
    """What a norm does before its gain and bias."""
    centred = raw if family in ("llama", "qwen2") else raw - raw.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()


@pytest.mark.parametrize("fold_norms", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_patterns_and_outputs_are_those_of_the_model(family, fold_norms):
    """Scores through QK at every distance, and outputs through OV, biases and all."""
    model = made(family)
    weights = weights_of(model)
    adapter, layers = adapters.find(weights)
    assert len(layers) == 2
    for index, name in enumerate(layers):
        circuits = adapter.read(weights, name).circuits(fold_norms=fold_norms)
        kept = seen(model, index)
        x = (normalised(family, kept.raw) if fold_norms else kept.read)[0]
        with_one = torch.cat([x, torch.ones(len(x), 1)], 1)
        acting = with_one if circuits.qk.shape[-1] > x.shape[1] else x
        length, size = len(x), circuits.qk.left.shape[-1]
        # Pythia turns half of each head of four here.
        turning = {"rotary_dimensions": 2} if family == "pythia" else {}
        scores = torch.full((4, length, length), -torch.inf)
        for query in range(length):
            for key in range(query + 1):
                matrix = circuits.qk_at(query - key, **turning).product()
                score = torch.einsum("i,hij,j->h", acting[query], matrix, acting[key])
                scores[:, query, key] = score / size**0.5
        torch.testing.assert_close(scores.softmax(-1), kept.pattern, atol=2e-5, rtol=2e-4)
        moved = torch.einsum("hqk,hij,kj->qi", kept.pattern, circuits.ov.product(), x)
        bias = 0 if circuits.output_bias is None else circuits.output_bias
        torch.testing.assert_close(moved + bias, kept.written[0], atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("family", ["gpt2", "pythia", "llama"])
def test_spectra_are_those_of_the_explicit_product(family):
    model = made(family)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            weight.data.zero_()
    found = observe.look(model)
    for layer, heads in enumerate(explicit_products(model)):
        for head, products in enumerate(heads):
            for circuit, product in zip(("qk", "ov"), products, strict=True):
                dense = dense_spectrum(product)
                ours = found[f"{circuit}_spectrum"].values[layer, head]
                # Rounding of single precision, relative to the largest.
                np.testing.assert_allclose(ours, dense, atol=2e-6 * dense[0])
                shares = dense / dense.sum()
                rank = np.exp(-(shares * np.log(shares)).sum())
                assert found[f"{circuit}_effective_rank"].values[layer, head] == pytest.approx(
                    rank, rel=1e-4
                )


def test_a_model_inside_of_another_has_its_own_config():
    model = made("llama")
    outer = torch.nn.ModuleDict({"policy": model, "value": torch.nn.Linear(2, 2)})
    found = observe.look(outer)
    assert found.layer_name.values.tolist() == ["policy.model.layers.0", "policy.model.layers.1"]
    np.testing.assert_array_equal(found.qk_norm, observe.look(model).qk_norm)


def test_what_a_family_holds_beside_is_said():
    notes = observe.look(made("qwen2")).attrs["notes"]
    assert any("rotary" in note for note in notes)
    assert any("(x; 1)" in note for note in notes)
    notes = observe.look(qwen3()).attrs["notes"]
    assert any("normalised in each head" in note for note in notes)
    encoder = torch.nn.MultiheadAttention(8, 2)
    assert any("not found" in note for note in observe.look(encoder, fold_norms=True).notes)


def test_multihead_attention_fused_and_apart():
    torch.manual_seed(0)
    for options in ({}, {"kdim": 6, "vdim": 5}):
        module = torch.nn.MultiheadAttention(8, 2, bias=False, **options)
        found = observe.look(module)
        if options:
            maps = module.q_proj_weight, module.k_proj_weight, module.v_proj_weight
        else:
            maps = module.in_proj_weight.chunk(3)
        query, key, value = (part.detach().view(2, 4, -1) for part in maps)
        output = module.out_proj.weight.detach().view(8, 2, 4)
        for head in range(2):
            qk = torch.linalg.svdvals(query[head].T @ key[head])[:4]
            ov = torch.linalg.svdvals(output[:, head] @ value[head])[:4]
            np.testing.assert_allclose(found.qk_spectrum[0, head], qk, atol=1e-6)
            np.testing.assert_allclose(found.ov_spectrum[0, head], ov, atol=1e-6)


class Linear(torch.nn.Module):
    """nanoGPT's attention: GPT-2's names with `nn.Linear`."""

    def __init__(self):
        super().__init__()
        self.n_head = 2
        self.c_attn, self.c_proj = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)


def test_gpt2s_names_with_linear_maps():
    torch.manual_seed(0)
    block = torch.nn.ModuleDict({"attn": Linear(), "ln_1": torch.nn.LayerNorm(8)})
    model = torch.nn.ModuleDict({"h": torch.nn.ModuleList([block])})
    found = observe.look(model)
    query, key, _ = model["h"][0]["attn"].c_attn.weight.detach().chunk(3)
    biases = model["h"][0]["attn"].c_attn.bias.detach().chunk(3)
    wide = [torch.cat([w, b[:, None]], 1) for w, b in zip((query, key), biases[:2], strict=True)]
    dense = torch.linalg.svdvals(wide[0][:4].T @ wide[1][:4])[:4]
    np.testing.assert_allclose(found.qk_spectrum[0, 0], dense, atol=1e-6)
    state = model.state_dict()
    assert observe.look(state, heads=2).equals(found)
    with pytest.raises(InvalidInput, match="heads = None: must be given"):
        read_first(state)
    with pytest.raises(InvalidInput, match="must divide the 8 rows"):
        read_first(state, heads=3)
    state["h.0.attn.c_attn.weight"] = torch.ones(8, 10)
    with pytest.raises(InvalidInput, match=r"must be \(d_model, 3 d_model\)"):
        read_first(state, heads=2)


def read_first(state, heads=None):
    weights = weights_of(state, heads)
    adapter, layers = adapters.find(weights)
    return adapter.read(weights, layers[0])


class Block(torch.nn.Module):
    """The weights of a block of TransformerLens' HookedTransformer, by their names and shapes."""

    def __init__(self, heads, d_model, d_head, groups):
        super().__init__()
        self.attn = torch.nn.Module()
        self.ln1 = torch.nn.Module()
        own = "" if groups == heads else "_"
        shapes = {
            "W_Q": (heads, d_model, d_head),
            f"{own}W_K": (groups, d_model, d_head),
            f"{own}W_V": (groups, d_model, d_head),
            "W_O": (heads, d_head, d_model),
            "b_Q": (heads, d_head),
            f"{own}b_K": (groups, d_head),
            f"{own}b_V": (groups, d_head),
            "b_O": (d_model,),
        }
        for name, shape in shapes.items():
            self.attn.register_parameter(name, torch.nn.Parameter(torch.randn(shape)))
        for name in ("w", "b"):
            self.ln1.register_parameter(name, torch.nn.Parameter(torch.randn(d_model)))


@pytest.mark.parametrize("groups", [4, 2])
def test_transformer_lens_by_its_parameters_names(groups):
    torch.manual_seed(0)
    model = torch.nn.Module()
    model.blocks = torch.nn.ModuleList([Block(4, 12, 3, groups), Block(4, 12, 3, groups)])
    model.cfg = {"n_heads": 4, "positional_embedding_type": "rotary"}
    weights = weights_of(model)
    adapter, layers = adapters.find(weights)
    assert (adapter.name, layers) == ("transformer_lens", ["blocks.0", "blocks.1"])
    layer = adapter.read(weights, "blocks.1")
    assert layer.rotary
    circuits = layer.circuits(fold_norms=True)
    named = dict(model.blocks[1].attn.named_parameters())
    key, value = (next(named[n] for n in (f"_{w}", w) if n in named) for w in ("W_K", "W_V"))
    x, y = torch.randn(2, 12)
    gain, offset = model.blocks[1].ln1.w, model.blocks[1].ln1.b
    for head in range(4):
        shared = head // (4 // groups)
        # Row vectors: x @ W_Q.
        query = (x * gain + offset) @ named["W_Q"][head] + named["b_Q"][head]
        bias = next(named[n] for n in ("_b_K", "b_K") if n in named)[shared]
        expected = query @ ((y * gain + offset) @ key[shared] + bias)
        one = torch.ones(1)
        score = torch.cat([x, one]) @ circuits.qk.product()[head] @ torch.cat([y, one])
        torch.testing.assert_close(score, expected.detach(), rtol=1e-4, atol=1e-4)
        moved = (y * gain) @ value[shared] @ named["W_O"][head]
        torch.testing.assert_close(circuits.ov[head] @ y, moved.detach(), rtol=1e-4, atol=1e-4)


def test_a_hooked_transformer_of_transformer_lens():
    lens = pytest.importorskip("transformer_lens", reason="TransformerLens is not installed")
    config = lens.HookedTransformerConfig(
        n_layers=2, d_model=16, n_ctx=16, d_head=4, n_heads=4, d_vocab=VOCABULARY, act_fn="relu"
    )
    model = lens.HookedTransformer(config)
    found = observe.look(model)
    for layer in range(2):
        for head in range(4):
            dense = torch.linalg.svdvals(model.OV[layer, head].AB.detach())[:4]
            np.testing.assert_allclose(found.ov_spectrum[layer, head], dense, atol=1e-5)


def test_our_own_decoders():
    import jax

    from saddlescope.measure import circuits
    from saddlescope.transformer import Decoder, DecoderShape

    shape = DecoderShape(vocabulary=7, context=8, layers=2, heads=2, d_model=8, layer_norm=True)
    decoder = Decoder.start(shape, jax.random.key(0))
    found = observe.look(decoder)
    assert found.attrs["adapter"] == "decoder"
    weights = [np.asarray(decoder.weights[name]) for name in ("W_Q", "W_K", "W_V", "W_O")]
    expected = circuits(*weights)
    np.testing.assert_allclose(found.qk_spectrum, expected.qk.singular_values(), atol=1e-5)
    np.testing.assert_allclose(found.ov_norm, expected.ov.norm(), rtol=1e-5)


def test_ones_own_family_in_five_lines():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.o = (torch.nn.Linear(8, 8, bias=False) for _ in "qkvo")

    torch.manual_seed(0)
    model = torch.nn.ModuleDict({"body": torch.nn.ModuleList([Layer(), Layer()])})
    with pytest.raises(InvalidInput, match="name yours in an adapter"):
        observe.look(model)
    mine = observe.Projections("mine", "q", "k", "v", "o", heads=2)
    found = observe.look(model, adapter=mine)
    assert found.layer_name.values.tolist() == ["body.0", "body.1"]
    query, key = (getattr(model["body"][1], n).weight.detach()[4:] for n in "qk")
    dense = torch.linalg.svdvals(query.T @ key)[:4]
    np.testing.assert_allclose(found.qk_spectrum[1, 1], dense, atol=1e-6)
    adapters.register(mine)
    try:
        assert observe.look(model).equals(found)
        assert observe.look(model, adapter="mine").equals(found)
    finally:
        adapters.unregister("mine")
    with pytest.raises(InvalidInput, match="adapter = 'mine': must be an adapter or one of gpt2"):
        observe.look(model, adapter="mine")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (3, "model = 'int': must be a torch.nn.Module"),
        ({"a": 1}, "model = 'dict': must be a torch.nn.Module"),
        (torch.nn.Linear(2, 2), "must have attention layers of a known family"),
    ],
)
def test_what_is_no_model(model, message):
    with pytest.raises(InvalidInput, match=message):
        observe.look(model)


def test_quantised_weights_are_not_measured():
    state = {name: tensor.detach() for name, tensor in made("gpt2").state_dict().items()}
    state["transformer.h.0.attn.c_attn.weight"] = torch.ones(16, 48, dtype=torch.int8)
    found = observe.look(state, heads=4)
    assert np.isnan(found.qk_norm[0]).all()
    assert np.isfinite(found.qk_norm[1]).all()
    assert "quantised weights are not read" in found.attrs["problems"][0]
