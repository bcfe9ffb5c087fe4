"""Custom measures: functions of a run that return one number per seed."""

import numpy as np


def relative_change(run):
    """The distance that the weights moved, relative to their initial norm."""
    names = run.setting.model.axes
    paths = [run.dataset[name].to_numpy() for name in names]
    flat = [path.reshape(*path.shape[:2], -1) for path in paths]
    weights = np.concatenate(flat, axis=-1)
    moved = np.linalg.norm(weights[:, -1] - weights[:, 0], axis=-1)
    return moved / np.linalg.norm(weights[:, 0], axis=-1)


def half_time(run):
    """The time by which the loss had come half of the way down."""
    loss = run.loss
    half = (loss[:, :1] + loss[:, -1:]) / 2
    return run.time[np.argmax(loss <= half, axis=1)]
