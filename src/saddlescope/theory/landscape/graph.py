"""The graph of saddles: the fixed points, who is joined to whom, and the path (section 3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from saddlescope.theory.landscape._abstract_modes import AbstractModes
from saddlescope.theory.landscape._fixed_points import FixedPoints, fixed_points, representative


@dataclass(frozen=True, eq=False)
class SaddleGraph:
    """The fixed points, joined where one more eigenvector is learned.

    `nodes` are the fixed points.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> ss.theory.saddle_graph(task).path
    ((), (0,), (0, 1))
    """

    nodes: FixedPoints
    edges: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = field(repr=False)
    """Pairs of subsets, each one eigenvector larger than the one before."""
    path: tuple[tuple[int, ...], ...] | None
    """The subsets that training visits in turn; None where that is not known: where the orders of
    T17 disagree, or covariances do not commute."""


def saddle_graph(task: object) -> SaddleGraph:
    """The graph of saddles of separate attention: who is joined to whom, and the path (section 3).

    For any covariances (T19), but for the path.

    >>> from saddlescope.task import InContextRegression
    >>> graph = saddle_graph(InContextRegression([.4, .3, .2, .1], context_length=31))
    >>> len(graph.nodes), len(graph.edges), graph.path
    (16, 32, ((), (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)))
    """
    nodes = fixed_points(task)
    modes = nodes.modes
    edges = []
    for subset in {point.subset for point in nodes}:
        for group in modes.equal_drops:
            # A group is learned from its first member on: the next one is the one edge into it.
            new = [mode for mode in group if mode not in subset][:1]
            if new:
                edges.append((subset, tuple(sorted((*subset, *new)))))
    in_order = tuple(sorted(edges, key=lambda e: (len(e[0]), e)))
    return SaddleGraph(nodes, in_order, visited_in_turn(modes))


def visited_in_turn(modes: AbstractModes) -> tuple[tuple[int, ...], ...] | None:
    """The subsets of modes that training visits, without the graph; None where they are unknown."""
    if not modes.claims_path:
        return None
    learned = (tuple(modes.order[:count].tolist()) for count in range(len(modes.order) + 1))
    return tuple(representative(modes, subset) for subset in learned)
