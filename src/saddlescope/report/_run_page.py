"""The page of one run: its picture, measured beside predicted, its setting."""

from __future__ import annotations

from html import escape
from pathlib import Path

from saddlescope.drawing import plot, to_svg
from saddlescope.report._page import Section, figure, table, write_page
from saddlescope.setting.toml import to_toml
from saddlescope.tables import paragraphs
from saddlescope.trajectory import Trajectory

_LOSS = (
    "The loss of every seed; dashed lines are the predicted plateaus, circles the predicted drops, "
    "which come from the initial weights alone."
)
_WEIGHTS = (
    " In the middle what one seed has learned along each eigenvector, as a share of the optimum "
    "(the bare diagonal of the effective map where the covariances share no eigenvectors, or data "
    "were given); on the right the value weight of each head."
)
_QUANTILES = (
    "The median of the loss over all seeds, and bands of half and of nine tenths of them; dashed "
    "lines are the predicted plateaus."
)


def write_run_page(trajectory: Trajectory, path: str | Path, command: str = "") -> Path:
    """Write the page of a run; `command` is shown as what makes it."""
    setting, comparison = trajectory.setting, trajectory.compare()
    svg = to_svg(plot(trajectory))
    rows = table(comparison.headings, comparison.cells()) if comparison.seeds else ""
    sections = [
        Section("The run", figure(svg, _caption(trajectory))),
        Section("Measured beside predicted", rows + paragraphs(comparison.summary)),
        Section(
            "Setting",
            f"<p>digest <code>{setting.digest}</code></p><details><summary>as TOML, for "
            f"<code>saddlescope train --setting</code></summary><pre>{escape(to_toml(setting))}"
            "</pre></details>",
        ),
    ]
    if command:
        sections.append(Section("Make it again", f"<pre>{escape(command)}</pre>"))
    lead = f"{setting.model!r} on {setting.task!r}"
    return write_page(path, "Saddlescope: a training run and its prediction", lead, sections)


def _caption(trajectory: Trajectory) -> str:
    """What the picture shows, of whatever the run has kept."""
    if trajectory.setting.record.keep == "quantiles":
        return _QUANTILES
    return _LOSS + (_WEIGHTS if "effective_map" in trajectory.dataset else "")
