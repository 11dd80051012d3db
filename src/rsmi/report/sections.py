"""One sample of a report -> its part of the page."""

from __future__ import annotations

from collections.abc import Callable, Collection

from rsmi.report import wording
from rsmi.report.curves import Curve
from rsmi.report.markup import counted, escape, folded, table_markup
from rsmi.report.numbers import WORST, RunNumbers, protocols_of, unique
from rsmi.report.sample import Sample
from rsmi.report.svg import (
    Axis,
    Line,
    Point,
    bar,
    line_of,
    protocol_chart,
    query_axis,
    reliability_chart,
    step_chart,
    swatch,
    tries_chart,
    words_axis,
)


def sample_section(place: int, sample: Sample) -> str:
    """Return everything about one sample: cards, tables, curves."""
    source = f"{escape(sample.source)} · " if sample.source else ""
    parts = [
        f'<section id="sample-{place}" aria-labelledby="title-{place}">',
        f'<h2 id="title-{place}">{escape(sample.title)}</h2>',
        f'<p class="source">{source}fingerprint <code>{escape(sample.fingerprint)}</code></p>',
        _cards(sample),
        "<h3>Accuracy before and under attack</h3>",
        table_markup(wording.headline(sample)),
        _comparisons(sample),
        _protocols(sample),
        _curves(
            sample,
            "Robust accuracy and queries",
            "An attack stops at its success, so the curve is robust accuracy under every smaller budget.",
            lambda own: _step_figure(sample, own, lambda run: run.queries, 1.0, query_axis),
            wording.query_table(sample),
        ),
        _curves(
            sample,
            "Robust accuracy and words changed",
            "How much of a text had to change. Fewer words may suffice: attacks do not search for the smallest change.",
            lambda own: _step_figure(sample, own, lambda run: run.words, 0.0, words_axis),
            wording.words_table(sample),
        ),
        _redrawn(sample),
        _tries(sample),
        _reliability(sample),
        f"<h3>Classes</h3>{folded('Numbers of each class', table_markup(wording.class_table(sample)))}",
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _cards(sample: Sample) -> str:
    cards = []
    for style, model in enumerate(sample.models):
        own = {each.protocol: each for each in sample.protocols if each.model == model}
        clean = next(run for run in sample.runs if run.model == model).robustness.accuracy
        worst, paper = own[WORST].joint, own.get("paper")
        shown = wording.percent(worst)
        shares = [("clean", clean.value), *([("paper", paper.joint.value)] if paper else []), ("worst", worst.value)]
        steps = [f"<dt>before the attack</dt><dd>{wording.percent(clean).text} %</dd>"]
        if paper:
            steps.append(f"<dt>protocol paper</dt><dd>{wording.percent(paper.joint).text} %</dd>")
        change = own[WORST].change
        if paper and change is not None:
            moved = wording.number(100 * change, sign=True).text
            steps.append(f"<dt>paper to worst case</dt><dd>{moved} points</dd>")
        if any(run.redrawn for run in sample.runs if run.model == model):
            standing = wording.percent(own[WORST].by_majority).text
            steps.append(f"<dt>worst case, by majority of fresh draws</dt><dd>{standing} %</dd>")
        steps.append(f"<dt>runs</dt><dd>{sum(run.model == model for run in sample.runs)}</dd>")
        said = f"{model}: {clean} % before, {worst} % in the worst case"
        cards.append(
            f'<li class="card"><h3>{swatch(style)} {escape(model)}</h3>'
            f'<p class="big">{shown.text}<span> % RAcc, {WORST}</span> <small>{shown.interval}</small></p>'
            f"{bar(shares, style, said)}<dl>{''.join(steps)}</dl></li>"
        )
    return f'<ul class="cards" aria-label="Models">{"".join(cards)}</ul>'


def _comparisons(sample: Sample) -> str:
    table = wording.comparison_table(sample)
    return f"<h3>Paired tests</h3>{table_markup(table)}" if table else ""


def _protocols(sample: Sample) -> str:
    names = [*protocols_of(sample.runs), WORST]
    label = "Robust accuracy with 95 % intervals by protocol and model; the table below holds the numbers"
    chart = protocol_chart(sample.protocols, sample.models, names, label)
    caption = "Inputs that survive all attacks of a protocol, with 95 % intervals"
    return (
        "<h3>From the paper's protocol to the worst case</h3>"
        f'<div class="beside"><figure>{_legend(sample)}{chart}<figcaption>{caption}</figcaption></figure>'
        f"{table_markup(wording.protocol_table(sample))}</div>"
    )


def _legend(sample: Sample, models: Collection[str] | None = None) -> str:
    """Name the colours of all models, or of these."""
    shown = [(style, model) for style, model in enumerate(sample.models) if models is None or model in models]
    items = "".join(f"<li>{swatch(style)} {escape(model)}</li>" for style, model in shown)
    return f'<ul class="legend" aria-label="Legend">{items}</ul>'


def _curves(
    sample: Sample, title: str, note: str, figure: Callable[[list[RunNumbers]], str], table: wording.Table
) -> str:
    """Show the first protocol, fold the others."""
    first, *others = (
        [run for run in sample.runs if run.protocol == protocol] for protocol in protocols_of(sample.runs)
    )
    shown = _by_attack(first, figure)
    rest = "".join(_by_attack(own, figure) for own in others)
    more = folded(counted(len(others), "other protocol"), f'<div class="figures">{rest}</div>') if others else ""
    numbers = folded("The numbers", table_markup(table))
    return f'<h3>{title}</h3><p>{note}</p>{_legend(sample)}<div class="figures">{shown}</div>{more}{numbers}'


def _by_attack(runs: list[RunNumbers], figure: Callable[[list[RunNumbers]], str]) -> str:
    return "".join(figure([run for run in runs if run.attack == attack]) for attack in unique(r.attack for r in runs))


def _step_figure(
    sample: Sample,
    runs: list[RunNumbers],
    curve: Callable[[RunNumbers], Curve],
    start: float,
    axis_of: Callable[[list[Line]], Axis],
) -> str:
    lines = [line_of(run.model, sample.models.index(run.model), curve(run), start) for run in runs]
    axis = axis_of(lines)
    title = f"{runs[0].attack} · {runs[0].protocol}"
    label = f"{title}: robust accuracy of {', '.join(line.name for line in lines)} against {axis.label}"
    return f"<figure>{step_chart(lines, axis, label=label)}<figcaption>{escape(title)}</figcaption></figure>"


def _redrawn(sample: Sample) -> str:
    table = wording.redrawn_table(sample)
    if not table:
        return ""
    note = (
        "A success counts on the draw of noise that the attacker saw. Asked again, the model may answer otherwise: "
        "both numbers are shown, since neither is the whole truth."
    )
    return f"<h3>Randomised models on fresh draws</h3><p>{note}</p>{table_markup(table)}"


def _tries(sample: Sample) -> str:
    table = wording.tries_table(sample)
    if not table:
        return ""
    figures = []
    own = [run for run in sample.runs if run.tries]
    for attack, protocol in unique((run.attack, run.protocol) for run in own):
        lines = [
            Line(run.model, sample.models.index(run.model), tuple(map(Point, range(1, len(run.tries) + 1), run.tries)))
            for run in own
            if (run.attack, run.protocol) == (attack, protocol)
        ]
        chart = tries_chart(lines, label=f"{attack}, {protocol}: attack success after k tries")
        figures.append(f"<figure>{chart}<figcaption>{escape(f'{attack} · {protocol}')}</figcaption></figure>")
    return (
        f"<h3>Persistent attackers</h3>{_legend(sample, {run.model for run in own})}"
        f'<div class="figures">{"".join(figures)}</div>{table_markup(table)}'
    )


def _reliability(sample: Sample) -> str:
    figures = []
    for run, protocols in wording.calibrated(sample):
        if run.reliability:
            label = f"Reliability of {run.model} under {protocols}: accuracy against confidence"
            chart = reliability_chart(run.reliability, sample.models.index(run.model), label=label)
            said = f"{run.model} · {protocols}: ECE {100 * run.reliability.error:.1f} %"
            figures.append(f"<figure>{chart}<figcaption>{escape(said)}</figcaption></figure>")
    if not figures:
        return ""
    return (
        "<h3>Calibration on clean inputs</h3><p>Dots on the diagonal: as often right as the model is sure. "
        "Larger dots hold more inputs.</p>"
        f'<div class="figures">{"".join(figures)}</div>{table_markup(wording.reliability_table(sample))}'
    )
