"""Which rows of a plan share a batch: this depends on the plan alone, not on who runs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from saddlescope.checks import AnyArray
from saddlescope.dynamics.forecast import Forecast
from saddlescope.errors import InvalidInput
from saddlescope.running.progress_bar import shown
from saddlescope.sweep.axes import label
from saddlescope.sweep.kernel import Batch
from saddlescope.sweep.plan import POINT, SEED, Plan
from saddlescope.sweep.subjects import NAMED_TWICE, REASON, STATUS, Column

# The work of a batch in seconds of one core, large compared to the overhead of a task.
_SECONDS = 2.0
# The most rows of a batch, where the plan does not say how many.
_MOST_ROWS = 1024


@dataclass(frozen=True)
class _Cut:
    """The range of a batch among the ordered rows, and the number of rows of its frame."""

    first: int
    last: int
    rows: int


class Batches:
    """The batches of a plan, without the rows that an `earlier`, smaller plan already has.

    Rows that can share a program are ordered by expected duration and cut into the plan's
    `batch_rows`, or about two seconds of one core each. No batch has more than `most_rows` rows;
    numbering starts at `first`.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.6, .3], context_length=31)
    >>> base = ss.Setting(ss.SeparateAttention(3), task, ss.GradientFlow(until=100), seeds=3)
    >>> batches = Batches(Plan(base, {"init_scale": [.01, .1]}))
    >>> len(batches), batches[0].rows, batches[0].frame.rows
    (1, 6, 16)
    """

    def __init__(
        self,
        plan: Plan,
        earlier: Plan | None = None,
        first: int = 0,
        most_rows: int | None = None,
    ) -> None:
        self.plan = plan
        self._subject = plan.subject
        self._first, self._most = first, most_rows
        self._ladder = _ladder(plan.batch_rows or _MOST_ROWS)
        self._items = self._subject.points(plan)
        self._forecasts = _forecasts(plan, self._items)
        self.columns = _distinct(plan, self._subject.columns(self._items, self._forecasts))
        point, seed = _rows(plan, earlier)
        groups: dict[object, int] = {}
        of_point = np.array([groups.setdefault(f.key, len(groups)) for f in self._forecasts])
        self._seconds = np.array([forecast.seconds for forecast in self._forecasts])
        order = np.lexsort((seed, point, self._seconds[point], of_point[point]))
        self._point, self._seed = point[order], seed[order]
        self._group = of_point[self._point]
        self._sizes = [self._largest(group, of_point) for group in range(len(groups))]
        self._cuts = list(self._cut())

    def __len__(self) -> int:
        return len(self._cuts)

    def __iter__(self) -> Iterator[Batch]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, index: int) -> Batch:
        cut = self._cuts[index]
        point, seed = self._point[cut.first : cut.last], self._seed[cut.first : cut.last]
        starts = np.flatnonzero(np.diff(point, prepend=-1))
        items, counts = [], []
        for begin, end in zip(starts, [*starts[1:], len(point)], strict=True):
            item = self._items[point[begin]]
            seeds = tuple(self._labels(int(point[begin]), seed[begin:end]))
            items.append(self._subject.with_seeds(item, seeds))
            counts.append(int(end - begin))
        return Batch(
            self._first + index,
            self._subject,
            self.columns,
            tuple(items),
            tuple(counts),
            self._subject.frame(self._sizes[self._group[cut.first]], cut.rows),
            float(self._seconds[point].sum()),
        )

    def labels(self, index: int) -> tuple[AnyArray, AnyArray]:
        """The index of the point of each row of a batch, and its seed."""
        cut = self._cuts[index]
        point, seed = self._point[cut.first : cut.last], self._seed[cut.first : cut.last]
        seeds = [self._labels(int(p), np.array([s]))[0] for p, s in zip(point, seed, strict=True)]
        return point, np.array(seeds)

    def cells(self, index: int, plan: Plan) -> AnyArray:
        """The flat index of each row of a batch in the array of the same or a larger plan."""
        cut = self._cuts[index]
        point, seed = self._point[cut.first : cut.last], self._seed[cut.first : cut.last]
        return self._cells(plan)[point, seed]

    @cached_property
    def seconds(self) -> float:
        """The expected time of all batches on one core."""
        return float(self._seconds[self._point].sum())

    @property
    def rows(self) -> int:
        """The number of rows in all batches."""
        return len(self._point)

    @cached_property
    def counts(self) -> AnyArray:
        """The number of rows of each batch."""
        return np.array([cut.last - cut.first for cut in self._cuts], dtype=int)

    @cached_property
    def work(self) -> AnyArray:
        """The expected seconds of each batch on one core."""
        whole = np.concatenate([[0.0], np.cumsum(self._seconds[self._point])])
        return np.array([whole[cut.last] - whole[cut.first] for cut in self._cuts])

    def _cells(self, plan: Plan) -> AnyArray:
        if plan not in self._known_cells:
            self._known_cells[plan] = cells_of(self.plan, plan)
        return self._known_cells[plan]

    @cached_property
    def _known_cells(self) -> dict[Plan, AnyArray]:
        return {}

    def _labels(self, point: int, seeds: AnyArray) -> list[int]:
        if self.plan.seeds is None:
            points = self.plan.dimensions[POINT]
            return [int(str(self.plan.value("seeds", point % points)))]
        return [self.plan.seeds[index] for index in seeds]

    def _largest(self, group: int, of_point: AnyArray) -> dict[str, int]:
        known = [self._forecasts[point].sizes for point in np.flatnonzero(of_point == group)]
        return {name: max(sizes[name] for sizes in known) for name in known[0]}

    def _cut(self) -> Iterator[_Cut]:
        borders = np.flatnonzero(np.diff(self._group, prepend=-1, append=-1))
        for begin, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            work = np.cumsum(self._seconds[self._point[begin:end]])
            first = begin
            while first < end:
                wanted = self.plan.batch_rows
                if wanted is None:
                    before = work[first - begin - 1] if first > begin else 0.0
                    wanted = int(np.searchsorted(work, before + _SECONDS)) + 1 - (first - begin)
                last = min(first + self._padded(wanted), end)
                yield _Cut(first, last, self._padded(last - first))
                first = last

    def _padded(self, rows: int) -> int:
        """The number of rows that a batch is padded to."""
        rung = next((rung for rung in self._ladder if rung >= rows), self._ladder[-1])
        return rung if self._most is None else min(rung, self._most)


def _forecasts(plan: Plan, items: Sequence[object]) -> list[Forecast]:
    forecast, forecasts = plan.subject.forecaster(), list[Forecast]()
    try:
        for item in shown(items, "planning"):
            forecasts.append(forecast(item))
    except InvalidInput as wrong:
        raise plan.located(wrong, next(islice(plan.choices(), len(forecasts), None))) from None
    return forecasts


def _distinct(plan: Plan, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns, with names that no axis of the plan has.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.6, .3], context_length=31)
    >>> base = ss.Setting(ss.SeparateAttention(3), task, ss.GradientFlow(until=100))
    >>> _distinct(Plan(base, {"rank": [1, 2]}), [Column("kappa", ("head", "rank"), (3, 2))])
    (Column(name='kappa', axes=('head', 'rank_index'), sizes=(3, 2)),)
    """
    taken = {*plan.dimensions, *plan.axes}
    renamed = [
        replace(one, axes=tuple(f"{axis}_index" if axis in taken else axis for axis in one.axes))
        for one in columns
    ]
    taken.update((STATUS, REASON), *(one.axes for one in renamed))
    for one in renamed:
        if one.name in taken:
            raise InvalidInput("keep", one.name, NAMED_TWICE)
    return tuple(renamed)


def cells_of(plan: Plan, larger: Plan) -> AnyArray:
    """The flat indices of a plan's points and seeds in the array of a larger plan, [P, S].

    `InvalidInput` where the other plan is not larger.
    """
    shape = tuple(larger.dimensions.values())
    along = []
    for name, size in plan.dimensions.items():
        indices = _indices(name, plan, larger)
        if len(indices) < size:
            now = _values(name, larger) if name in larger.dimensions else None
            raise InvalidInput(f"axes.{name}", now, "must still have every value that was there")
        if name == POINT and (indices != np.arange(size)).any():
            raise InvalidInput(
                "axes", name, "zipped and random values can only be extended at the end"
            )
        along.append(indices)
    if list(plan.dimensions) != list(larger.dimensions):
        raise InvalidInput("axes", list(larger.dimensions), f"must be {list(plan.dimensions)}")
    grid = np.meshgrid(*along, indexing="ij")
    flat = np.ravel_multi_index(grid, shape) if grid else np.zeros(())
    return np.asarray(flat).reshape(plan.count, -1)


def _indices(name: str, plan: Plan, larger: Plan) -> AnyArray:
    """The indices of a dimension's values in a larger plan, those that it lacks left out."""
    if name not in larger.dimensions:
        return np.zeros(0, dtype=int)
    values = _values(name, larger)
    index = {value: i for i, value in reversed(list(enumerate(values)))}
    return np.array([index[one] for one in _values(name, plan) if one in index], dtype=int)


def _values(name: str, plan: Plan) -> list[object]:
    if name == SEED:
        return list(plan.seeds or ())
    if name == POINT:
        columns = [map(label, values) for values in plan.shared.values()]
        # Points may repeat: the first of them, the second of them, …
        seen: dict[object, int] = {}
        listed: list[object] = []
        for values in zip(*columns, strict=True):
            seen[values] = seen.get(values, 0) + 1
            listed.append((values, seen[values]))
        return listed
    return [label(value) for value in plan.crossed.get(name, ())]


def _rows(plan: Plan, earlier: Plan | None) -> tuple[AnyArray, AnyArray]:
    """The indices of the point and the seed of every row that an earlier plan does not have."""
    seeds = 1 if plan.seeds is None else len(plan.seeds)
    new = np.full(plan.count * seeds, True)
    if earlier is not None:
        new[cells_of(earlier, plan).ravel()] = False
    rows = np.flatnonzero(new)
    return rows // seeds, rows % seeds


def _ladder(most: int) -> list[int]:
    """The numbers of rows that batches are padded to: few, so that few programs serve them all.

    >>> _ladder(1024), _ladder(100)
    ([1, 4, 16, 64, 256, 1024], [1, 4, 16, 64, 100])
    """
    powers = range((most - 1).bit_length() // 2 + 1)
    return [*(4**power for power in powers if 4**power < most), most]
