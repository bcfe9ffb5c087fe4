"""What a task offers to models and dynamics."""

from __future__ import annotations

import abc
from collections.abc import Mapping

from saddlescope.checks import FloatArray
from saddlescope.errors import InvalidInput
from saddlescope.task.lengths import ContextLengths
from saddlescope.task.moments import RegressionMoments
from saddlescope.task.prompts import Statistics


class AbstractTask(abc.ABC):
    """A law of prompts whose population loss for linear attention is known exactly.

    A task of your own subclasses this one; CONTRIBUTING shows how.
    """

    context_length: ContextLengths

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """D."""

    @property
    @abc.abstractmethod
    def common_basis(self) -> FloatArray | None:
        """The eigenvectors that all of its moments share, [D, D], as columns; None if none do."""

    def block_statistics(self) -> Statistics:
        """The exact statistics of the features that all blocks see (T6), where they are known."""
        raise InvalidInput("blocks", "full", "this task knows the moments of reduced blocks only")

    def tests(self) -> Mapping[str, AbstractTask]:
        """Other laws on which a model trained on this one is tested at every record, by name."""
        return {}

    @property
    def fixed_length(self) -> int | None:
        """N where every prompt has the same one, else None."""
        return self.context_length.fixed

    @property
    def has_vector_labels(self) -> bool:
        """Whether a label is a vector of D numbers rather than one."""
        return False

    @abc.abstractmethod
    def moments(self) -> RegressionMoments:
        """The exact moments that the population loss depends on (T3)."""
