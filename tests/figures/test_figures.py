"""Every figure in its reduced version: computed, kept, judged and drawn."""

import json
import re
import shlex
import warnings
from contextlib import nullcontext
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import jax
import pytest
import xarray as xr

from saddlescope.charts import read_sheet, write_sheet
from saddlescope.drawing import draw_sheet
from saddlescope.errors import InvalidInput
from saddlescope.figures import EXPERIMENTS, FIGURES, AbstractFigure, Watch
from saddlescope.figures.kit.reproduction import command_of
from saddlescope.figures.mainali.induction import Induction
from saddlescope.figures.zhang.fig3 import Figure3
from saddlescope.report import page_panels
from saddlescope.running.parts import Parts
from saddlescope.setting.fields import as_text
from saddlescope.setting.kinds import is_part
from saddlescope.setting.nested import flat_plain, replace_texts
from saddlescope.setting.plain import describe, read
from saddlescope.transformer import InductionExperiment

IDS = [kind.id for kind in FIGURES]
# Those whose programs run for longer than it takes to optimise them.
LONG = {
    *("fig9", "fig10", "softmax", "mt1", "mt2", "mt3", "mt4", "mt5", "grokking-measures"),
    *("merged-any-covariance", "any-covariances", "edge-of-stability", "task-pool", "depth"),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where experiments are kept that more than one figure shows."""
    return tmp_path_factory.mktemp("shared")


@pytest.mark.parametrize("kind", FIGURES, ids=IDS)
def test_every_verdict_is_the_expected_one(
    kind: type[AbstractFigure], tmp_path: Path, shared: Path, optimised: Any
) -> None:
    figure = kind.quick()
    shares: list[float] = []
    optimising = optimised() if kind.id in LONG else nullcontext()
    # optax mixes weak and strong types.
    with jax.numpy_dtype_promotion("standard"), optimising:
        computed = figure.compute(Watch(Parts(shares.append), tmp_path / "unfinished", shared))
    assert all(0 <= share <= 1 for share in shares)
    computed.to_netcdf(tmp_path / "data.nc", engine="scipy")
    data = xr.load_dataset(tmp_path / "data.nc", engine="scipy")
    claims = figure.claims(data)
    assert len(claims) >= 3
    assert len({claim.name for claim in claims}) == len(claims)
    wrong = [(claim.name, claim.summary) for claim in claims if not claim.as_expected]
    assert not wrong
    assert all(bool(claim.reason) == (claim.expected == "fails") for claim in claims)
    json.dumps([claim.to_dict() for claim in claims], allow_nan=False)
    _every_mistake_is_noticed(figure, data)
    sheet = figure.draw(data)
    assert sheet.panels
    for panel in sheet.panels:
        assert panel.layers
        said = (panel.name, panel.x.label, panel.y.label)
        assert any(said), "a panel says nothing of what it shows"
    kept = write_sheet(sheet)
    again = read_sheet(*kept)
    assert write_sheet(read_sheet(*write_sheet(again))) == write_sheet(again)
    draw_sheet(again).savefig(tmp_path / "figure.svg")
    assert len(page_panels(again)) == len(sheet.panels)


def _every_mistake_is_noticed(figure: AbstractFigure, data: xr.Dataset) -> None:
    """Judged on the data that were computed already: computing them takes most of the time."""
    mistakes = figure.mistakes()
    assert len(mistakes) >= 3
    assert len({mistake.name for mistake in mistakes}) == len(mistakes)
    with warnings.catch_warnings():
        # Wrong numbers may have no logarithm.
        warnings.simplefilter("ignore", RuntimeWarning)
        missed = [one.name for one in mistakes if not one.caught_by(figure.claims, data)]
    assert not missed


@pytest.mark.parametrize("kind", FIGURES, ids=IDS)
def test_every_figure_says_what_it_is(kind: type[AbstractFigure]) -> None:
    assert kind.title
    assert kind.source
    assert len(kind.text) > 80
    assert kind.seconds > 0
    # What claims to be a paper's figure says where it is not.
    published = re.match(r"(Zhang et al\.|Mainali and Teixeira), Figure", kind.source)
    assert bool(published) == bool(kind.departures)
    assert kind.quick() != kind()


@pytest.mark.parametrize("kind", [*FIGURES, *EXPERIMENTS], ids=lambda kind: kind.id)
def test_what_is_written_down_of_a_figure_is_the_figure(kind: type[AbstractFigure]) -> None:
    for figure in (kind(), *kind.presets().values()):
        written = json.loads(json.dumps(describe(figure)))
        assert written == describe(figure)
        assert read("figure", written) == figure


@pytest.mark.parametrize("kind", [*FIGURES, *EXPERIMENTS], ids=lambda kind: kind.id)
def test_commands_lead_back_to_their_figure(kind: type[AbstractFigure]) -> None:
    for words, preset in kind.presets().items():
        start = ["saddlescope", kind.verb, kind.id]
        assert shlex.split(command_of(preset)) == [*start, *words]
    default, quick = flat_plain(kind()), flat_plain(kind.quick())
    others = {name: as_text(quick[name]) for name in quick if quick[name] != default[name]}
    others |= {n: as_text(not value) for n, value in default.items() if isinstance(value, bool)}
    for name, text in others.items():
        changed = replace_texts(kind(), {name: text})
        assert _figure_of(kind, command_of(changed)) == changed != kind()


def _figure_of(kind: type[AbstractFigure], command: str) -> AbstractFigure:
    """What the command line makes of a command."""
    presets, words = kind.presets(), shlex.split(command)[3:]
    first = max((one for one in presets if one == tuple(words[: len(one)])), key=len)
    flags, texts = words[len(first) :: 2], words[len(first) + 1 :: 2]
    names = [flag.removeprefix("--").replace("-", "_") for flag in flags]
    return replace_texts(presets[first], dict(zip(names, texts, strict=True)))


@pytest.mark.parametrize("kind", FIGURES, ids=IDS)
def test_no_two_fields_of_a_figure_have_one_name(kind: type[AbstractFigure]) -> None:
    names = _names(kind())
    assert sorted(names) == sorted(set(names))
    # A covariance is another way to write a spectrum, and no field that is kept; Gaussian inputs
    # go without saying.
    shown = {*flat_plain(kind()), *kind.varied} - {"covariance"}
    assert shown - {"inputs"} == set(names) - {"inputs"}


def _names(value: object) -> list[str]:
    """The names of the fields of a value and of the parts that it holds."""
    assert is_dataclass(value)
    held = [(field.name, getattr(value, field.name)) for field in fields(value)]
    return [one for name, part in held for one in (_names(part) if is_part(part) else [name])]


def test_ids_are_unique() -> None:
    assert len(set(IDS)) == len(IDS)
    assert set(IDS) >= LONG


def test_settings_are_given_as_text() -> None:
    figure = Figure3()
    changed = replace_texts(figure, {"spectrum": ".5,.2", "seeds": "3", "until": "100"})
    wanted = {**flat_plain(figure), "spectrum": [0.5, 0.2], "seeds": 3, "until": 100.0}
    assert flat_plain(changed) == wanted
    assert changed.setting.seeds == (0, 1, 2)
    assert replace_texts(figure, {"seeds": "3,7"}).setting.seeds == (3, 7)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("seeds", "many", "seeds = 'many': must be a whole number"),
        ("spectrum", ".5,x", "spectrum = '.5,x': must be like .4,.3,.2,.1"),
        ("points", "few", "points = 'few': must be a whole number"),
        ("colour", "red", "colour = 'red': is no field here; there are heads, rank"),
    ],
)
def test_texts_that_make_no_sense(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)) as refused:
        replace_texts(Figure3(), {name: text})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 1}, "format = 1: this version reads format 2"),
        ({"bend": 2.0}, "figure.bend = 2.0: unknown field; allowed: setting"),
        ({"kind": "fig99"}, "figure.kind = 'fig99': must be "),
        ({"setting": {"kind": "setting"}}, "figure.setting.model = None: is missing"),
    ],
)
def test_what_another_version_wrote_down_is_no_figure(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)) as refused:
        read("figure", {**describe(Figure3()), **change})
    assert "\n" not in str(refused.value)


def test_an_experiment_keeps_its_seeds_and_records() -> None:
    figure = Induction(InductionExperiment(seeds=(3, 7), record=(0, 5, 10), steps=10))
    again = read("figure", json.loads(json.dumps(describe(figure))))
    assert isinstance(again, Induction)
    assert again == figure
    assert (again.experiment.seeds, again.experiment.record) == ((3, 7), (0, 5, 10))
