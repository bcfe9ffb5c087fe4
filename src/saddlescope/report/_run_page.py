"""The page of one run: its picture, measured beside predicted, its setting."""

from __future__ import annotations

from html import escape
from pathlib import Path

from saddlescope.drawing import plot, to_svg
from saddlescope.report._page import Section, figure, table, write_page
from saddlescope.setting.toml import to_toml
from saddlescope.tables import paragraphs
from saddlescope.trajectory import Trajectory

_CAPTION = (
    "Left: the loss of every seed; dashed lines are the predicted plateaus, circles the predicted "
    "drops, which come from the initial weights alone. Middle: what one seed has learned along "
    "each eigenvector, as a share of the optimum (the bare diagonal of the effective map where the "
    "covariances share no eigenvectors, or data were given). Right: the value weight of each head."
)


def write_run_page(trajectory: Trajectory, path: str | Path, command: str = "") -> Path:
    """Write the page of a run; `command` is shown as what makes it."""
    setting, comparison = trajectory.setting, trajectory.compare()
    svg = to_svg(plot(trajectory))
    sections = [
        Section("The run", figure(svg, _CAPTION)),
        Section(
            "Measured beside predicted",
            table(comparison.headings, comparison.cells()) + paragraphs(comparison.summary),
        ),
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
