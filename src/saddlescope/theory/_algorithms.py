"""The algorithms that a model may run in context (section 5), to be told apart on prompts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from saddlescope.checks import number
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import AbstractTask, InContextRegression, Prompts
from saddlescope.theory.in_context import (
    check_prompts,
    in_context_predictor,
    least_squares,
    principal_component_regression,
    regress,
)

Predictor = Callable[[Prompts], Float[np.ndarray, " P"]]
"""Anything that predicts the label of every prompt's query."""


@dataclass(frozen=True, eq=False)
class Algorithm:
    """A predictor with a name.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> [algorithm.name for algorithm in ss.theory.algorithms(task)][:3]
    ['least_squares', 'ridge', 'preconditioned_step']
    """

    name: str
    predictor: Predictor

    def __call__(self, prompts: Prompts) -> Float[np.ndarray, " P"]:
        """The prediction for each prompt's query."""
        return self.predictor(prompts)


def algorithms(task: object, penalty: float | None = None) -> tuple[Algorithm, ...]:
    r"""The algorithms of section 5 for a task, each a predictor on prompts.

    - `least_squares`: of least norm where the context does not decide;
    - `ridge`: with a `penalty` on $\|w\|^2$; by default $\sigma^2 D/\mathrm{tr}\Sigma_w$, which is
      Bayes-optimal where $\Sigma_w$ is a multiple of the identity, and least squares without noise;
    - `preconditioned_step`: one step of gradient descent from zero with the best preconditioner,
      $\beta^\top W_* x_q$, the minimum of linear attention (Z eq. 16);
    - `principal_components_0` to `_D`: least squares on so many principal components;
    - `bayes_optimal`: the mean of $w$ given the context.

    >>> task = InContextRegression([.4, .1], context_length=31)
    >>> [algorithm.name for algorithm in algorithms(task)][2:5]
    ['preconditioned_step', 'principal_components_0', 'principal_components_1']
    """
    law = _regression_law(task)
    share = law.label_noise**2 * law.dimension / float(np.trace(law.task_matrix))
    weight = share if penalty is None else number("penalty", penalty, at_least=0.0)
    components = [
        Algorithm(
            f"principal_components_{count}",
            partial(principal_component_regression, spectrum=law.spectrum, components=count),
        )
        for count in range(law.dimension + 1)
    ]
    return (
        Algorithm("least_squares", least_squares),
        Algorithm("ridge", partial(ridge, penalty=weight)),
        Algorithm("preconditioned_step", in_context_predictor(law)),
        *components,
        Algorithm("bayes_optimal", partial(bayes_optimal, task=law)),
    )


def ridge(prompts: Prompts, penalty: float) -> Float[np.ndarray, " P"]:
    r"""$x_q^\top(\sum_n x_n x_n^\top + \text{penalty}\,I)^{-1}\sum_n y_n x_n$ in each prompt.

    The penalty stands beside the sum over the context, not its mean: $\sigma^2$ is Bayes-optimal
    for $\Sigma_w = I$ at every length. At 0 it is `least_squares`.

    One of the algorithms of section 5.

    >>> prompts = InContextRegression([.4, .1], 31, label_noise=.5).sample(3, seed=0)
    >>> ridge(prompts, penalty=.25).shape
    (3,)
    """
    check_prompts(prompts, None)
    weight = number("penalty", penalty, at_least=0.0)
    return regress(prompts.x[:, :-1], prompts.y[:, :-1], prompts.query, weight)


def bayes_optimal(prompts: Prompts, task: object) -> Float[np.ndarray, " P"]:
    r"""$E[y_q \mid \text{context}, x_q]$: the least mean-square error that any predictor can have.

    $w \sim N(0, \Sigma_w)$ and Gaussian noise make it ridge regression with penalty $\sigma^2$ in
    the coordinates in which $\Sigma_w = I$; without noise, the shortest $w$ there that fits. The
    inputs say nothing of $w$, so that it is the same whatever their law.

    One of the algorithms of section 5.

    >>> task = InContextRegression([.4, .1], 31, task_covariance=[1., 2.], label_noise=.5)
    >>> bayes_optimal(task.sample(3, seed=0), task).shape
    (3,)
    """
    law = _regression_law(task)
    check_prompts(prompts, law.dimension)
    root = _root(law)
    inputs = prompts.x[:, :-1] @ root
    return regress(inputs, prompts.y[:, :-1], prompts.query @ root, law.label_noise**2)


def _root(law: InContextRegression) -> Float[np.ndarray, "D m"]:
    r"""$\Sigma_w^{1/2}$ without the directions that no task takes."""
    if law.task_covariance is None:
        return np.eye(law.dimension)
    values, basis = law.task_covariance.eigenvalues, law.task_covariance.basis
    taken = values > 1e-14 * values[0]
    return basis[:, taken] * np.sqrt(values[taken])


def _regression_law(task: object) -> InContextRegression:
    if isinstance(task, InContextRegression):
        return task
    if isinstance(task, AbstractTask):
        raise TheoryDoesNotApply(
            f"the algorithms are those of InContextRegression, not of {type(task).__name__}; "
            "give the law whose algorithms to compare with, such as the pool's own task.law"
        )
    raise InvalidInput("task", task, "must be an InContextRegression")
