"""Figures are kept, taken again when current, and made again when anything changed."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from saddlescope.charts import Sheet, write_sheet
from saddlescope.errors import Interrupted, InvalidInput
from saddlescope.figures import AbstractFigure, Claim, Watch
from saddlescope.figures.kit import reproduction
from saddlescope.figures.kit.claim import at_most, within
from saddlescope.figures.kit.panels import sheet
from saddlescope.figures.kit.reproduction import command_of, others, reproduce
from saddlescope.report import write_reproduction_page
from saddlescope.running.files import Sealed

computed: list[str] = []


@dataclass(frozen=True)
class Parabola(AbstractFigure):
    """A figure that costs nothing."""

    points: int = 11
    bend: float = 1.0
    names: tuple[str, ...] = ("a", "b")

    id = "parabola"
    title = "A parabola"
    source = "nowhere"
    text = "It bends."
    seconds = 2.0

    @classmethod
    def quick(cls) -> "Parabola":
        return cls(points=5)

    def compute(self, watch: Watch) -> xr.Dataset:
        computed.append(self.id)
        if self.bend < 0:
            raise ArithmeticError("bends the\nwrong way")
        x = np.linspace(0, 1, self.points)
        list(watch.each("ab"))
        return xr.Dataset({"y": ("x", self.bend * x**2)}, coords={"x": x})

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        return (within("ends at one", data["y"][-1], 1.0, 1e-9), at_most("small", data["y"], 1.5))

    def draw(self, data: xr.Dataset) -> Sheet:
        drawing, axes = sheet()
        axes[0, 0].plot(data["x"], data["y"])
        return drawing.build()


@dataclass(frozen=True)
class Line(AbstractFigure):
    """Another one, with a film."""

    points: int = 3

    id = "line"
    title = "A line"
    source = "nowhere"
    text = "It does not bend."
    seconds = 1.0
    film = "line.gif"

    @classmethod
    def quick(cls) -> "Line":
        return cls(points=2)

    def compute(self, watch: Watch) -> xr.Dataset:
        computed.append(self.id)
        return xr.Dataset({"y": ("x", np.arange(self.points, dtype=float))})

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        return (at_most("small", data["y"], 0.5).expected_to_fail("lines grow"),)

    def draw(self, data: xr.Dataset) -> Sheet:
        drawing, axes = sheet()
        axes[0, 0].plot(range(self.points), data["y"])
        return drawing.build()

    def make_film(self, data: xr.Dataset, path: Path, watch: Watch) -> None:
        computed.append("film")
        path.write_bytes(b"GIF")


@pytest.fixture(autouse=True)
def _forget() -> None:
    computed.clear()


def test_everything_is_written(tmp_path: Path) -> None:
    reports: list[tuple[str, float]] = []
    first, second = reproduce(
        [Parabola(), Line()], tmp_path, show=lambda share, name: reports.append((name, share))
    )
    assert first.as_expected
    assert second.as_expected
    for result in (first, second):
        for path in result.files.values():
            assert (tmp_path / path).stat().st_size > 0
    assert set(second.files) == {"png", "svg", "pdf", "data", "film"}
    assert not list(tmp_path.rglob("*unfinished*"))
    assert not list(tmp_path.rglob("*.part"))
    shares = [share for _, share in reports]
    assert shares == sorted(shares)
    assert ("parabola", pytest.approx(1 / 3)) in reports
    values = first.to_dict()
    assert {"id", "seconds", "claims"} <= set(values)
    json.dumps(values, allow_nan=False)


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    before = reproduce([Parabola(), Line()], tmp_path)
    computed.clear()
    after = reproduce([Parabola(), Line()], tmp_path)
    assert computed == []
    assert [a.to_dict() for a in after] == [b.to_dict() for b in before]
    assert after[0].sheet is not None
    assert write_sheet(after[0].sheet) == write_sheet(before[0].sheet)


def test_another_setting_is_made_anew(tmp_path: Path) -> None:
    reproduce([Parabola()], tmp_path)
    (result,) = reproduce([Parabola(bend=1.2)], tmp_path)
    assert computed == ["parabola"] * 2
    assert not result.as_expected


def test_another_setting_leaves_the_standard_figure_where_it_is(tmp_path: Path) -> None:
    reproduce([Parabola()], tmp_path)
    (other,) = reproduce([Parabola(bend=1.2)], tmp_path)
    assert re.fullmatch(r"parabola-[0-9a-f]{8}", other.name)
    assert all(file.startswith(other.name + "/") for file in other.files.values())
    computed.clear()
    (standard,) = reproduce([Parabola()], tmp_path)
    assert (standard.name, computed) == ("parabola", [])
    # A page shows both.
    assert [one.figure for one in others([Parabola], [standard], tmp_path)] == [Parabola(bend=1.2)]


def test_what_is_kept_is_read_and_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = reproduce([Parabola()], tmp_path)

    def refuse(*arguments: object) -> None:
        raise AssertionError("drawn or judged again")

    for name in ("draw", "claims"):
        monkeypatch.setattr(Parabola, name, refuse)
    monkeypatch.setattr(reproduction, "draw_sheet", refuse)
    (after,) = reproduce([Parabola()], tmp_path)
    assert after.to_dict() == before.to_dict()
    assert [str(claim) for claim in after.claims] == [str(claim) for claim in before.claims]
    page = write_reproduction_page([after], tmp_path / "index.html")
    assert "<svg" in page.read_text(encoding="utf-8")


def test_other_code_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reproduce([Parabola()], tmp_path)
    monkeypatch.setattr(reproduction, "code_version", lambda kind: "another")
    reproduce([Parabola()], tmp_path)
    assert computed == ["parabola"] * 2


@pytest.mark.parametrize(
    "name", ["data.nc", "claims.json", "charts.npz", "figure.png", "manifest.json"]
)
@pytest.mark.parametrize("damage", ["lost", "torn"])
def test_damage_is_mended(tmp_path: Path, name: str, damage: str) -> None:
    (before,) = reproduce([Parabola()], tmp_path)
    path = tmp_path / "parabola" / name
    if damage == "lost":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-7])
    (after,) = reproduce([Parabola()], tmp_path)
    assert [c.to_dict() for c in after.claims] == [c.to_dict() for c in before.claims]
    assert len(computed) == 2


def test_a_film_is_made_once_and_can_be_left_out(tmp_path: Path) -> None:
    (without,) = reproduce([Line()], tmp_path, films=False)
    assert "film" not in without.files
    (with_film,) = reproduce([Line()], tmp_path)
    assert with_film.files["film"] == "line/line.gif"
    reproduce([Line()], tmp_path)
    assert computed == ["line", "film"]


def test_one_broken_figure_does_not_cost_the_others(tmp_path: Path) -> None:
    broken, whole = reproduce([Parabola(bend=-1.0), Line()], tmp_path)
    assert broken.problem == "ArithmeticError: bends the wrong way"
    assert not broken.as_expected
    assert whole.as_expected


def test_bad_input_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Parabola, watch: Watch) -> xr.Dataset:
        raise InvalidInput("points", self.points, "must be odd")

    monkeypatch.setattr(Parabola, "compute", refuse)
    with pytest.raises(InvalidInput, match="must be odd"):
        reproduce([Parabola()], tmp_path)


def test_the_folder_s_other_figures_are_shown_too(tmp_path: Path) -> None:
    reproduce([Line(points=4)], tmp_path)
    made = reproduce([Parabola()], tmp_path)
    (other,) = others([Parabola, Line], made, tmp_path)
    assert other.figure == Line(points=4)
    assert other.sheet is not None


@pytest.mark.parametrize("change", [{"format": 1}, {"slope": 2.0}, {"points": "none"}])
def test_what_another_version_made_is_not_shown(tmp_path: Path, change: dict[str, object]) -> None:
    reproduce([Line(points=4)], tmp_path)
    sealed = Sealed.read(tmp_path / "line", "figure")
    setting = {**sealed.about["setting"], **change}
    replace(sealed, about={**sealed.about, "setting": setting}).write()
    assert others([Parabola, Line], (), tmp_path) == []


def test_what_is_unfinished_of_another_setting_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []

    def interrupted(self: Parabola, watch: Watch) -> xr.Dataset:
        folder = watch.folder
        assert folder is not None
        folder.mkdir(parents=True, exist_ok=True)
        folders.append(folder)
        raise Interrupted(None)

    with monkeypatch.context() as patch:
        patch.setattr(Parabola, "compute", interrupted)
        for figure in (Parabola(), Parabola(bend=1.2), Parabola()):
            with pytest.raises(Interrupted):
                reproduce([figure], tmp_path)
    assert folders[0] == folders[2] != folders[1]
    reproduce([Parabola()], tmp_path)
    assert not (tmp_path / "parabola" / "unfinished").exists()


@pytest.mark.parametrize(
    ("figure", "command"),
    [
        (Parabola(), "saddlescope reproduce parabola"),
        (Parabola.quick(), "saddlescope reproduce parabola --quick"),
        (replace(Parabola(), bend=2.0), "saddlescope reproduce parabola --bend 2.0"),
        (Parabola(names=("c",)), "saddlescope reproduce parabola --names c,"),
    ],
)
def test_the_command_that_makes_a_figure(figure: Parabola, command: str) -> None:
    assert command_of(figure) == command
