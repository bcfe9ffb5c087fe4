"""Measures of one's own: functions of a run that give a number for each of its seeds."""

import numpy as np


def relative_change(run):
    """How far the weights went, over how long they were at the start."""
    names = run.setting.model.axes
    paths = [run.dataset[name].to_numpy() for name in names]
    flat = [path.reshape(*path.shape[:2], -1) for path in paths]
    weights = np.concatenate(flat, axis=-1)
    moved = np.linalg.norm(weights[:, -1] - weights[:, 0], axis=-1)
    return moved / np.linalg.norm(weights[:, 0], axis=-1)


def half_time(run):
    """When the loss had come half of its way down."""
    loss = run.loss
    half = (loss[:, :1] + loss[:, -1:]) / 2
    return run.time[np.argmax(loss <= half, axis=1)]
