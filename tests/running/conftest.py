"""A job that only counts, so that the loop and its observers can be tried by themselves."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import xarray as xr

from saddlescope.errors import CannotRead
from saddlescope.running.observers import AbstractJob, Saved


@dataclass
class Counting(AbstractJob[int, list[int]]):
    """Counts to `end`, at most `stride` at a time; a record for every ten."""

    end: int = 100
    stride: int = 10
    name: str = "counting"
    budgets: list[int] = field(default_factory=list)
    first_budget = 3

    @property
    def digest(self) -> str:
        return f"{self.name}-{self.end}"

    def begin(self) -> int:
        return 0

    def advance(self, state: int, budget: int) -> tuple[int, int]:
        self.budgets.append(budget)
        count = min(self.stride, self.end - state)
        return state + count, count

    def share(self, state: int) -> float:
        return state / self.end

    def is_finished(self, state: int) -> bool:
        return state >= self.end

    def dataset(self, state: int) -> xr.Dataset:
        return xr.Dataset({"loss": ("time", np.arange(state))})

    def result(self, state: int) -> list[int]:
        return list(range(state))

    def save(self, state: int) -> Saved:
        records = tuple({"at": np.array(10 * index)} for index in range(state // 10))
        return Saved((np.array(state), np.arange(3)), records)

    def restore(self, saved: Saved) -> int:
        if len(saved.state) != 2 or saved.state[1].tolist() != [0, 1, 2]:
            raise CannotRead("its state is not one of this count's")
        assert [int(record["at"]) for record in saved.records] == list(
            range(0, 10 * len(saved.records), 10)
        )
        return int(saved.state[0])


@pytest.fixture
def counting() -> type[Counting]:
    return Counting
