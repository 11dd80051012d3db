"""What the paper concludes from its tables, judged by our results: reproduced, not, or undecided."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rsmi.evaluation.runs import Run
from rsmi.evaluation.suite import PAPER_ATTACKS
from rsmi.experiments import grids
from rsmi.experiments.paper import compared, figure_of, less, mean_robust
from rsmi.experiments.results import Results
from rsmi.experiments.statistics import (
    Array,
    Estimate,
    accurate,
    ahead,
    queries,
    resampled,
    robust,
    success,
    variance_ratio,
)
from rsmi.experiments.verdicts import Part, Status, Verdict, judged


def _runs(results: Results, encoder: str, data: str, row: str, attacks: Sequence[str]) -> list[Run]:
    seeds = results.scale.seeds
    return [results.run(cell) for attack in attacks for cell in grids.cells(encoder, data, row, attack, seeds)]


def _places(results: Results) -> list[tuple[str, str, str]]:
    scale = results.scale
    return [(encoder, data, scale.where(encoder, data)) for data in grids.COMPARED for encoder in scale.compared]


def _lead(
    results: Results,
    place: tuple[str, str, str],
    row: str,
    name: str,
    factor: float = 1.0,
    attacks: Sequence[str] = PAPER_ATTACKS,
) -> Part:
    """Return how far RSMI is ahead of another row of Table 1 or 7 in mean RAcc."""
    encoder, data, where = place
    own, other = (_runs(results, encoder, data, each, attacks) for each in ("rsmi", row))
    ours, theirs = (mean_robust(data, encoder, each, len(attacks)) for each in ("rsmi", row))
    return Part(f"{name}{where}", ahead(own, other, factor), less(ours, theirs, factor))


def table1(results: Results) -> list[Verdict]:
    """RSMI against fine-tuning, every baseline, and itself without masks."""
    places = _places(results)
    doubled = "RSMI's RAcc is at least twice the fine-tuned one (RSMI - 2 x fine-tuned, mean of "
    return [
        judged(
            f"{doubled}TextFooler and PWWS, the strong attacks of which the paper says so)",
            [_lead(results, place, "finetune", "", 2.0, PAPER_ATTACKS[:2]) for place in places],
        ),
        judged(f"{doubled}all three attacks)", [_lead(results, place, "finetune", "", 2.0) for place in places]),
        judged(
            "RSMI beats each baseline in RAcc (mean of attacks)",
            [_lead(results, place, row, f"{row}, ") for place in places for row, _, _ in grids.ROWS[:5]],
        ),
        judged(
            "masks at inference add robustness (RSMI - RSMI-NoMask)",
            [_lead(results, place, "no-mask", "") for place in places],
        ),
        judged(
            "RSMI-NoMask outperforms the baselines in most cases (share of baselines and attacks with less RAcc, less "
            "50 %)",
            [_mostly(results, place, "no-mask", [row for row, _, _ in grids.ROWS[:5]]) for place in places],
        ),
        judged(
            "AdvAug outperforms FreeLB, InfoBERT and SAFER in most cases (share of them and attacks with less RAcc, "
            "less 50 %)",
            [_mostly(results, place, "advaug", ("freelb", "infobert", "safer")) for place in places],
        ),
        judged(
            "attacks on RSMI need more queries than on each baseline (AvgQ, mean of attacks)",
            [_dearer(results, place, row) for place in places for row, _, _ in grids.ROWS[:5]],
            unit="queries",
        ),
    ]


def _mostly(results: Results, place: tuple[str, str, str], row: str, others: Sequence[str]) -> Part:
    """Return the share of other rows and attacks with less RAcc than a row of Table 1, less 50 %; a tie is half."""
    encoder, data, where = place
    own, *rest = (
        [robust(_runs(results, encoder, data, each, (attack,))) for attack in PAPER_ATTACKS] for each in (row, *others)
    )
    runs = [run for each in (row, *others) for run in _runs(results, encoder, data, each, PAPER_ATTACKS)]

    def won(drawn: Array) -> float:
        gaps = [
            ours[drawn].mean() - theirs[drawn].mean() for other in rest for ours, theirs in zip(own, other, strict=True)
        ]
        return _won(gaps)

    printed = [compared(data, encoder, each) for each in (row, *others)]
    known = [each["RAcc"] for each in printed if each is not None]
    paper = None
    if len(known) == len(printed):
        paper = _won([ours - theirs for other in known[1:] for ours, theirs in zip(known[0], other, strict=True)])
    return Part(where, lambda level: resampled(runs, won, level), paper)


def _won(gaps: Sequence[float]) -> float:
    return float(50 * np.mean(np.sign(gaps)))


def _dearer(results: Results, place: tuple[str, str, str], row: str) -> Part:
    """Return how many queries more an attack on RSMI takes than one on another row of Table 1."""
    encoder, data, where = place
    own, other = (_runs(results, encoder, data, each, PAPER_ATTACKS) for each in ("rsmi", row))
    ours, theirs = ([queries(run) for run in runs] for runs in (own, other))

    def more(drawn: Array) -> float:
        return float(np.mean([cost(drawn) for cost in ours]) - np.mean([cost(drawn) for cost in theirs]))

    printed = (compared(data, encoder, each) for each in ("rsmi", row))
    first, second = (None if each is None else float(np.mean(each["AvgQ"])) for each in printed)
    return Part(f"{row}, {where}", lambda level: resampled((*own, *other), more, level), less(first, second))


def table2(results: Results) -> list[Verdict]:
    """RSMI against fine-tuning on large models."""
    scale, parts = results.scale, []
    for data in grids.COMPARED:
        for encoder in scale.large:
            own, plain = (
                [results.run(cell) for cell in grids.cells(encoder, data, row, "textfooler", (0,))]
                for row in ("rsmi", "finetune")
            )
            printed = figure_of("table2", data, encoder, "RAcc", 1)
            parts.append(Part(f"{scale.called(encoder)}, {data}", ahead(own, plain), printed))
    return [judged("RSMI makes other and larger encoders more robust, too (RSMI - fine-tuned)", parts)]


def table3(results: Results) -> list[Verdict]:
    """Gradient-guided against random masks."""
    scale, guided, rising, falling = results.scale, [], [], []
    most, least = max(scale.copies), min(scale.copies)
    for masks in scale.masks:
        gm = results.run(grids.masked(scale, "gm", masks))
        many, few = (results.run(grids.masked(scale, "rm", masks, copies)) for copies in (most, least))
        own, *random = (
            figure_of("table3", str(masks), *place) for place in (("GM",), ("RM", str(most)), ("RM", str(least)))
        )
        guided.append(Part(f"M = {masks}", _less_success(gm, many), less(random[0], own)))
        rising.append(Part(f"M = {masks}", _less_success(few, many), less(*random)))
    ends = (scale.masks[0], scale.masks[-1])
    first, last = (results.run(grids.masked(scale, "gm", masks)) for masks in ends)
    printed = less(*(figure_of("table3", str(masks), "GM") for masks in ends))
    falling.append(Part(f"M = {ends[0]} to {ends[1]}", _less_success(last, first), printed))
    return [
        judged(f"gradient masks beat random masks of many copies (ASR of RM at k = {most}, less GM's)", guided),
        judged(f"random masks lose as k grows (ASR at k = {most} less k = {least})", rising),
        judged("more gradient masks, fewer successes (ASR at the least M less the largest)", falling),
    ]


def _less_success(better: Run, worse: Run) -> Callable[[float], Estimate]:
    one, other = success(better), success(worse)
    return lambda level: resampled((better, worse), lambda places: other(places) - one(places), level)


def table4(results: Results) -> list[Verdict]:
    """More noise, more masks, more noise layers."""
    scale, ends = results.scale, {"noise layers": (0, 2), "sigma": (0, 4), "masks": (4, 6)}
    fewer, cost = [], []
    for name, places in ends.items():
        least, most = (results.run(grids.setting(scale, *grids.SETTINGS[place])) for place in places)
        printed = [less(*(figure_of("table4", place, column) for place in places)) for column in (3, 4)]
        fewer.append(Part(name, _less_success(most, least), printed[0]))
        cost.append(Part(name, _less_accurate(most, least), printed[1]))
    return [
        judged("more noise, fewer successes (ASR at the least less the most)", fewer),
        judged("and lower SAcc (SAcc at the least less the most)", cost),
    ]


def _less_accurate(worse: Run, better: Run) -> Callable[[float], Estimate]:
    one, other = accurate([better]), accurate([worse])
    return lambda level: resampled(
        (better, worse), lambda places: float(one[places].mean() - other[places].mean()), level
    )


def table5(results: Results) -> list[Verdict]:
    """Spread over seeds."""
    scale, parts = results.scale, []
    for encoder in scale.compared:
        spread = {
            method: [
                100 * results.run(cell).robustness.robust_accuracy.value
                for cell, _ in grids.stable(scale, encoder, method)
            ]
            for method in grids.STABILITY
        }
        for method in grids.STABILITY[:-1]:
            name = scale.where(encoder, method)
            stds = [figure_of("table5", encoder, each, "RAcc", 1) for each in (method, "rsmi")]
            printed = None if None in stds else (stds[0] / stds[1]) ** 2 - 1
            parts.append(Part(name, _wider(spread[method], spread["rsmi"]), printed))
    claim = "RSMI's RAcc varies less over seeds (ratio of variances, less 1)"
    return [judged(claim, parts, unit=f"({len(scale.stability_seeds)} seeds)")]


def _wider(first: Sequence[float], second: Sequence[float]) -> Callable[[float], Estimate]:
    def less_one(level: float) -> Estimate:
        ratio = variance_ratio(first, second, level)
        return Estimate(ratio.value - 1, ratio.low - 1, ratio.high - 1)

    return less_one


def table6(results: Results) -> list[Verdict]:
    """Votes against averaged logits."""
    parts = []
    for data in (*grids.COMPARED, "qnli"):
        for encoder in results.scale.compared:
            pairs = [grids.voted(encoder, data, attack) for attack in PAPER_ATTACKS[:2]]
            averaged, voted = ([results.run(pair[place]) for pair in pairs] for place in (0, 1))
            changes = figure_of("table6", data, encoder, "RAcc")
            printed = None if changes is None else float(np.mean([change for _, change in changes]))
            parts.append(Part(results.scale.where(encoder, data), ahead(voted, averaged), printed))
    return [judged("voting beats averaging under attack (RAcc, mean of attacks)", parts)]


def table7(results: Results) -> list[Verdict]:
    """RSMI against the baselines on QNLI."""
    place = (results.scale.pairs, "qnli", "")
    parts = [_lead(results, place, row, row) for row, _, _ in grids.PAIR_ROWS[:4]]
    return [judged("RSMI beats each baseline on QNLI (RAcc, mean of attacks)", parts)]


def table8(results: Results) -> list[Verdict]:
    """Run time."""
    training, inference = (results.measure(step)["times"] for step in grids.times(results.scale))
    update = next(own for own in training if own["name"] == "rsmi")
    return [
        _within("an update of RSMI costs at most 1.9 x one of fine-tuning", update["ratios"], 1.9),
        _within("an answer of RSMI with one masked pass costs at most 3.5 x", inference[-2]["ratios"], 3.5),
    ]


def _within(claim: str, ratios: Sequence[float], limit: float) -> Verdict:
    status: Status = "undecided"
    if max(ratios) <= limit:
        status = "reproduced"
    elif min(ratios) > limit:
        status = "not reproduced"
    middle = float(np.median(ratios))
    told = f"{middle:.2f} x ({min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} repeats)"
    return Verdict(claim, status, (told,))
