"""`python -m saddlescope.transformer.recorded FOLDER [NAME …]`."""

import sys
import time

from saddlescope.transformer.recorded import EXPERIMENTS, record

folder, *names = sys.argv[1:]
for name in names or EXPERIMENTS:
    began = time.monotonic()
    path = record(name, folder)
    print(f"{path}: {path.stat().st_size} bytes, {time.monotonic() - began:.0f} s", flush=True)
