"""The panels of a sheet as plain values, for the page's script `assets/panels.js` to draw."""

from __future__ import annotations

from collections.abc import Iterable

from saddlescope.charts import AbstractLayer, Axis, Entry, HeatMap, Note, Panel, Sheet
from saddlescope.report._page_layers import Values, number, page_layer, page_look
from saddlescope.report._plain_text import plain_text


def page_panels(sheet: Sheet) -> list[Values]:
    """Every panel with its axes, layers and legend, in the sheet's order.

    A layer that the page cannot show is an error.

    >>> from saddlescope.charts import SheetBuilder
    >>> drawing = SheetBuilder(1, 1, 4, 3)
    >>> drawing.grid[0, 0].plot([1, 10, 100], [3, 1, 2], label="$e_1$")
    >>> drawing.grid[0, 0].set(xscale="log", xlabel=r"time $t/\\tau$")
    >>> (panel,) = page_panels(drawing.build())
    >>> panel["x"]["label"], panel["x"]["scale"], panel["entries"][0]["label"]
    ('time t/τ', 'log', 'e₁')
    """
    return [_panel(sheet, panel) for panel in sheet.panels]


def _panel(sheet: Sheet, panel: Panel) -> Values:
    entries = _entries(sheet, panel)
    owners = [_entry_of(layer, entries) for layer in panel.layers]
    used = sorted({owner for owner in owners if owner is not None})
    layers = [
        {**shown, "entry": None if owner is None else used.index(owner)}
        for layer, owner in zip(panel.layers, owners, strict=True)
        for shown in page_layer(layer, panel)
    ]
    return {
        "title": plain_text(panel.name),
        "x": _axis(panel.x),
        "y": _axis(panel.y),
        "layers": layers,
        "entries": [
            {"label": plain_text(entries[one].label), "look": page_look(entries[one].look)}
            for one in used
        ],
        "share": round(sheet.share(panel), 3),
        "ratio": round(1.0 if panel.square else sheet.ratio(panel), 3),
    }


def _axis(axis: Axis) -> Values:
    names = axis.names or tuple(f"{tick:g}" for tick in axis.ticks or ())
    return {
        "label": plain_text(axis.label),
        "scale": axis.scale,
        "low": number(axis.low),
        "high": number(axis.high),
        "inverted": axis.inverted,
        "ticks": [number(tick) for tick in axis.ticks or ()],
        "names": [plain_text(name) for name in names],
        "bare": axis.ticks == (),
    }


def _entries(sheet: Sheet, panel: Panel) -> list[Entry]:
    """The legend: everything labelled, and the keys without a layer."""
    shown: list[Entry] = [Entry(layer.label, layer.look) for layer in panel.layers if layer.label]
    for legend in (panel.legend, sheet.legend):
        shown += () if legend is None else legend.entries
    return list({entry.label: entry for entry in reversed((*shown, *panel.keys))}.values())[::-1]


def _entry_of(layer: AbstractLayer, entries: Iterable[Entry]) -> int | None:
    """The layer's own entry of the legend, or that of the layer drawn like it."""
    numbered = list(enumerate(entries))
    if isinstance(layer, (HeatMap, Note)):
        return None
    if layer.label:
        return next(n for n, entry in numbered if entry.label == layer.label)
    look = layer.look
    form = (look.dash, look.width > 0, look.marker, look.filled)
    alike = [
        (n, entry.look.colour)
        for n, entry in numbered
        if (entry.look.dash, entry.look.width > 0, entry.look.marker, entry.look.filled) == form
    ]
    same = [n for n, colour in alike if colour == look.colour]
    # Seeds differ in colour and share one line of the legend; where several lines have the form,
    # a curve of another colour belongs to none of them.
    return same[0] if same else alike[0][0] if len(alike) == 1 else None
