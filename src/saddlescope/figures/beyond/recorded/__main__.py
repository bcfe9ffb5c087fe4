"""`python -m saddlescope.figures.beyond.recorded FILE`: find a million drop times, on a GPU."""

import sys
from pathlib import Path

from saddlescope.figures.beyond.recorded import record

if len(sys.argv) != 2:
    sys.exit(__doc__)
record(Path(sys.argv[1]))
