"""The graph of saddles: its nodes, its edges and its path."""

from saddlescope.task import InContextRegression
from saddlescope.theory import saddle_graph


def test_the_graph_joins_what_differs_by_one(paper):
    graph = saddle_graph(paper)
    assert len(graph.nodes) == 16
    assert len(set(graph.edges)) == 4 * 2**3
    assert all(set(a) < set(b) and len(b) == len(a) + 1 for a, b in graph.edges)
    assert graph.path == ((), (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3))
    assert [graph.nodes.at(subset).index for subset in graph.path] == [0] * 5


def test_the_graph_of_equal_eigenvalues():
    graph = saddle_graph(InContextRegression([0.3, 0.3, 0.2], 31))
    assert len(graph.nodes) == 6
    assert len(graph.edges) == 2 * 2 + 3
    assert graph.path == ((), (0,), (0, 1), (0, 1, 2))


def test_the_graph_claims_no_path_where_the_orders_disagree(disagreeing):
    graph = saddle_graph(disagreeing)
    assert graph.path is None
    # The first head learns mode 0 and then turns to mode 1.
    assert (graph.nodes.at([0]).index, graph.nodes.at([1]).index) == (1, 0)
