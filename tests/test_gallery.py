"""The documentation's gallery has every figure, and is made from what `reproduce` saves."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import xarray as xr
from docs.gallery import page, record
from PIL import Image

from saddlescope.charts import Sheet
from saddlescope.figures import FIGURES, AbstractFigure, Claim, Watch
from saddlescope.figures.kit.claim import at_most
from saddlescope.figures.kit.panels import sheet
from saddlescope.figures.kit.reproduction import command_of, reproduce

ENTRIES = json.loads(record.RECORDED.read_text("utf-8"))


@dataclass(frozen=True)
class Dots(AbstractFigure):
    """Two dots. The second is of no interest."""

    height: float = 1.0

    id = "dots"
    title = "Two dots"
    source = "nobody, Figure 0"
    text = "Two dots."
    seconds = 1.0

    @classmethod
    def quick(cls) -> "Dots":
        return cls(height=0.5)

    def compute(self, watch: Watch) -> xr.Dataset:
        return xr.Dataset({"height": ("dot", [0.0, self.height])})

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        return (
            at_most("dots lie low", data["height"], 0.7).stated_in("nobody 1"),
            at_most("dots lie very low", data["height"], 0.1).expected_to_fail("they do not"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        drawing, panels = sheet(width=5.7, height=2.8)
        panels[0, 0].plot([0, 1], data["height"], "o")
        return drawing.build()


def test_every_figure_is_there_and_nothing_else() -> None:
    names = [kind.id for kind in FIGURES]
    assert list(ENTRIES) == names
    assert sorted(path.stem for path in record.GALLERY.glob("*.webp")) == sorted(names)


@pytest.mark.parametrize("kind", FIGURES, ids=lambda kind: kind.id)
def test_a_card_is_small_and_its_command_makes_what_it_shows(kind: type[AbstractFigure]) -> None:
    entry, thumbnail = ENTRIES[kind.id], record.thumbnail_of(kind.id)
    assert entry["command"] == command_of(kind.quick() if entry["quick"] else kind())
    assert entry["claims"]
    assert all(claim["verdict"] == claim["expected"] for claim in entry["claims"])
    assert thumbnail.stat().st_size <= 30_000
    with Image.open(thumbnail) as picture:
        assert max(picture.size) == 640


def test_it_is_recorded_from_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gallery = tmp_path / "gallery"
    gallery.mkdir()
    monkeypatch.setattr(record, "GALLERY", gallery)
    monkeypatch.setattr(record, "RECORDED", gallery / "recorded.json")
    monkeypatch.setattr(record, "FIGURES", (Dots,))
    full, quick = tmp_path / "full", tmp_path / "quick"
    # A figure in another setting does not replace the standard one.
    reproduce([Dots.quick(), Dots(height=0.6)], quick)
    assert record.record([full, quick]) == ["dots"]
    entry = json.loads(record.RECORDED.read_text("utf-8"))["dots"]
    assert entry["quick"]
    assert entry["command"] == "saddlescope reproduce dots --quick"
    assert [claim["statement"] for claim in entry["claims"]] == [
        "nobody 1: dots lie low",
        "dots lie very low",
    ]
    assert page.verdict(entry) == "1 of 2 claims hold; one is known not to"
    with Image.open(gallery / "dots.webp") as picture:
        assert picture.size == (640, 320)

    # The full version comes before the quick one, and what no folder holds stays as it was.
    reproduce([Dots()], full)
    assert record.record([full, quick]) == ["dots"]
    entry = json.loads(record.RECORDED.read_text("utf-8"))["dots"]
    assert not entry["quick"]
    assert page.verdict(entry) == "1 of 2 verdicts are not the expected ones"
    assert record.record([tmp_path / "nothing"]) == []
    assert json.loads(record.RECORDED.read_text("utf-8"))["dots"] == entry
