"""The race of heads for the modes: who wins the next drop, and when (T13)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.integrate import DOP853
from scipy.optimize import brentq

from saddlescope.checks import FloatArray
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.theory.landscape._modes import Modes
from saddlescope.theory.staircase._heads import Heads

# Of the integration; the absolute one in units of the initial weights.
_RELATIVE, _ABSOLUTE = 1e-6, 1e-7
# A head that has done less than this share of the next drop is not felt by the others yet.
_QUIET = 1e-4
# A winner whose map is this close to what it learns stands still from then on.
_SETTLED = 1e-4
# Some seconds; a prediction takes hundreds of steps, a long one thousands.
_MOST_STEPS = 5_000


@dataclass(frozen=True, eq=False)
class Moment:
    """All heads at one time, a row each, and the maps of those that stand still."""

    time: float
    rows: Float[np.ndarray, "H n"]
    settled: dict[int, FloatArray]


@dataclass(frozen=True, eq=False)
class Crossing:
    """A head takes the loss half-way down the next drop, along a mode."""

    moment: Moment
    head: int
    mode: int


class Race:
    """The heads that have won, what they have learned, and the moment up to which all is known.

    `rows[H, 1+2RD]` are the initial weights in the common eigenbasis, as in `Heads`.
    """

    def __init__(self, modes: Modes, rows: FloatArray, rank: int) -> None:
        self.modes = modes
        self.rank = rank
        self.winners: list[int] = []
        self.learned: dict[int, list[int]] = {head: [] for head in range(len(rows))}
        self.now = Moment(0.0, rows, {})
        self.tolerance = max(_ABSOLUTE * float(np.sqrt((rows**2).mean())), np.finfo(float).tiny)
        self._quiet = dict.fromkeys(self.learned, self.now)
        self._steps = 0

    @property
    def count(self) -> int:
        """How many modes are learned."""
        return sum(len(learned) for learned in self.learned.values())

    @property
    def is_over(self) -> bool:
        """Whether every mode is learned or every head is full."""
        return self.count == min(len(self.modes.order), self.rank * len(self.learned))

    def award_start(self) -> None:
        """Give the heads what they hold already in the initial weights."""
        while not self.is_over and (crossing := _Stage(self).already()) is not None:
            self.award(crossing)

    def next_crossing(self, until: float) -> Crossing | None:
        """Follow the heads to the next crossing; None if there is none by then."""
        while self.now.time < until:
            crossing = _Stage(self).follow(until)
            if crossing is not None:
                return crossing
        return None

    def award(self, crossing: Crossing) -> None:
        """Give the winner its mode, and let the others feel it."""
        self.learned[crossing.head].append(crossing.mode)
        self.now = crossing.moment
        if crossing.head not in self.winners:
            # The others have felt it ever since it became noticeable: go back to that moment.
            self.winners.append(crossing.head)
            self.now = self._quiet[crossing.head]
            for head, moment in self._quiet.items():
                if moment.time > self.now.time:
                    self._quiet[head] = self.now

    def count_step(self) -> None:
        """Give up where steps must be so short that the end is out of reach."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise TheoryDoesNotApply(
                f"the heads cannot be followed beyond time {self.now.time:.3g} in {_MOST_STEPS} "
                "steps: the eigenvalues are too far apart, or the end is too far away"
            )

    def still_quiet(self, heads: list[int]) -> None:
        """Note that nobody feels these heads up to now."""
        self._quiet.update(dict.fromkeys(heads, self.now))

    def has_room(self, head: int) -> bool:
        """Whether a head can learn one more mode."""
        return len(self.learned[head]) < self.rank

    def settle(self, maps: dict[int, FloatArray]) -> bool:
        """Let the full winners stand still that have arrived; return whether any has."""
        arrived = {}
        for head, reached in maps.items():
            target = self._target(reached)
            close = np.linalg.norm(reached - target) < _SETTLED * np.linalg.norm(target)
            if close and not self.has_room(head):
                arrived[head] = target
        self.now = replace(self.now, settled=self.now.settled | arrived)
        return bool(arrived)

    def most_grown(self, maps: dict[int, FloatArray]) -> tuple[int, int]:
        """Among heads with room, the one that has grown the most along a free mode; that mode."""
        given = {mode for learned in self.learned.values() for mode in learned}
        candidates = []
        for head, reached in maps.items():
            fall = np.diagonal(reached) * self.modes.drive
            for group in self.modes.eigenspaces:
                free = [mode for mode in group if mode not in given]
                held = len(set(group) & set(self.learned[head]))
                grown = float(fall[list(group)].sum()) - held * float(self.modes.drop[group[0]])
                if free and self.has_room(head):
                    candidates.append((grown, head, free[0]))
        _, head, mode = max(candidates)
        return head, mode

    def _target(self, reached: FloatArray) -> FloatArray:
        r"""The fixed point beside a map: $\sum\xi uu^\top$, u its own directions in eigenspaces."""
        target = np.zeros_like(reached)
        for group in self.modes.eigenspaces:
            block, amplitude = np.ix_(group, group), float(self.modes.amplitude[group[0]])
            count = int(np.rint(np.trace(reached[block]) / amplitude))
            if count > 0:
                _, vectors = np.linalg.eigh(reached[block] + reached[block].T)
                own = vectors[:, -count:]
                target[block] = amplitude * (own @ own.T)
        return target


class _Stage:
    """From one moment to the next crossing, or to where a winner settles."""

    def __init__(self, race: Race) -> None:
        self.race, self.start = race, race.now
        settled = self.start.settled
        self.felt = [head for head in race.winners if head not in settled]
        self.racing = [head for head in race.learned if head not in race.winners]
        self.moving = self.felt + self.racing
        self.shape = (len(self.moving), self.start.rows.shape[1])
        self.begin = self.start.rows[self.moving].ravel()
        self.heads = Heads(
            race.modes,
            race.rank,
            learned=[len(race.learned[head]) for head in self.felt],
            standing=sum(settled.values(), np.zeros((race.modes.dimension,) * 2)),
            held=sum(len(race.learned[head]) for head in settled),
        )
        self.level, after = (float(loss) for loss in race.modes.levels[race.count :][:2])
        self.depth = self.level - after
        rest = float(np.cbrt(race.modes.amplitude.max()))
        self.bound = 100 * max(rest, float(np.abs(self.begin).max()))
        self.again = any(race.has_room(head) for head in self.felt)

    def follow(self, until: float) -> Crossing | None:
        """Integrate; leave the race at the moment that is reached."""
        if (crossing := self.already()) is not None:
            return crossing
        tolerance = {"rtol": _RELATIVE, "atol": self.race.tolerance}
        solver = DOP853(self.velocity, self.start.time, self.begin, until, **tolerance)
        while solver.status == "running":
            solver.step()
            self.race.count_step()
            if self.to_go(solver.y) <= 0:
                return self.crossing_within(solver)
            self.race.now = self.moment(solver.t, solver.y)
            quiet = np.flatnonzero(self.falls(solver.y)[1] < _QUIET * self.depth)
            self.race.still_quiet([self.racing[index] for index in quiet])
            if self.felt and self.race.settle(self.maps(solver.y, self.felt)):
                return None
        return None

    def crossing_within(self, solver: DOP853) -> Crossing:
        """The crossing in the solver's last step."""
        path = solver.dense_output()
        time = float(brentq(lambda t: self.to_go(path(t)), solver.t_old, solver.t))
        return self.crossing(time, path(time))

    def already(self) -> Crossing | None:
        """The crossing that lies behind at the start, if there is one."""
        return self.crossing(self.start.time, self.begin) if self.to_go(self.begin) <= 0 else None

    def velocity(self, _: float, state: FloatArray) -> FloatArray:
        """The velocity of all that move; none beyond where any head can go, to refuse the step."""
        if np.abs(state).max() > self.bound:
            return np.full(state.size, np.nan)
        return self.heads.velocity(state.reshape(self.shape)).ravel()

    def falls(self, state: FloatArray) -> tuple[float, FloatArray]:
        """How far below the last plateau the winners are, and how far each other takes them."""
        together, with_other = self.heads.losses(state.reshape(self.shape))
        return self.level - together, together - with_other

    def to_go(self, state: FloatArray) -> float:
        """How far the loss is from half-way down the next drop."""
        winners, others = self.falls(state)
        furthest = float(others.max(initial=0.0 if self.again else -np.inf))
        return self.depth / 2 - winners - furthest

    def moment(self, time: float, state: FloatArray) -> Moment:
        """All heads when those that move are in a state."""
        rows = self.start.rows.copy()
        rows[self.moving] = state.reshape(self.shape)
        return Moment(time, rows, self.start.settled)

    def maps(self, state: FloatArray, heads: list[int]) -> dict[int, FloatArray]:
        """The own maps of some of the heads that move."""
        maps = self.heads.own_maps(state.reshape(self.shape))
        return {head: maps[self.moving.index(head)] for head in heads}

    def crossing(self, time: float, state: FloatArray) -> Crossing:
        """Who has crossed: a winner with room that has done the better part, or another head."""
        winners, others = self.falls(state)
        again = self.again and winners > others.max(initial=0.0)
        candidates = self.felt if again else [self.racing[int(others.argmax())]]
        head, mode = self.race.most_grown(self.maps(state, candidates))
        return Crossing(self.moment(time, state), head, mode)
