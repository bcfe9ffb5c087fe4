"""Every figure in its reduced version: computed, kept, judged and drawn."""

import json
import shlex
from pathlib import Path

import jax
import matplotlib
import pytest
import xarray as xr

from saddlescope.drawing import STYLE
from saddlescope.errors import InvalidInput
from saddlescope.figures import EXPERIMENTS, FIGURES, AbstractFigure, Watch
from saddlescope.figures.kit.reproduction import command_of

IDS = [kind.id for kind in FIGURES]


@pytest.mark.parametrize("kind", FIGURES, ids=IDS)
def test_every_verdict_is_the_expected_one(kind: type[AbstractFigure], tmp_path: Path) -> None:
    figure = kind.quick()
    shares: list[float] = []
    # optax mixes weak and strong types.
    with jax.numpy_dtype_promotion("standard"):
        computed = figure.compute(Watch(shares.append, tmp_path / "unfinished"))
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
    with matplotlib.rc_context(STYLE):
        drawing = figure.draw(data)
        drawing.savefig(tmp_path / "figure.svg")
    shown = [axes for axes in drawing.axes if axes.axison and axes.has_data()]
    assert shown
    for axes in shown:
        # Panels of a sheet may share the labels at its margins.
        kin = [*axes.get_shared_x_axes().get_siblings(axes)]
        kin += axes.get_shared_y_axes().get_siblings(axes)
        labels = [text for one in kin for text in (one.get_xlabel(), one.get_ylabel())]
        titles = [axes.get_title(place) for place in ("left", "center", "right")]
        assert any((*labels, *titles)), "a panel says nothing of what it shows"


@pytest.mark.parametrize("kind", FIGURES, ids=IDS)
def test_every_figure_says_what_it_is(kind: type[AbstractFigure]) -> None:
    assert kind.title
    assert kind.source
    assert len(kind.text) > 80
    assert kind.seconds > 0
    setting = kind().setting()
    assert json.loads(json.dumps(setting)) == setting
    assert kind.from_setting(setting) == kind()
    assert kind.from_setting(kind.quick().setting()) == kind.quick()
    assert kind.quick() != kind()


@pytest.mark.parametrize("kind", [*FIGURES, *EXPERIMENTS], ids=lambda kind: kind.id)
def test_commands_lead_back_to_their_figure(kind: type[AbstractFigure]) -> None:
    for words, preset in kind.presets().items():
        start = ["saddlescope", kind.verb, kind.id]
        assert shlex.split(command_of(preset)) == [*start, *words]
    default = kind().setting()
    for name in [name for name, value in default.items() if isinstance(value, bool)]:
        changed = kind.from_setting({**default, name: not default[name]})
        assert changed is not None
        (flag, text) = shlex.split(command_of(changed))[-2:]
        assert kind().with_texts({flag.removeprefix("--").replace("-", "_"): text}) == changed


def test_ids_are_unique() -> None:
    assert len(set(IDS)) == len(IDS)


def test_settings_are_given_as_text() -> None:
    figure = next(kind for kind in FIGURES if kind.id == "fig3")()
    changed = figure.with_texts({"spectrum": ".5,.2", "seeds": "3", "until": "100"})
    assert changed.setting() == {
        **figure.setting(),
        "spectrum": [0.5, 0.2],
        "seeds": 3,
        "until": 100.0,
    }


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("seeds", "many", "seeds = 'many': must be a whole number, like 6"),
        ("spectrum", ".5,x", "spectrum = 'x': must be a number"),
        ("colour", "red", "colour = 'red': fig3 has spectrum, context_length"),
    ],
)
def test_texts_that_make_no_sense(name: str, text: str, message: str) -> None:
    figure = next(kind for kind in FIGURES if kind.id == "fig3")()
    with pytest.raises(InvalidInput, match=message.replace("'", "'")):
        figure.with_texts({name: text})


def test_a_setting_of_another_version_is_no_figure() -> None:
    kind = FIGURES[0]
    assert kind.from_setting({"something": 1}) is None
