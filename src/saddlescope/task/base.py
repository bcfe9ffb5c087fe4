"""The interfaces of tasks and data."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from saddlescope.checks import FloatArray, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.running.memory import check_memory
from saddlescope.setting.kinds import part
from saddlescope.setting.plain import digest, to_plain
from saddlescope.task.lengths import ContextLengths
from saddlescope.task.moments import RegressionMoments

if TYPE_CHECKING:
    from saddlescope.risk import Objective
    from saddlescope.task.prompts import Prompts
    from saddlescope.task.samplers import AbstractSampler
    from saddlescope.task.statistics import Statistics


@part("task")
class AbstractData(abc.ABC):
    """A law of prompts, given prompts, or their statistics.

    It provides its loss in the forms that models need, and refuses those that it does not have.

    >>> from saddlescope.setting.kinds import kinds_of
    >>> list(kinds_of("task"))  # what --task takes
    ['statistics', 'prompts', 'aligned_regression', 'in_context_regression', 'task_pool']
    """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    @property
    def _digest(self) -> str:
        """Equal for data of the same fields; large arrays count by their own digests."""
        return digest(to_plain(self, {}))

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """D."""

    @property
    @abc.abstractmethod
    def fixed_length(self) -> int | None:
        """N where every prompt has the same one, else None."""

    @property
    def longest_context(self) -> int | None:
        """The largest N that a prompt can have, where that is known."""
        return self.fixed_length

    @property
    def has_vector_labels(self) -> bool:
        """Whether a label is a vector of D numbers rather than one."""
        return False

    is_given: ClassVar[bool] = True
    """Whether it is data rather than a law."""

    @abc.abstractmethod
    def linear_objective(self, blocks: str, gain: float) -> Objective:
        """The loss of an attention that is linear in the features of its `blocks` (T3, T6)."""

    def prompt_objective(self, gain: float) -> Objective:
        """The loss of any model, by its own predictions."""
        raise InvalidInput(
            "task", self, "this model has no exact moments: train it on prompts, task.sample(P)"
        )

    def vector_objective(self, gain: float) -> Objective:
        """The exact loss of a linear transformer on vector labels (T15)."""
        raise InvalidInput("task", self, "this model has vector labels: take AlignedRegression")

    def sampler(self) -> AbstractSampler:
        """What draws prompts inside compiled loops."""
        raise InvalidInput("task", self, "cannot be sampled: it has no sampler()")

    def check_prompts(self, count: int, field: str = "prompts", copies: int = 1) -> None:
        """Refuse more prompts than fit in memory, before they are drawn."""
        length, labels = self.longest_context or 1, self.dimension if self.has_vector_labels else 1
        check_memory(
            copies * count * (length + 1) * (self.dimension + labels),
            {field: count, "context_length": length, "spectrum": self.dimension},
            "draw fewer prompts, or shorter ones",
        )

    def probes(self, count: int) -> AbstractData:
        """Prompts on which to record the loss of a model that has no exact one."""
        return self

    def tests(self) -> Mapping[str, AbstractData]:
        """Other data on which a model trained on this is tested at every record, by name."""
        return {}


class AbstractTask(AbstractData):
    """A law of prompts whose population loss for linear attention is known exactly.

    A task of your own is a frozen dataclass that derives from this one: its fields are what a user
    can choose, and it offers `context_length`, `dimension` and `moments()`, besides a `sampler()`
    where it is to be trained on by fresh prompts. `examples/own_task.py` is one.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> task.dimension, task.context_length
    (2, 31)
    >>> task.moments().drive.round(2).tolist()
    [[0.16, 0.0], [0.0, 0.09]]
    """

    in_place_of: ClassVar[Mapping[str, str]] = {"covariance": "spectrum"}
    """Fields that replace another: a changed copy with the one drops the other."""

    context_length: ContextLengths

    is_given = False

    @property
    def fixed_length(self) -> int | None:
        return self.context_length.fixed

    @property
    def longest_context(self) -> int:
        return self.context_length.longest

    @abc.abstractmethod
    def moments(self) -> RegressionMoments:
        """The exact moments that the population loss depends on (T3)."""

    @property
    def common_basis(self) -> FloatArray | None:
        """The eigenvectors that all of its moments share, [D, D], as columns; None if none do."""
        return self.moments().common_basis

    def block_statistics(self) -> Statistics:
        """The exact statistics of the features that all blocks see (T6), where they are known."""
        raise InvalidInput("blocks", "full", "this task knows the moments of reduced blocks only")

    def linear_objective(self, blocks: str, gain: float) -> Objective:
        from saddlescope.risk import population_objective

        if blocks == "full":
            return self.block_statistics().linear_objective(blocks, gain)
        moments = self.moments()
        return population_objective(
            gain,
            moments.label_power,
            moments.drive,
            moments.summary,
            moments.query,
            self.common_basis,
        )

    def sample(self, prompts: int, seed: int = 0) -> Prompts:
        """Draw `prompts` prompts; the same seed draws the same prompts."""
        from saddlescope.task.samplers import draw_prompts

        count = whole_number("prompts", prompts)
        self.check_prompts(count)
        return draw_prompts(self.sampler(), count, whole_number("seed", seed, at_least=0))

    def probes(self, count: int) -> AbstractData:
        return self.sample(count)
