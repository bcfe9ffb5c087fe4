"""Record the gallery: a thumbnail and the verdicts of every figure that a reproduction holds.

    saddlescope reproduce
    python docs/gallery/record.py out/reproduction [MORE FOLDERS ...]

reads what `reproduce` has kept, computes nothing, and writes into this folder one picture a figure
and `recorded.json`. Of several folders the first that holds a figure is taken; what none of them
holds stays as it is.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from PIL import Image

from saddlescope.figures import FIGURES
from saddlescope.figures.kit.reproduction import Result, others

GALLERY = Path(__file__).parent
RECORDED = GALLERY / "recorded.json"
# Pixels: twice the width at which a thumbnail is shown, for finer screens.
_SIZE = (640, 640)
# A figure of many panels is compressed more, until it is no larger than this.
_MOST_BYTES = 30_000


def thumbnail_of(name: str) -> Path:
    """Where the thumbnail of a figure lies."""
    return GALLERY / f"{name}.webp"


def record(folders: Iterable[Path]) -> list[str]:
    """Record what the folders hold, and return the names of those figures."""
    entries = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
    taken = []
    for folder, result in _results(folders):
        _shrink(folder / result.files["png"], thumbnail_of(result.figure.id))
        entries[result.figure.id] = {
            "quick": result.quick,
            "command": result.command,
            "claims": [
                {
                    "statement": claim.statement,
                    "verdict": claim.verdict.value,
                    "expected": claim.expected.value,
                }
                for claim in result.claims
            ],
        }
        taken.append(result.figure.id)
    ordered = {kind.id: entries[kind.id] for kind in FIGURES if kind.id in entries}
    RECORDED.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return taken


def _results(folders: Iterable[Path]) -> Iterator[tuple[Path, Result]]:
    """What the folders hold of the standard settings, each figure once."""
    seen: set[str] = set()
    for folder in folders:
        for result in others(FIGURES, (), folder):
            if result.name == result.figure.id and result.name not in seen:
                seen.add(result.name)
                yield folder, result


def _shrink(picture: Path, thumbnail: Path) -> None:
    with Image.open(picture) as opened:
        small = opened.convert("RGB")
    small.thumbnail(_SIZE, Image.Resampling.LANCZOS)
    for quality in (80, 60, 40, 20):
        small.save(thumbnail, quality=quality, method=6)
        if thumbnail.stat().st_size <= _MOST_BYTES:
            return


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="+", type=Path, help="what `saddlescope reproduce` wrote")
    recorded = record(parser.parse_args().folder)
    print(f"recorded {len(recorded)} of {len(FIGURES)} figures: {', '.join(recorded)}")
