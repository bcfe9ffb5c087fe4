"""Record the gallery: a thumbnail and the verdicts of every figure in a reproduction.

    saddlescope reproduce
    python docs/gallery/record.py out/reproduction [MORE FOLDERS ...]

reads what `reproduce` has saved, computes nothing, and writes one picture per figure and
`recorded.json` into this folder. A figure comes from the first folder that holds it; figures that
none of them holds stay as they are.
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
# In pixels: twice the width at which a thumbnail is shown, for high-resolution screens.
_SIZE = (640, 640)
# A figure with many panels is compressed further, until it is no larger than this.
_MOST_BYTES = 30_000


def thumbnail_of(name: str) -> Path:
    """The path of a figure's thumbnail."""
    return GALLERY / f"{name}.webp"


def record(folders: Iterable[Path]) -> list[str]:
    """Record the figures in the folders, and return their names."""
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
    """Each figure in its standard setting, once, from the first folder that holds it."""
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
    parser.add_argument(
        "folder", nargs="+", type=Path, help="a folder that `saddlescope reproduce` wrote"
    )
    recorded = record(parser.parse_args().folder)
    print(f"recorded {len(recorded)} of {len(FIGURES)} figures: {', '.join(recorded)}")
