"""Damaged files of every kind: refused in one line, or exactly what was written; never else."""

from __future__ import annotations

import abc
import json
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr

import saddlescope as ss
from saddlescope.dynamics._job import Job
from saddlescope.errors import CannotRead, Interrupted, InvalidInput
from saddlescope.figures.kit.reproduction import is_current, others, reproduce
from saddlescope.figures.mainali.grokking_recorded import GrokkingRecorded
from saddlescope.running.files import files_in
from saddlescope.running.interruption import StopRequest
from saddlescope.running.observers import AbstractJob, AbstractObserver, Saved, Snapshot
from saddlescope.transformer import (
    Decoder,
    DecoderShape,
    GrokkingExperiment,
    RepeatedTokens,
    fit,
    load_decoder,
    load_metrics,
    save_decoder,
    save_metrics,
)
from saddlescope.transformer._course import kept_names
from saddlescope.transformer._stepping import begin
from saddlescope.transformer._training import _Progress, _Training

LETTERS = '0123456789abcdefghijklmnopqrstuvwxyzABCDEF{}[]":,.- \n'


class AbstractKept(abc.ABC):
    """Something of one kind in a folder, and how it is read back."""

    folder: Path

    @abc.abstractmethod
    def read(self) -> object:
        """What is read, as values that can be compared; `CannotRead` where it is refused."""


def plain(dataset: xr.Dataset) -> dict[str, object]:
    arrays = {str(name): array for name, array in dataset.variables.items()}
    found = {name: (a.dims, a.dtype.str, a.to_numpy().tobytes()) for name, a in arrays.items()}
    return {"variables": found, "attributes": dict(dataset.attrs)}


@dataclass
class Run(AbstractKept):
    folder: Path

    def read(self) -> object:
        run = ss.load(self.folder)
        state = [(leaf.dtype.str, leaf.shape, leaf.tobytes()) for leaf in run.state]
        return plain(run.dataset), run.setting.to_dict(), run.outcomes, run.time_start, state


@dataclass
class Unfinished(AbstractKept):
    folder: Path
    job: AbstractJob

    def read(self) -> object:
        checkpoint = ss.Checkpoint(self.folder)
        try:
            saved = checkpoint.begin(self.job)
        finally:
            checkpoint.end(None)
        assert saved is not None or not (self.folder / "manifest.json").exists(), "begun anew"
        if saved is None:
            raise CannotRead(f"{str(self.folder)!r}: nothing is there, it begins anew")
        return arrays_of(saved)


def arrays_of(saved: Saved) -> object:
    state = [(leaf.dtype.str, leaf.shape, leaf.tobytes()) for leaf in saved.state]
    records = [
        {name: (array.dtype.str, array.tobytes()) for name, array in record.items()}
        for record in saved.records
    ]
    return state, records


@dataclass
class Metrics(AbstractKept):
    folder: Path

    def read(self) -> object:
        return plain(load_metrics(self.folder))


@dataclass
class SavedDecoder(AbstractKept):
    folder: Path

    def read(self) -> object:
        decoder = load_decoder(self.folder / "decoder.safetensors")
        weights = {name: np.asarray(array).tobytes() for name, array in decoder.weights.items()}
        return decoder.shape, weights


@dataclass
class Figure(AbstractKept):
    folder: Path

    def read(self) -> object:
        figure = GrokkingRecorded.quick()
        current = is_current(figure, self.folder.parent)
        # What the folder holds besides is shown, or is not there; it never stops anything.
        shown = others([GrokkingRecorded], [], self.folder.parent) if not current else []
        assert shown == []
        if not current:
            raise CannotRead(f"{str(self.folder)!r}: is made again")
        return {name: (self.folder / name).read_bytes() for name in VOUCHED}


VOUCHED = (
    "data.nc",
    "claims.json",
    "charts.json",
    "charts.npz",
    "figure.pdf",
    "figure.png",
    "figure.svg",
)
SHAPE = DecoderShape(8, 16, layers=1, heads=2, d_model=8)
SOURCE = RepeatedTokens(8, context=16, shortest=2, longest=8)


def train_setting() -> ss.Setting:
    return ss.Setting(
        task=ss.InContextRegression([0.6, 0.3], context_length=31),
        model=ss.SeparateAttention(heads=3),
        method=ss.GradientDescent(0.2, 3000),
        init=ss.RandomStart(0.1),
        record=ss.Record(points=20),
        seeds=(0, 1),
    )


def stop_at_once(snapshot: Snapshot) -> None:
    snapshot.stop()


class Take(AbstractObserver):
    """Takes the job away before anything of it is compiled."""

    job: _Training

    def begin(self, job: AbstractJob) -> None:
        assert isinstance(job, _Training)
        self.job = job
        raise CannotRead("taken")

    def observe(self, snapshot: Snapshot) -> None:
        pass


def write_decoder_checkpoint(folder: Path) -> AbstractJob:
    """That of a training with two records, whose numbers are any."""
    take, random = Take(), np.random.default_rng(0)
    with pytest.raises(CannotRead, match="taken"):
        fit(SHAPE, SOURCE, steps=20, record=6, batch_size=4, seeds=2, observers=[take])
    state = begin(take.job.problem, take.job.seeds)
    weights = {name: np.asarray(state.weights[name]) for name in kept_names(SHAPE)}
    answers = {"loss": random.standard_normal(2), "norm": random.standard_normal((2, 9))}
    progress = _Progress(state, (weights, weights), (answers, answers))
    checkpoint = ss.Checkpoint(folder)
    checkpoint.begin(take.job)
    checkpoint.end(Snapshot(take.job, progress, 1.0, StopRequest()))
    return take.job


def make(kind: str, home: Path) -> AbstractKept:
    folder = home / kind.replace(" ", "-")
    if kind == "run":
        ss.train(train_setting()).save(folder)
        return Run(folder)
    if kind == "checkpoint":
        with pytest.raises(Interrupted):
            ss.train(train_setting(), observers=[ss.Checkpoint(folder), stop_at_once])
        return Unfinished(folder, Job(train_setting()))
    if kind == "decoder checkpoint":
        return Unfinished(folder, write_decoder_checkpoint(folder))
    if kind == "metrics":
        loss = (("seed", "step"), np.linspace(0, 1, 24).reshape(2, 12))
        experiment = GrokkingExperiment.quick()
        metrics = xr.Dataset({"loss": loss}, attrs={"setting": experiment.setting()})
        save_metrics(metrics, folder)
        return Metrics(folder)
    if kind == "decoder":
        folder.mkdir()
        save_decoder(folder / "decoder.safetensors", Decoder.start(SHAPE, jax.random.key(0)))
        return SavedDecoder(folder)
    assert kind == "figure"
    reproduce([GrokkingRecorded.quick()], folder, films=False)
    return Figure(folder / GrokkingRecorded.id)


KINDS = ("run", "checkpoint", "decoder checkpoint", "metrics", "decoder", "figure")


@pytest.fixture(scope="module", params=KINDS)
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AbstractKept:
    return make(request.param, tmp_path_factory.mktemp("damage"))


def assert_refused_or_as_written(kept: AbstractKept, written: object, damage: str) -> bool:
    """Read it; whether it was refused."""
    try:
        read, refusal = kept.read(), None
    except CannotRead as problem:
        read, refusal = written, str(problem)
    assert read == written, f"read without a word, and other than it was written: {damage}"
    assert refusal is None or "\n" not in refusal, damage
    assert refusal is None or str(kept.folder) in refusal, damage
    return refusal is not None


def test_random_damage_is_noticed(kept: AbstractKept, soak) -> None:
    """Flipped bits, files cut short and files that are gone."""
    written, random = kept.read(), soak.random
    names = [name for name in files_in(kept.folder) if not name.startswith(".")]
    count, refused = soak.count(30, 334), 0
    for _ in range(count):
        name = names[random.integers(len(names))]
        path = kept.folder / name
        content = path.read_bytes()
        place, way = int(random.integers(len(content))), int(random.integers(4))
        if way == 0:
            path.unlink()
        elif way == 1:
            path.write_bytes(content[:place])
        else:
            changed = bytearray(content)
            changed[place] ^= int(random.integers(1, 256))
            path.write_bytes(bytes(changed))
        refused += assert_refused_or_as_written(kept, written, f"{name}, {place}, way {way}")
        path.write_bytes(content)
    assert kept.read() == written
    # Only what changes no value, such as a blank in a manifest, goes unnoticed.
    assert refused > 0.9 * count
    print(f"{count} damaged, {refused} refused")


def test_a_changed_letter_of_the_metadata_is_noticed(kept: AbstractKept, soak) -> None:
    names = [name for name in files_in(kept.folder) if name.endswith(".json")]
    written, random, count, refused = kept.read(), soak.random, 0, 0
    for name in names:
        path = kept.folder / name
        text = path.read_text(encoding="utf-8")
        places = np.arange(len(text)) if soak.full and name == "manifest.json" else None
        if places is None:
            places = random.integers(len(text), size=soak.count(15, 30) if len(names) < 9 else 2)
        for place in places:
            letter = LETTERS[random.integers(len(LETTERS))]
            if letter == text[place]:
                letter = "7" if letter != "7" else "8"
            path.write_text(text[:place] + letter + text[place + 1 :], encoding="utf-8")
            damage = f"{name}, {place}: {text[place]!r} is {letter!r}"
            refused += assert_refused_or_as_written(kept, written, damage)
            count += 1
        path.write_text(text, encoding="utf-8")
    assert kept.read() == written
    print(f"{count} letters changed, {refused} refused")


@pytest.mark.parametrize("kept", ["figure"], indirect=True)
def test_a_damaged_figure_is_made_again(kept: AbstractKept) -> None:
    figure, out = GrokkingRecorded.quick(), kept.folder.parent
    data = (kept.folder / "data.nc").read_bytes()
    for name in VOUCHED:
        (kept.folder / name).write_bytes(b"words")
    (again,) = reproduce([figure], out, films=False)
    assert again.as_expected
    assert (kept.folder / "data.nc").read_bytes() == data
    assert is_current(figure, out)


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, ss.Trajectory]:
    run = ss.train(train_setting())
    return run.save(tmp_path / "run"), run


def test_zarr_of_another_version_is_not_read(saved: tuple[Path, ss.Trajectory]) -> None:
    """The filters of its object arrays can reach pickle."""
    path, run = saved
    array = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "order": "C"}
    array |= {"compressor": None, "fill_value": None, "filters": [{"id": "pickle"}]}
    for folder in (path, path / "dataset", path / "dataset" / "loss", path / "state" / "0"):
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
        (folder / ".zarray").write_text(json.dumps(array))
        (folder / "0").mkdir(exist_ok=True)
        (folder / ".zmetadata").write_text("{}")
    assert ss.load(path).equals(run)
    for version_three in path.rglob("zarr.json"):
        version_three.unlink()
    with pytest.raises(CannotRead, match=r"zarr\.json cannot be read"):
        ss.load(path)


def test_saving_over_a_run_spares_what_is_not_ours(saved: tuple[Path, ss.Trajectory]) -> None:
    path, run = saved
    (path / "dataset" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"no part of the run: dataset/notes\.txt"):
        run.save(path, overwrite=True)
    assert ss.load(path).equals(run)
    (path / "dataset" / "notes.txt").unlink()
    run.save(path, overwrite=True)
    home = path.parent / "home"
    home.mkdir()
    (home / "thesis.tex").write_text("years of work")
    with pytest.raises(InvalidInput, match="is no saved run"):
        run.save(home, overwrite=True)
    assert [file.name for file in home.iterdir()] == ["thesis.tex"]


def test_the_checkpoint_of_another_shape_is_refused(tmp_path: Path) -> None:
    """One whose name is right and whose arrays are not."""
    kept = make("checkpoint", tmp_path)
    assert isinstance(kept, Unfinished)

    class Other(Job):
        digest = kept.job.digest

    setting = train_setting()
    other = Other(replace(setting, model=ss.MergedAttention(2)))
    with pytest.raises(CannotRead, match="its state is not one of this setting's"):
        Unfinished(kept.folder, other).read()
