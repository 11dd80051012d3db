"""Results -> the paper's figures, drawn: lines with their intervals, and how runs spread."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsmi.evaluation.robustness import Share
from rsmi.experiments import grids
from rsmi.experiments.layouts import NAMES
from rsmi.experiments.results import Results
from rsmi.report.figures import paper_style
from rsmi.report.svg import COLOURS, STYLES

_MARKERS = "osD^vP"  # so that lines differ without their colours, too
_NORMAL = 1.96  # standard errors to the ends of a 95 % interval


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a figure."""

    name: str
    points: tuple[tuple[float, float, float, float], ...]
    """Place, value, and the ends of its interval."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One system of axes."""

    up: str
    across: str = ""
    lines: tuple[Line, ...] = ()
    boxes: tuple[tuple[str, tuple[float, ...]], ...] = ()
    """Values that spread, under a name."""
    top: float | None = None
    """End of the upward axis, which begins at 0; None leaves both ends to the values."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure."""

    title: str
    panels: tuple[Panel, ...]


def figure2(results: Results) -> Drawing | None:
    """L2 and cosine against the layer."""
    measured = [
        (f"{NAMES[row]}, {results.scale.encoders[encoder].label}", found["layers"])
        for encoder in results.scale.compared
        for row in ("finetune", "rsmi")
        if (found := results.measure(grids.hidden(encoder, "ag_news", row)))["layers"]
    ]
    if not measured:
        return None
    panels = [
        Panel(up, "layer", tuple(Line(name, _by_layer(layers, what)) for name, layers in measured))
        for what, up in (("l2", "L2, clean to adversarial"), ("cosine", "cosine, clean and adversarial"))
    ]
    return Drawing("Figure 2", tuple(panels))


def _by_layer(layers: list[dict[str, Any]], what: str) -> tuple[tuple[float, float, float, float], ...]:
    return tuple(
        (own["layer"] + 1.0, own[what], own[what] - reach, own[what] + reach)
        for own in layers
        for reach in [_NORMAL * own[f"{what}_error"]]
    )


def figure3(results: Results) -> Drawing:
    """RAcc against the number of copies."""
    lines = []
    for encoder in results.scale.compared:
        for two_step in (False, True):
            runs = map(results.run, grids.copied(results.scale, encoder, two_step))
            shares = [run.robustness.robust_accuracy for run in runs]
            points = tuple(_point(*each) for each in zip(results.scale.counts, shares, strict=True))
            name = "with two steps" if two_step else "without two steps"
            lines.append(Line(f"{name}, {results.scale.encoders[encoder].label}", points))
    return Drawing("Figure 3", (Panel("RAcc %", "copies", tuple(lines), top=100.0),))


def _point(place: int, share: Share) -> tuple[float, float, float, float]:
    low, high = share.interval
    return float(place), 100 * share.value, 100 * low, 100 * high


def figure4(results: Results) -> Drawing:
    """How accuracy spreads over independent runs."""
    boxes = []
    for encoder in results.scale.compared:
        found = results.measure(grids.repeated(encoder))
        for name in ("clean", "adversarial"):
            if name in found:
                label = f"{found[name]['texts']:,} {name}\n{results.scale.encoders[encoder].label}"
                boxes.append((label, tuple(100 * value for value in found[name]["accuracies"])))
    return Drawing("Figure 4", (Panel("right in a run %", boxes=tuple(boxes), top=100.0),))


def draw(drawing: Drawing, file: Path) -> None:
    """Draw a figure into an SVG file."""
    with paper_style() as new_figure:
        figure = new_figure(figsize=(1.4 + 3.6 * len(drawing.panels), 3.2), layout="constrained")
        axes = figure.subplots(1, len(drawing.panels), squeeze=False)[0]
        for own, panel in zip(axes, drawing.panels, strict=True):
            _paint(own, panel)
        handles, names = axes[0].get_legend_handles_labels()
        if names:
            figure.legend(handles, names, loc="outside upper center", fontsize=7)
        figure.savefig(file, metadata={"Date": None})


def _paint(axes: Any, panel: Panel) -> None:
    for place, line in enumerate(panel.lines):
        across, up, low, high = (list(values) for values in zip(*line.points, strict=True))
        middle = (len(panel.lines) - 1) / 2
        shift = 0.008 * (place - middle) * (across[-1] - across[0])  # so that intervals do not hide each other
        below = [max(0.0, value - end) for value, end in zip(up, low, strict=True)]
        above = [max(0.0, end - value) for value, end in zip(up, high, strict=True)]
        look = {"color": COLOURS[place % STYLES], "marker": _MARKERS[place % len(_MARKERS)], "markersize": 4}
        moved = [value + shift for value in across]
        axes.errorbar(moved, up, yerr=[below, above], label=line.name, capsize=2, linewidth=1.2, **look)
    if panel.boxes:
        axes.boxplot([values for _, values in panel.boxes], widths=0.5)
        axes.set_xticks(range(1, len(panel.boxes) + 1), [name for name, _ in panel.boxes], fontsize=7)
    if panel.top is not None:
        axes.set_ylim(0, panel.top)
    axes.set(xlabel=panel.across, ylabel=panel.up)
