"""Decoders on disk: there and back, and what is refused."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors.numpy

from saddlescope.errors import CannotRead, CannotWrite, InvalidInput
from saddlescope.running.packed import pack
from saddlescope.transformer import Decoder, DecoderShape, load_decoder, save_decoder

SHAPE = DecoderShape(
    5, 4, layers=1, heads=2, d_model=4, positions="rotary", d_mlp=3, activation="gelu"
)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return Decoder.start(SHAPE, jax.random.key(0))


def write(path: Path, shape: str, arrays: dict[str, np.ndarray]) -> Path:
    """A file whose checksum is right, whatever it holds."""
    path.write_bytes(pack(arrays, "shape", shape))
    return path


def test_a_decoder_comes_back_as_it_was(decoder: Decoder, tmp_path: Path) -> None:
    save_decoder(tmp_path / "decoder.safetensors", decoder)
    loaded = load_decoder(tmp_path / "decoder.safetensors")
    assert loaded.shape == SHAPE
    assert list(loaded.weights) == list(SHAPE.weights)
    for name, array in decoder.weights.items():
        np.testing.assert_array_equal(loaded.weights[name], array)
        assert loaded.weights[name].dtype == array.dtype
    assert [file.name for file in tmp_path.iterdir()] == ["decoder.safetensors"]


def test_arrays_are_written_in_their_own_order(decoder: Decoder, tmp_path: Path) -> None:
    """safetensors writes the memory of a view, whatever its order."""
    turned = {name: np.asfortranarray(array) for name, array in decoder.weights.items()}
    save_decoder(tmp_path / "decoder.safetensors", Decoder.of(SHAPE, turned))
    loaded = load_decoder(tmp_path / "decoder.safetensors")
    for name, array in decoder.weights.items():
        np.testing.assert_array_equal(loaded.weights[name], array)


def test_others_read_it_too(decoder: Decoder, tmp_path: Path) -> None:
    save_decoder(tmp_path / "decoder.safetensors", decoder)
    arrays = safetensors.numpy.load_file(tmp_path / "decoder.safetensors")
    np.testing.assert_array_equal(arrays["W_E"], decoder.weights["W_E"])


def test_what_is_no_decoder_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    other.write_bytes(safetensors.numpy.save({"a": np.arange(3)}))
    with pytest.raises(CannotRead, match="holds no decoder"):
        load_decoder(other)
    other.write_bytes(b"words")
    with pytest.raises(CannotRead, match="is damaged, or no decoder"):
        load_decoder(other)
    with pytest.raises(CannotRead, match="No such file"):
        load_decoder(tmp_path / "none.safetensors")
    with pytest.raises(InvalidInput, match="path"):
        load_decoder("")


@pytest.mark.parametrize(
    "shape",
    [
        "[1]",
        "null",
        "{}",
        "words",
        json.dumps({**dataclasses.asdict(SHAPE), "heads": 3}),
        json.dumps({**dataclasses.asdict(SHAPE), "d_model": 8}),
        json.dumps({**dataclasses.asdict(SHAPE), "temperature": 1}),
    ],
)
def test_weights_of_another_shape_are_refused_in_one_line(
    shape: str, decoder: Decoder, tmp_path: Path
) -> None:
    arrays = {name: np.asarray(array) for name, array in decoder.weights.items()}
    path = write(tmp_path / "decoder.safetensors", shape, arrays)
    with pytest.raises(CannotRead, match="cannot be read here") as refusal:
        load_decoder(path)
    assert "\n" not in str(refusal.value)


def test_a_folder_that_is_not_there_is_one_line(decoder: Decoder, tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="No such file"):
        save_decoder(tmp_path / "none" / "decoder.safetensors", decoder)
