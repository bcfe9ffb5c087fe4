"""One small sweep, run once, and copied by tests that damage it."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import saddlescope as ss

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
BASE = ss.Setting(
    ss.SeparateAttention(heads=3), TASK, ss.GradientDescent(learning_rate=0.2, steps=400), seeds=2
)


def make_sweep(**changes: object) -> ss.Sweep:
    """Three batches of one program, four rows in each."""
    axes = {"init_scale": [0.05, 0.1, 0.2], "context_length": [10, 31], **changes}
    return ss.Sweep(BASE, **axes)  # type: ignore[arg-type]


@pytest.fixture(autouse=True, scope="package")
def _short_batches() -> Iterator[None]:
    """Batches of four rows, so that small sweeps have several."""
    from saddlescope.sweep import batches

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_ladder", lambda most: [min(most, 4)])
        yield


@pytest.fixture(scope="package")
def finished(_short_batches: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished store; tests must not change it."""
    store = tmp_path_factory.mktemp("sweep") / "store"
    make_sweep().run(store, workers=0)
    return store


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(finished, tmp_path / "store"))


@pytest.fixture
def count_batches(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    """The numbers of the batches that this process runs from here on."""
    from saddlescope.sweep import pools

    numbers: list[int] = []
    run_batch = pools.run_batch

    def counted(batch):
        numbers.append(batch.number)
        return run_batch(batch)

    monkeypatch.setattr(pools, "run_batch", counted)
    return lambda: numbers
