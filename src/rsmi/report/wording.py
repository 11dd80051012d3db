"""Numbers -> the tables of a report in words, the same in Markdown and HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rsmi.evaluation.robustness import Robustness, Share
from rsmi.report.curves import CertifiedCurve, Curve
from rsmi.report.numbers import WORST, AttackAverage, Average, RunNumbers, protocols_of
from rsmi.report.sample import Sample

NONE = "\u2013"
"""Stands where there is no number."""
_BUDGETS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000)
_SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
DEFINITIONS = (
    ("SAcc", "right answers before the attack, of all inputs."),
    ("RAcc", "right answers before and after the attack, of all inputs."),
    ("ASR", "successes of the attack, of the inputs attacked, which are those answered right before."),
    ("AvgQ", "mean number of texts the model was asked about, over the inputs attacked."),
    ("Intervals", "95 % Wilson; around an average over attacks that of one share of as many inputs, never too narrow."),
    ("p, Holm", "exact McNemar test on the same inputs; Holm adjusts for the number of tests on the sample."),
    ("Worst case", "an input counts as robust only if it survived every run of that model."),
    ("By majority", "successes against a random model count only if they fool on most fresh draws; attacks stop at the "
     "first success, so one that went on could find more of these."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry of a table: a number with its interval, or a word."""

    text: str
    interval: str = ""
    number: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings, in groups that have a title (or none)."""

    caption: str
    columns: tuple[str, ...]
    groups: tuple[tuple[str, tuple[tuple[Cell, ...], ...]], ...]

    def __bool__(self) -> bool:
        return any(rows for _, rows in self.groups)


def percent(share: Share | Average) -> Cell:
    """Return a share in % with its interval."""
    if not share.total:
        return Cell(NONE)
    low, high = share.interval
    return Cell(f"{100 * share.value:.1f}", f"[{100 * low:.1f}, {100 * high:.1f}]")


def number(value: float | None, digits: int = 1, *, sign: bool = False) -> Cell:
    """Return a number; a dash where there is none."""
    if value is None or math.isnan(value):
        return Cell(NONE)
    value = round(value, digits) + 0.0  # no minus before a zero
    return Cell(f"{value:{'+' if sign and value else ''},.{digits}f}".replace("-", "\u2212"))


def word(text: str) -> Cell:
    """Return a word."""
    return Cell(text, number=False)


def _p_value(value: float) -> Cell:
    return Cell("< 0.001" if value < 0.001 else f"{value:.3f}")


def headline(sample: Sample) -> Table:
    """Return SAcc, RAcc, ASR and AvgQ of each model, under each attack and protocol."""
    groups = []
    for protocol in protocols_of(sample.runs):
        own = [run for run in sample.runs if run.protocol == protocol]
        rows = [_attack_row(run) for attack in sample.attacks for run in own if run.attack == attack]
        rows += [_average_row(each, sample) for each in sample.averages if each.protocol == protocol]
        groups.append((f"protocol {protocol}", tuple(rows)))
    columns = ("Attack", "Model", "SAcc %", "RAcc %", "ASR %", "AvgQ", "Words changed %", "n")
    return Table(
        "95 % Wilson intervals in brackets; words changed: of the texts that succeeded", columns, tuple(groups)
    )


def _attack_row(run: RunNumbers) -> tuple[Cell, ...]:
    own = run.robustness
    return (
        word(run.attack),
        word(run.model),
        *_shares(own),
        number(own.queries),
        number(100 * own.words_changed),
        Cell(f"{own.accuracy.total:,}"),
    )


def _average_row(each: AttackAverage, sample: Sample) -> tuple[Cell, ...]:
    complete = set(each.attacks) == {run.attack for run in sample.runs if run.protocol == each.protocol}
    return (
        word("average" if complete else f"average of {', '.join(each.attacks)}"),
        word(each.model),
        percent(each.accuracy),
        percent(each.robust_accuracy),
        percent(each.attack_success),
        number(each.queries),
        Cell(NONE),
        Cell(f"{each.accuracy.total:,}"),
    )


def _shares(own: Robustness) -> tuple[Cell, Cell, Cell]:
    return percent(own.accuracy), percent(own.robust_accuracy), percent(own.attack_success)


def protocol_table(sample: Sample) -> Table:
    """Return how far RAcc moves from `paper` to the worst case."""
    same = len({frozenset(each.attacks) for each in sample.protocols}) == 1  # said once, in the caption
    random = any(run.redrawn for run in sample.runs)
    groups = []
    for model in sample.models:
        rows = []
        for each in sample.protocols:
            if each.model == model:
                moved = None if each.change is None or each.protocol == "paper" else 100 * each.change
                attacks = () if same else (word(", ".join(each.attacks)),)
                again = (percent(each.by_majority),) if random else ()
                rows.append((word(each.protocol), *attacks, percent(each.joint), number(moved, sign=True), *again))
        groups.append((model, tuple(rows)))
    again_title = ("RAcc %, by majority",) if random else ()
    columns = ("Protocol", *(() if same else ("Attacks",)), "RAcc %", "Points from paper", *again_title)
    against = " and ".join(sample.protocols[0].attacks) if same else "every attack of the protocol"
    return Table(f"Inputs that survived {against}; {WORST}: every run of the model", columns, tuple(groups))


def comparison_table(sample: Sample) -> Table:
    """Return the paired tests between models."""
    rows = [
        (
            word(f"{test.attack} · {test.protocol}"),
            word(test.first),
            word(test.second),
            Cell(str(test.result.only_first)),
            Cell(str(test.result.only_second)),
            _p_value(test.result.p_value),
            _p_value(test.adjusted),
        )
        for test in sample.comparisons
    ]
    columns = ("Attack · protocol", "Model A", "Model B", "Only A survived", "Only B survived", "p", "p, Holm")
    return Table("Exact McNemar tests on the same inputs", columns, (("", tuple(rows)),))


def redrawn_table(sample: Sample) -> Table:
    """Return what successes against randomised models are worth on fresh draws."""
    rows = [
        (
            word(run.model),
            word(f"{run.attack} · {run.protocol}"),
            percent(run.redrawn.first_draw),
            percent(run.redrawn.mean_flips),
            percent(run.redrawn.majority),
            percent(run.robustness.robust_accuracy),
            percent(run.redrawn.robust_by_majority),
        )
        for run in _sorted(sample)
        if run.redrawn
    ]
    columns = (
        "Model",
        "Attack · protocol",
        "ASR %, first draw",
        "Mean flip rate %",
        "Successes that flip a majority %",
        "RAcc %, first draw",
        "RAcc %, by majority",
    )
    return Table("Successes against randomised models, asked about again on fresh draws", columns, (("", tuple(rows)),))


def tries_table(sample: Sample) -> Table:
    """Return attack success after k tries."""
    own = [run for run in _sorted(sample) if run.tries]
    most = max((len(run.tries) for run in own), default=0)
    shown = [k for k in range(1, most + 1) if k <= 3 or k == most or k % 5 == 0]
    rows = [
        (
            word(run.model),
            word(f"{run.attack} · {run.protocol}"),
            *(percent(run.tries[min(k, len(run.tries)) - 1]) for k in shown),
        )
        for run in own
    ]
    columns = ("Model", "Attack · protocol", *(f"ASR@{k} %" for k in shown))
    return Table("Attack success after k tries, each under other draws", columns, (("", tuple(rows)),))


def reliability_table(sample: Sample) -> Table:
    """Return calibration errors."""
    rows = [
        (
            word(run.model),
            word(protocols),
            number(100 * run.reliability.error),
            percent(run.robustness.accuracy),
            Cell(f"{run.reliability.total:,}"),
        )
        for run, protocols in calibrated(sample)
        if run.reliability
    ]
    columns = ("Model", "Protocols", "ECE %", "SAcc %", "n")
    return Table("Expected calibration error of clean inputs, 10 bins", columns, (("", tuple(rows)),))


def calibrated(sample: Sample) -> list[tuple[RunNumbers, str]]:
    """Return a run for each model and way to answer clean inputs, with the protocols that share it."""
    found: dict[tuple[str, str], tuple[RunNumbers, list[str]]] = {}
    seen: set[tuple[str, str]] = set()  # the attack does not change clean answers: one run of a protocol is enough
    for run in _sorted(sample):
        if run.reliability and (run.model, run.protocol) not in seen:
            seen.add((run.model, run.protocol))
            key = (run.model, str(run.reliability.to_dict()))
            found.setdefault(key, (run, []))[1].append(run.protocol)
    return [(run, ", ".join(protocols)) for run, protocols in found.values()]


def class_table(sample: Sample) -> Table:
    """Return the numbers of each true class."""
    groups = [
        (
            f"{run.attack} · {run.protocol} · {run.model}",
            tuple((word(label), *_shares(own), Cell(f"{own.accuracy.total:,}")) for label, own in run.classes),
        )
        for run in _sorted(sample)
    ]
    return Table("Numbers of each true class", ("Class", "SAcc %", "RAcc %", "ASR %", "n"), tuple(groups))


def query_table(sample: Sample) -> Table:
    """Return RAcc under query budgets."""
    longest = max((run.queries.end for run in sample.runs), default=0.0)
    budgets = [budget for budget in _BUDGETS if budget < longest]
    columns = ("Attack · protocol", "Model", *(f"{budget:,}" for budget in budgets), "all")
    rows = [_curve_row(run, run.queries, [float(budget) for budget in budgets]) for run in _sorted(sample)]
    return Table("RAcc % within so many queries for each input", columns, (("", tuple(rows)),))


def words_table(sample: Sample) -> Table:
    """Return RAcc under bounds on the words changed."""
    columns = ("Attack · protocol", "Model", *(f"{100 * share:.0f} %" for share in _SHARES), "all")
    rows = [_curve_row(run, run.words, _SHARES) for run in _sorted(sample)]
    return Table("RAcc % against texts with at most this share of words changed", columns, (("", tuple(rows)),))


def certified_table(curves: Sequence[CertifiedCurve]) -> Table:
    """Return certified accuracy, and the radius that half of the certificates reach."""
    rows = [
        (
            word(own.name),
            word(own.space),
            percent(own.at(0.0)),
            number(median(own.radii) if own.radii else None, 3),
            word("-") if own.robust is None else percent(own.robust),
            Cell(f"{own.audited:,}"),
            Cell(f"{own.broken:,}"),
            Cell(f"{own.total:,}"),
        )
        for own in curves
    ]
    columns = ("Whose", "Space", "Certified %", "Median radius", "RAcc %", "Attacked inside", "Broken", "n")
    return Table(
        "Inputs certified for their true class, the radius within their space, accuracy under all attacks on the same "
        "inputs, and certificates that were attacked from inside",
        columns,
        (("", tuple(rows)),),
    )


def _curve_row(run: RunNumbers, curve: Curve, efforts: list[float] | tuple[float, ...]) -> tuple[Cell, ...]:
    cells = (percent(curve.at(effort)) for effort in (*efforts, math.inf))
    return (word(f"{run.attack} · {run.protocol}"), word(run.model), *cells)


def _sorted(sample: Sample) -> list[RunNumbers]:
    protocols, attacks = protocols_of(sample.runs), sample.attacks
    return sorted(sample.runs, key=lambda run: (protocols.index(run.protocol), attacks.index(run.attack)))
