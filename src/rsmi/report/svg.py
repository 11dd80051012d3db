"""Curves -> inline SVG whose colours follow the page: light, dark or printed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rsmi.evaluation.robustness import Share
from rsmi.report.curves import Curve, Reliability
from rsmi.report.markup import escape
from rsmi.report.numbers import WORST, ProtocolNumbers, wilson

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 440, 270, 46, 14, 12, 44
_MOST_POINTS = 160
COLOURS = ("#2563b8", "#c2410c", "#0f7b53", "#8b3fa8", "#8a5a00", "#be185d", "#0e7490", "#57534e")
"""Of lines, in the order of the page's style sheet."""
STYLES = len(COLOURS)
"""Colours of the page's style sheet; after them they start again."""


@dataclass(frozen=True, slots=True)
class Point:
    """A share at a place of the horizontal axis."""

    x: float
    share: Share


@dataclass(frozen=True, slots=True)
class Line:
    """A curve with its name and the number of its colour."""

    name: str
    style: int
    points: tuple[Point, ...]


def line_of(name: str, style: int, curve: Curve, start: float) -> Line:
    """Return a falling curve as points, thinned out where no eye could tell them apart."""
    efforts = [effort for effort, _ in curve.steps if effort > start]
    every = math.ceil(len(efforts) / _MOST_POINTS) or 1
    kept = [*efforts[::every], *efforts[-1:]]
    return Line(name, style, tuple(Point(x, curve.at(x)) for x in dict.fromkeys((start, *kept, max(start, curve.end)))))


@dataclass(frozen=True, slots=True)
class Axis:
    """A horizontal axis: what it measures, where it ends, which places are named."""

    label: str
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...]
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return where in the chart a value stands."""
        change = math.log10 if self.logarithmic else float
        share = (change(min(value, self.end)) - change(self.start)) / (change(self.end) - change(self.start))
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * share


def query_axis(lines: Sequence[Line]) -> Axis:
    """Return an axis of queries, from 1 to the most."""
    end = max(10.0, *(line.points[-1].x for line in lines))
    powers = [10**power for power in range(int(math.log10(end)) + 1)]
    ticks = tuple((float(tick), f"{tick // 1000}k" if tick >= 1000 else str(tick)) for tick in powers)
    return Axis("queries for each input (log scale)", 1.0, end, ticks, logarithmic=True)


def words_axis(lines: Sequence[Line]) -> Axis:
    """Return an axis of the share of words changed, up to the next tenth."""
    tenths = max(1, *(math.ceil(10 * line.points[-1].x - 1e-9) for line in lines))
    ticks = tuple((tick / 10, str(10 * tick)) for tick in range(tenths + 1) if tenths <= 5 or tick % 2 == 0)
    return Axis("words changed %", 0.0, tenths / 10, ticks)


def radius_axis(lines: Sequence[Line]) -> Axis:
    """Return an axis of radii, with round numbers."""
    end = max(line.points[-1].x for line in lines) or 1.0
    unit = 10 ** math.floor(math.log10(end / 4))
    step = unit * next(round_one for round_one in (1, 2, 5, 10) if unit * round_one >= end / 4)
    return Axis("radius", 0.0, end, tuple((step * i, f"{step * i:.3g}") for i in range(int(end / step + 1e-9) + 1)))


def step_chart(lines: Sequence[Line], axis: Axis, *, label: str, y_label: str = "RAcc %") -> str:
    """Draw falling curves with their intervals."""
    parts = [_axes([(axis.at(tick), name) for tick, name in axis.ticks], axis.label, y_label)]
    drawn = []
    for line in lines:
        points = [(axis.at(point.x), point.share) for point in line.points]
        points.append((axis.at(axis.end), line.points[-1].share))
        style = f"s{line.style % STYLES}"
        ends = [(x, wilson(share.value, share.total)) for x, share in points]  # thousands: Share.interval is slow
        upper, lower = (_stairs([(x, _up(end[side])) for x, end in ends]) for side in (1, 0))
        parts.append(f'<path class="band {style}" d="M{_joined(upper)}L{_joined(lower[::-1])}Z"/>')
        drawn.append(_path(style, _stairs([(x, _up(share.value)) for x, share in points]), line.name))
    return _svg(label, _WIDTH, _HEIGHT, [*parts, *drawn])  # all lines above all bands


def tries_chart(lines: Sequence[Line], *, label: str) -> str:
    """Draw attack success against the number of tries."""
    most = max(len(line.points) for line in lines)
    ticks = tuple((float(k), str(k)) for k in range(1, most + 1, math.ceil(most / 10)))
    axis = Axis("tries (k)", 1.0, float(max(most, 2)), ticks)
    parts = [_axes([(axis.at(tick), name) for tick, name in axis.ticks], axis.label, "ASR@k %")]
    for line in lines:
        style = f"s{line.style % STYLES}"
        dots = [(axis.at(point.x), _up(point.share.value)) for point in line.points]
        parts += [_whisker(axis.at(point.x), point.share, style) for point in line.points]
        parts.append(_path(style, dots, line.name))
        parts += [
            _dot(style, x, y, 3, f"{line.name}, {p.x:g} tries: {p.share}")
            for (x, y), p in zip(dots, line.points, strict=True)
        ]
    return _svg(label, _WIDTH, _HEIGHT, parts)


def reliability_chart(reliability: Reliability, style: int, *, label: str) -> str:
    """Draw accuracy against confidence, a dot for each bin with its interval, as large as the bin is full."""
    axis = Axis("confidence %", 0.0, 1.0, tuple((tick / 5, str(20 * tick)) for tick in range(6)))
    parts = [_axes([(axis.at(tick), name) for tick, name in axis.ticks], axis.label, "right %")]
    parts.append(f'<path class="ideal" d="M{_joined([(axis.at(end), _up(end)) for end in (0.0, 1.0)])}"/>')
    own = f"s{style % STYLES}"
    for each in reliability.bins:
        if each.right.total:
            size = 2.5 + 6 * math.sqrt(each.right.total / reliability.total)
            said = f"confidence {100 * each.confidence:.0f} %, right {each.right} %, n = {each.right.total}"
            parts.append(_whisker(axis.at(each.confidence), each.right, own))
            parts.append(_dot(own, axis.at(each.confidence), _up(each.right.value), size, said))
    return _svg(label, _WIDTH, _HEIGHT, parts)


def roc_chart(lines: Sequence[tuple[str, Sequence[tuple[float, float]]]], *, label: str) -> str:
    """Draw curves of texts caught against false alarms, their names below, as a picture for itself."""
    axis = Axis("false alarms %", 0.0, 1.0, tuple((tick / 5, str(20 * tick)) for tick in range(6)))
    parts = [_style(), _axes([(axis.at(tick), name) for tick, name in axis.ticks], axis.label, "attacks caught %")]
    parts.append(f'<path class="ideal" d="M{_joined([(axis.at(end), _up(end)) for end in (0.0, 1.0)])}"/>')
    for place, (name, points) in enumerate(lines):
        style, y = f"s{place % STYLES}", _HEIGHT + 16 * place + 8
        parts.append(_path(style, [(axis.at(x), _up(share)) for x, share in points], name))
        parts.append(f'<path class="line {style}" d="M{axis.at(0.0):.1f} {y}h18"/>')
        parts.append(_text(axis.at(0.0) + 26, y + 4, name, anchor="start"))
    chart = _svg(label, _WIDTH, _HEIGHT + 16 * len(lines), parts)
    return chart.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


def protocol_chart(rows: Sequence[ProtocolNumbers], models: Sequence[str], protocols: Sequence[str], label: str) -> str:
    """Draw robust accuracy of every protocol with its interval, models below each other."""
    left, step = 112, 15
    tall = step * len(models) + 9
    height = _TOP + tall * len(protocols) + _BOTTOM
    width, bottom = _WIDTH - left - _RIGHT, height - _BOTTOM
    parts = []
    for tick in range(0, 101, 20):
        x = left + width * tick / 100
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
        parts.append(_text(x, bottom + 17, str(tick)))
    parts.append(_text(left + width / 2, height - 6, "RAcc %", kind="axis"))
    for place, protocol in enumerate(protocols):
        top = _TOP + tall * place
        shown = protocol if len(protocol) <= 17 else protocol[:16] + "…"
        if protocol == WORST:
            parts.append(f'<path class="rule" d="M0 {top}H{_WIDTH}"/>')
        kind = "strong" if protocol == WORST else "name"
        parts.append(_text(left - 10, top + tall / 2 + 4, shown, kind=kind, anchor="end"))
        for row in (row for row in rows if row.protocol == protocol):
            own = models.index(row.model)
            y, style = top + 12 + step * own, f"s{own % STYLES}"
            low, high = (left + width * end for end in row.joint.interval)
            parts.append(f'<path class="whisker {style}" d="M{low:.1f} {y}H{high:.1f}"/>')
            said = f"{row.model}, {protocol}: {row.joint} %"
            parts.append(_dot(style, left + width * row.joint.value, y, 4.5, said))
    return _svg(label, _WIDTH, height, parts)


def bar(shares: Sequence[tuple[str, float]], style: int, label: str) -> str:
    """Draw shares of one whole over each other, the largest first."""
    parts = ['<rect class="track" x="0" y="0" width="300" height="12" rx="3"/>']
    parts += [
        f'<rect class="{kind} s{style % STYLES}" x="0" y="0" width="{300 * value:.1f}" height="12" rx="3"/>'
        for kind, value in shares
        if not math.isnan(value)
    ]
    return _svg(label, 300, 12, parts, kind="bar")


def swatch(style: int) -> str:
    """Draw a piece of a line for a legend."""
    own = f"s{style % STYLES}"
    return (
        f'<svg class="swatch" viewBox="0 0 26 10" aria-hidden="true"><path class="line {own}" d="M1 5H25"/>'
        f'<circle class="dot {own}" cx="13" cy="5" r="3.5"/></svg>'
    )


def _style() -> str:
    """Return what the page's style sheet says about charts, for one that stands alone."""
    colours = "".join(f".s{place}{{stroke:{colour}}}" for place, colour in enumerate(COLOURS))
    return (
        "<style>text{font:11px sans-serif;fill:#1a1d23}.grid{stroke:#d9dde4}.frame,.tick{stroke:#555d6b}"
        f".ideal{{stroke:#555d6b;stroke-dasharray:4 4}}path{{fill:none}}.line{{stroke-width:2.25}}{colours}</style>"
    )


def _up(value: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * (0.0 if math.isnan(value) else value)


def _stairs(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of steps: level up to the next place, then down."""
    corners = list(points[:1])
    for (_, before), (x, after) in pairwise(points):
        corners += [(x, before), (x, after)]
    return corners


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _whisker(x: float, share: Share, style: str) -> str:
    low, high = share.interval
    return f'<path class="whisker {style}" d="M{x:.1f} {_up(low):.1f}V{_up(high):.1f}"/>'


def _axes(ticks: Sequence[tuple[float, str]], x_label: str, y_label: str) -> str:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for tick in range(0, 101, 25):
        y = _up(tick / 100)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
        parts.append(_text(_LEFT - 7, y + 4, str(tick), anchor="end"))
    for x, name in ticks:
        parts.append(f'<path class="tick" d="M{x:.1f} {bottom}v4"/>')
        parts.append(_text(x, bottom + 17, name))
    parts.append(f'<path class="frame" d="M{_LEFT} {bottom}H{right}"/>')
    parts.append(_text((_LEFT + right) / 2, _HEIGHT - 6, x_label, kind="axis"))
    middle = f"translate(12 {(bottom + _TOP) / 2:.0f}) rotate(-90)"
    parts.append(f'<g transform="{middle}">{_text(0, 0, y_label, kind="axis")}</g>')
    return "".join(parts)


def _text(x: float, y: float, text: str, *, kind: str = "value", anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _dot(style: str, x: float, y: float, size: float, said: str) -> str:
    title = f"<title>{escape(said)}</title>"
    return f'<circle class="dot {style}" cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}">{title}</circle>'


def _path(style: str, points: Sequence[tuple[float, float]], said: str) -> str:
    return f'<path class="line {style}" d="M{_joined(points)}"><title>{escape(said)}</title></path>'


def _svg(label: str, width: int, height: int, parts: Sequence[str], kind: str = "chart") -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )
