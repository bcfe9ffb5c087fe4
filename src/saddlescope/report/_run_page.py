"""The page of one run: its picture, measured and predicted numbers, its setting."""

from __future__ import annotations

from html import escape
from pathlib import Path

from saddlescope.drawing import describe, plot, to_svg
from saddlescope.report._page import Section, figure, table, write_page
from saddlescope.setting.toml import to_toml
from saddlescope.tables import paragraphs
from saddlescope.trajectory import Trajectory


def write_run_page(trajectory: Trajectory, path: str | Path, command: str = "") -> Path:
    """Write the page of a run; `command` is shown as the one that makes it."""
    setting, comparison = trajectory.setting, trajectory.compare()
    svg = to_svg(plot(trajectory, caption=False))
    rows = table(comparison.headings, comparison.cells()) if comparison.seeds else ""
    sections = [
        Section("The run", figure(svg, describe(trajectory))),
        Section("Measured and predicted", rows + paragraphs(comparison.summary)),
        Section(
            "Setting",
            f"<p>digest <code>{setting.digest}</code></p><details><summary>as TOML, for "
            f"<code>saddlescope train --setting</code></summary><pre>{escape(to_toml(setting))}"
            "</pre></details>",
        ),
    ]
    if command:
        sections.append(Section("How to make it", f"<pre>{escape(command)}</pre>"))
    lead = f"{setting.model!r} on {setting.task!r}"
    return write_page(path, "Saddlescope: a training run and its prediction", lead, sections)
