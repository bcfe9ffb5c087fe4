"""The graph of saddles as numbers and as a picture, for the figures that show it (T16, T19)."""

from __future__ import annotations

import numpy as np
import xarray as xr

from saddlescope.attention import AbstractAttention
from saddlescope.charts import PanelBuilder
from saddlescope.figures.kit import panels
from saddlescope.theory import SaddleGraph, hessian, hessian_index, minimal_norm_weights

# An eigenvalue counts as negative below minus this share of the largest one (as `hessian_index`).
ZERO = 1e-9


def node_numbers(model: AbstractAttention, task: object, graph: SaddleGraph) -> xr.Dataset:
    """Every fixed point: what it has learned, its loss and trace, its index counted and by Hessian.

    `path` names those that have learned the first 0, 1, 2, … modes in order.
    """
    nodes, number = graph.nodes, {point.subset: n for n, point in enumerate(graph.nodes)}
    maps = np.array([point.effective_map for point in nodes])
    weights = [minimal_norm_weights(model, task, point) for point in nodes]
    index = [hessian_index(model, task, one, ZERO) for one in weights]
    eigenvalues = np.linalg.eigvalsh([hessian(model, task, one) for one in weights])
    order = nodes.modes.order
    path = [nodes.at(order[:count].tolist()).subset for count in range(len(order) + 1)]
    member = nodes.modes.membership(point.subset for point in nodes)
    return xr.Dataset(
        {
            "member": (("node", "direction"), member.astype(np.int32)),
            "node_loss": ("node", nodes.losses),
            "node_trace": ("node", np.trace(maps, axis1=1, axis2=2)),
            "inversions": ("node", nodes.indices.astype(np.int32)),
            "hessian_index": ("node", np.array(index, np.int32)),
            "lowest_eigenvalue": ("node", eigenvalues[:, 0] / eigenvalues[:, -1].max()),
            "edge": (("link", "end"), np.array([[number[a], number[b]] for a, b in graph.edges])),
            "path": ("level", np.array([number[subset] for subset in path], np.int32)),
        }
    )


def draw_graph(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The fixed points by loss and trace, joined, with their indices, and the runs among them."""
    trace, loss = data["node_trace"].to_numpy(), data["node_loss"].to_numpy()
    index = data["hessian_index"].to_numpy()
    for first, second in data["edge"].to_numpy():
        ends = [first, second]
        axes.plot(trace[ends], loss[ends], color="#BBBBBB", linewidth=0.7, zorder=1)
    for seed in range(data.sizes["seed"]):
        path, label = (data["map_trace"][seed], data["loss"][seed]), None if seed else "training"
        axes.plot(*path, color=panels.colour(seed), linewidth=1.8, alpha=0.8, zorder=2, label=label)
    inks = panels.shades(int(index.max()) + 1, "cividis_r")
    for value in range(int(index.max()) + 1):
        chosen = index == value
        look = {"color": inks[value], "markeredgecolor": "black", "markersize": 12, "zorder": 3}
        axes.plot(trace[chosen], loss[chosen], "o", label=f"index {value}", **look)
    for node, member in enumerate(data["member"].to_numpy()):
        name = ",".join(f"e_{n + 1}" for n in np.flatnonzero(member))
        # Training leaves the right-hand side of the in-order points free above, not below.
        shift = (9, 6) if node in data["path"].to_numpy() else (9, 0)
        ink = "black" if index[node] < (index.max() + 1) / 2 else "white"
        spot = (trace[node], loss[node])
        axes.text(*spot, str(index[node]), ha="center", va="center", fontsize=7.5, color=ink)
        text = f"${name}$" if name else r"$\varnothing$"
        axes.text(*spot, text, shift=shift, va="center", fontsize=7.5)
    axes.set(xlabel=r"total learned,  $\mathrm{tr}\,W$", ylabel=panels.LOSS_LABEL)
    axes.set(ylim=(0, 1.08 * float(loss.max())), xlim=(-0.8, 1.1 * float(trace.max())))
    axes.legend(6)
