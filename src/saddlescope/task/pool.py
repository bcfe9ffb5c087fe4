"""In-context regression with recurring tasks: in-weight learning, finite pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.checks import FloatArray, is_single, number, one_of, real_array, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.running.memory import check_memory
from saddlescope.setting.kinds import kind
from saddlescope.task._block_moments import TaskMoments, block_statistics, random_label_statistics
from saddlescope.task.base import AbstractTask
from saddlescope.task.inputs import require_gaussian
from saddlescope.task.lengths import ContextLengths
from saddlescope.task.moments import RegressionMoments, regression_moments
from saddlescope.task.prompts import Prompts
from saddlescope.task.regression import InContextRegression
from saddlescope.task.spectrum import Spectrum, common_basis
from saddlescope.task.statistics import Statistics

if TYPE_CHECKING:
    from saddlescope.task.samplers import RegressionSampler


@kind("task", "task_pool")
@dataclass(frozen=True, eq=False, init=False)
class TaskPool(AbstractTask):
    r"""A share ρ of the prompts takes its task from `tasks[K, D]`, the rest $w \sim N(0, I)$.

    K = 1 is the in-weight mixture of Z §7.1; larger K is the question of task diversity.

    - `spectrum`, `context_length`, `covariance`: as in `InContextRegression`.
    - `tasks`: the task vectors, [K, D], or how many to draw, as `draw` draws them.
    - `share`: ρ, the share of the prompts that has its task from the pool.
    - `labels`: `consistent`, or `random`: then the context labels of the pool's prompts are noise,
      y_n ~ N(0, 1), so that only memory can solve them (the authors' choice at ρ = 1, and the
      in-weight test).
    - `inputs`: gaussian alone.

    >>> TaskPool.draw([.25] * 4, context_length=31, count=1, share=.4).tests().keys()
    dict_keys(['in_weight', 'in_context'])
    """

    spectrum: Spectrum
    context_length: ContextLengths
    tasks: FloatArray
    share: float
    labels: str

    def __init__(
        self,
        spectrum: object = None,
        context_length: object = None,
        tasks: object = 1,
        share: float = 1.0,
        labels: str = "consistent",
        *,
        covariance: object = None,
        inputs: object = "gaussian",
    ) -> None:
        require_gaussian(inputs, "a pool's exact statistics are for Gaussian inputs (T6)")
        law = InContextRegression(spectrum, context_length, covariance=covariance)
        given = _drawn(law.dimension, tasks) if is_single("tasks", tasks) else tasks
        pool = real_array("tasks", given, (None, law.dimension))
        if len(pool) == 0:
            raise InvalidInput("tasks", tasks, "must hold at least one task vector")
        if number("share", share, at_least=0.0) > 1:
            raise InvalidInput("share", share, "must be from 0 to 1")
        one_of("labels", labels, ("consistent", "random"))
        if labels == "random" and len(pool) > 1:
            raise InvalidInput("labels", labels, "needs a pool of one task")
        vars(self).update(
            spectrum=law.spectrum,
            context_length=law.context_length,
            tasks=pool,
            share=float(share),
            labels=labels,
        )

    @classmethod
    def draw(
        cls, spectrum: object, context_length: object, count: int, share: float = 1.0, seed: int = 0
    ) -> TaskPool:
        r"""A pool of `count` tasks: one of length √D as in Z, or several drawn from N(0, I)."""
        tasks = _drawn(Spectrum.make(spectrum).dimension, whole_number("count", count), seed)
        return cls(spectrum, context_length, tasks, share)

    @property
    def dimension(self) -> int:
        return self.spectrum.dimension

    @property
    def law(self) -> InContextRegression:
        """The same law with a fresh task in every prompt: the in-context test."""
        return InContextRegression(self.spectrum, self.context_length)

    @property
    def task_second_moment(self) -> FloatArray:
        """E[w wᵀ] over pool and fresh tasks, [D, D]."""
        pooled = self.tasks.T @ self.tasks / len(self.tasks)
        return self.share * pooled + (1 - self.share) * np.eye(self.dimension)

    @property
    def common_basis(self) -> FloatArray | None:
        if self.labels == "random":
            return None
        return common_basis([self.law.covariance, self.task_second_moment])

    def moments(self) -> RegressionMoments:
        law, inverse = self.law, self.context_length.mean_inverse
        consistent = self.share if self.labels == "consistent" else 0.0
        pooled = consistent * self.tasks.T @ self.tasks / len(self.tasks)
        second = pooled + (1 - self.share) * np.eye(self.dimension)
        exact = regression_moments(law.covariance, second, law.covariance, 0.0, inverse)
        if self.labels == "consistent":
            return exact
        # Random labels have power 1 and carry no information on the target.
        power = float(np.trace(self.task_second_moment @ law.covariance))
        summary = exact.summary + self.share * inverse * law.covariance
        return RegressionMoments(power, exact.drive, summary, exact.query)

    def block_statistics(self) -> Statistics:
        law, length = self.law.context_law, self.fixed_length
        pooled = TaskMoments.of_pool(self.tasks)
        fresh = TaskMoments.gaussian(np.eye(self.dimension))
        if self.labels == "consistent":
            return block_statistics(law, pooled.mixed(self.share, fresh), length)
        memory = random_label_statistics(law, self.tasks[0], length)
        return memory.mixed(self.share, block_statistics(law, fresh, length))

    def tests(self) -> Mapping[str, AbstractTask]:
        """Prompts that only memory solves (or the pool's own, K > 1), and fresh tasks."""
        labels = "random" if len(self.tasks) == 1 else "consistent"
        memory = TaskPool(self.spectrum, self.context_length, self.tasks, 1.0, labels)
        return {"in_weight" if labels == "random" else "pool": memory, "in_context": self.law}

    def sampler(self) -> RegressionSampler:
        is_random = self.labels == "random"
        return self.law.pool_sampler(self.tasks, self.share, random_labels=is_random)

    def sample(self, prompts: int, seed: int = 0) -> Prompts:
        """Draw `prompts` prompts; the same seed draws the same prompts."""
        drawn = self.law.sample(prompts, seed)
        generator = np.random.default_rng([whole_number("seed", seed, at_least=0), 1])
        pooled = generator.random(drawn.count) < self.share
        tasks = self.tasks[generator.integers(len(self.tasks), size=drawn.count)]
        labels = np.matmul(drawn.x, tasks[:, :, None])[:, :, 0]
        if self.labels == "random":
            inside = np.arange(drawn.context_length) < drawn.lengths[:, None]
            noise = generator.standard_normal((drawn.count, drawn.context_length))
            labels[:, :-1] = noise * inside
        y = np.where(pooled[:, None], labels, drawn.y)
        return Prompts(drawn.x, y, None if drawn.fixed_length else drawn.lengths)

    def __repr__(self) -> str:
        return (
            f"TaskPool({self.spectrum!r}, context_length={self.context_length!r}, "
            f"{len(self.tasks)} tasks, share={self.share:g}, labels={self.labels!r})"
        )


def _drawn(dimension: int, tasks: object, seed: int = 0) -> FloatArray:
    """Draw task vectors, [K, D]."""
    generator = np.random.default_rng(whole_number("seed", seed, at_least=0))
    count = whole_number("tasks", tasks)
    check_memory(2 * count * dimension, {"tasks": count, "spectrum": dimension}, "take fewer tasks")
    drawn = generator.standard_normal((count, dimension))
    if len(drawn) == 1:
        drawn *= np.sqrt(dimension) / np.linalg.norm(drawn)
    return drawn
