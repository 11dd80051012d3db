"""A report -> figures for papers, each as PNG and as SVG with its text kept as text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rsmi.errors import MissingResourceError
from rsmi.evaluation.robustness import Share
from rsmi.report.curves import Curve
from rsmi.report.numbers import WORST, RunNumbers, protocols_of, unique, wilson
from rsmi.report.report import Report
from rsmi.report.sample import Sample
from rsmi.report.svg import COLOURS, STYLES
from rsmi.report.wording import calibrated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABEL = 40  # characters of a line below an axis
_DASHES = ("-", "--", ":", "-.")
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rsmi",  # the same report gives the same file
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e6ea",
    "legend.frameon": False,
}


@contextmanager
def paper_style() -> Iterator[type[Figure]]:
    """Give what makes a figure, in the look of ours.

    Raises:
        MissingResourceError: If matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingResourceError("figures need matplotlib: pip install 'rsmi[report]'") from error
    with matplotlib.rc_context(_SETTINGS):
        yield Figure


def write_figures(report: Report, folder: Path) -> list[Path]:
    """Draw everything that can be drawn; returns the files written.

    Raises:
        MissingResourceError: If matplotlib is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []

    def draw(
        name: str, columns: int, paint: Callable[[Sequence[Any]], None], width: float = 3.4, height: float = 2.7
    ) -> None:
        figure = new_figure(figsize=(width * columns, height), layout="constrained")
        paint(figure.subplots(1, columns, squeeze=False)[0])
        for ending in ("png", "svg"):
            path = folder / f"{name}.{ending}"
            figure.savefig(path, dpi=300, metadata={"Date": None} if ending == "svg" else None)
            files.append(path)

    with paper_style() as new_figure:
        for sample, start in zip(report.samples, _file_names(report), strict=True):
            _draw_sample(sample, start, draw)
        if report.certified:
            spaces = unique(own.space for own in report.certified)
            tall = 2.9 + 0.2 * len(report.certified)
            draw("certified", len(spaces), lambda axes: _paint_certified(axes, report, spaces), height=tall)
    return files


def _file_names(report: Report) -> list[str]:
    names = [_plain(f"{sample.data}-{sample.split}") for sample in report.samples]
    return [
        name if names.count(name) == 1 else f"{name}-{sample.fingerprint[:6]}-{sample.total}"
        for name, sample in zip(names, report.samples, strict=True)
    ]


def _plain(name: str) -> str:
    """Return a name that every file system takes."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.") or "data"


def _draw_sample(sample: Sample, start: str, draw: Callable[..., None]) -> None:
    for protocol in protocols_of(sample.runs):
        own = [run for run in sample.runs if run.protocol == protocol]
        attacks = unique(run.attack for run in own)
        name = f"{start}-{_plain(protocol)}"
        draw(f"{name}-queries", len(attacks), lambda axes, own=own: _paint_queries(axes, sample, own))
        draw(f"{name}-words", len(attacks), lambda axes, own=own: _paint_words(axes, sample, own))
    tall = 0.9 + 0.2 * len(sample.models) * (1 + len(protocols_of(sample.runs)))
    draw(f"{start}-protocols", 1, lambda axes: _paint_protocols(axes[0], sample), width=4.6, height=tall)
    sure = [run for run, _ in calibrated(sample)]
    if sure:
        draw(f"{start}-reliability", len(sure), lambda axes: _paint_reliability(axes, sample, sure), width=2.8)
    tried = [run for run in sample.runs if run.tries]
    if tried:
        draw(f"{start}-tries", 1, lambda axes: _paint_tries(axes[0], sample, tried))


def _look(sample: Sample, model: str) -> dict[str, Any]:
    place = sample.models.index(model)
    return {"color": COLOURS[place % STYLES], "linestyle": _DASHES[place % len(_DASHES)]}


def _paint_queries(axes: Sequence[Any], sample: Sample, runs: Sequence[RunNumbers]) -> None:
    _paint_curves(axes, sample, runs, lambda run: run.queries, 1.0, 1.0)
    for each in axes:
        each.set(xscale="log", xlabel="queries for each input")


def _paint_words(axes: Sequence[Any], sample: Sample, runs: Sequence[RunNumbers]) -> None:
    _paint_curves(axes, sample, runs, lambda run: run.words, 0.0, 100.0)
    for each in axes:
        each.set(xlabel="words changed %", xlim=(0, None))


def _paint_curves(
    axes: Sequence[Any],
    sample: Sample,
    runs: Sequence[RunNumbers],
    curve: Callable[[RunNumbers], Curve],
    start: float,
    scale: float,
) -> None:
    for panel, attack in zip(axes, unique(run.attack for run in runs), strict=True):
        own = [run for run in runs if run.attack == attack]
        end = max(curve(run).end for run in own)
        for run in own:
            _paint_curve(panel, curve(run), start, max(end, start), scale, run.model, _look(sample, run.model))
        panel.set(title=f"{attack}, {own[0].protocol}", ylim=(0, 102), ylabel="RAcc %")
        panel.legend()


def _paint_curve(
    panel: Any, curve: Curve, start: float, end: float, scale: float, name: str, look: dict[str, Any]
) -> None:
    efforts = [start, *(effort for effort, _ in curve.steps if effort > start), end]
    shares = [curve.at(effort) for effort in efforts]
    places = [scale * effort for effort in efforts]
    ends = [wilson(share.value, share.total) for share in shares]
    low, high = ([100 * end[side] for end in ends] for side in (0, 1))
    panel.step(places, [100 * share.value for share in shares], where="post", label=name, **look)
    panel.fill_between(places, low, high, step="post", alpha=0.15, color=look["color"], linewidth=0)


def _paint_protocols(panel: Any, sample: Sample) -> None:
    names = [*protocols_of(sample.runs), WORST]
    models = sample.models
    for model in models:
        own = [each for each in sample.protocols if each.model == model]
        shift = 0.5 * ((models.index(model) + 0.5) / len(models) - 0.5)
        heights = [names.index(each.protocol) + shift for each in own]
        values = [100 * each.joint.value for each in own]
        low = [max(0.0, value - 100 * each.joint.interval[0]) for value, each in zip(values, own, strict=True)]
        high = [max(0.0, 100 * each.joint.interval[1] - value) for value, each in zip(values, own, strict=True)]
        colour = _look(sample, model)["color"]
        panel.errorbar(
            values, heights, xerr=[low, high], fmt="o", markersize=4, color=colour, label=model, clip_on=False
        )
    panel.set(xlabel="RAcc %, all attacks survived", xlim=(0, 100), yticks=range(len(names)), yticklabels=names)
    panel.grid(visible=False, axis="y")
    panel.invert_yaxis()
    panel.figure.legend(loc="outside upper center", ncols=len(models))


def _paint_reliability(axes: Sequence[Any], sample: Sample, runs: Sequence[RunNumbers]) -> None:
    for panel, run in zip(axes, runs, strict=True):
        bins = [each for each in run.reliability.bins if each.right.total] if run.reliability else []
        colour = _look(sample, run.model)["color"]
        panel.plot([0, 100], [0, 100], color="#888888", linestyle=":")
        _paint_shares(panel, [100 * each.confidence for each in bins], [each.right for each in bins], colour)
        error = run.reliability.error if run.reliability else 0.0
        panel.set(
            title=f"{run.model}, {run.protocol}: ECE {100 * error:.1f} %", xlabel="confidence %", ylabel="right %"
        )


def _paint_shares(panel: Any, places: Sequence[float], shares: Sequence[Share], colour: str) -> None:
    """Draw dots with their intervals."""
    values = [100 * share.value for share in shares]
    # the ends of an interval hold its value but for rounding
    low = [max(0.0, value - 100 * share.interval[0]) for value, share in zip(values, shares, strict=True)]
    high = [max(0.0, 100 * share.interval[1] - value) for value, share in zip(values, shares, strict=True)]
    panel.errorbar(places, values, yerr=[low, high], fmt="o", markersize=4, color=colour, clip_on=False)


def _paint_tries(panel: Any, sample: Sample, runs: Sequence[RunNumbers]) -> None:
    for run in runs:
        tries = range(1, len(run.tries) + 1)
        label = f"{run.model}, {run.attack}, {run.protocol}"
        panel.plot(
            tries, [100 * share.value for share in run.tries], label=label, marker="o", **_look(sample, run.model)
        )
    panel.set(xlabel="tries (k)", ylabel="ASR@k %", ylim=(0, 102))
    panel.legend()


def _paint_certified(panels: Sequence[Any], report: Report, spaces: Sequence[str]) -> None:
    for place, own in enumerate(report.certified):
        look = {"color": COLOURS[place % STYLES], "linestyle": _DASHES[place % len(_DASHES)]}
        _paint_curve(panels[spaces.index(own.space)], own.curve, 0.0, own.curve.end, 1.0, own.name, look)
    for panel, space in zip(panels, spaces, strict=True):
        panel.set(xlabel=textwrap.fill(f"radius ({space})", _LABEL), ylabel="certified %", ylim=(0, 102))
    panels[0].figure.legend(loc="outside upper center", ncols=1)
