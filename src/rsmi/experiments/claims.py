"""What the paper concludes from its tables and figures, judged by our results: reproduced, not, or undecided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from rsmi.evaluation.accuracy import wilson_interval
from rsmi.evaluation.runs import Run
from rsmi.evaluation.suite import PAPER_ATTACKS
from rsmi.experiments import grids
from rsmi.experiments.results import Results
from rsmi.experiments.statistics import (
    Estimate,
    accurate,
    difference,
    gap,
    resampled,
    success,
    variance_ratio,
)

Status: TypeAlias = Literal["reproduced", "not reproduced", "undecided"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim of the paper and what became of it."""

    claim: str
    status: Status
    evidence: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


Part: TypeAlias = tuple[str, Callable[[float], Estimate]]
"""One of the inequalities that a claim consists of: its name, and the estimate at a level that must be above 0."""


def judged(claim: str, parts: Sequence[Part], unit: str = "points") -> Verdict:
    """Judge a claim that holds if every part is above 0.

    It is reproduced if the 95 % interval of every part lies above 0 (no correction is needed where all must hold), not
    reproduced if one lies below 0 (at a level corrected for their number), and undecided otherwise.
    """
    shown = [(name, estimate(0.95), estimate(1 - 0.05 / len(parts))) for name, estimate in parts]
    status: Status = "undecided"
    if shown and all(usual.low > 0 for _, usual, _ in shown):
        status = "reproduced"
    elif any(strict.high < 0 for _, _, strict in shown):
        status = "not reproduced"
    return Verdict(claim, status, "; ".join(f"{name}: {usual} {unit}" for name, usual, _ in shown))


def _runs(results: Results, encoder: str, data: str, row: str) -> list[Run]:
    seeds = results.scale.seeds
    return [results.run(cell) for attack in PAPER_ATTACKS for cell in grids.cells(encoder, data, row, attack, seeds)]


def _places(results: Results) -> list[tuple[str, str, str]]:
    scale = results.scale
    return [
        (encoder, data, f"{scale.encoders[encoder].label}, {data}")
        for data in grids.COMPARED
        for encoder in scale.compared
    ]


def _beats(first: Sequence[Run], second: Sequence[Run], factor: float = 1.0) -> Callable[[float], Estimate]:
    return lambda level: difference(first, second, factor, level)


def table1(results: Results) -> list[Verdict]:
    """RSMI against fine-tuning, every baseline, and itself without masks."""
    doubled, baselines, masks = [], [], []
    for encoder, data, name in _places(results):
        own = _runs(results, encoder, data, "rsmi")
        doubled.append((name, _beats(own, _runs(results, encoder, data, "finetune"), 2.0)))
        masks.append((name, _beats(own, _runs(results, encoder, data, "no-mask"))))
        for row, _, _ in grids.ROWS[:5]:
            baselines.append((f"{row}, {name}", _beats(own, _runs(results, encoder, data, row))))
    return [
        judged("RSMI's RAcc is at least twice the fine-tuned one (RSMI - 2 x fine-tuned, mean of attacks)", doubled),
        judged("RSMI beats each baseline in RAcc (mean of attacks)", baselines),
        judged("masks at inference add robustness (RSMI - RSMI-NoMask)", masks),
    ]


def table2(results: Results) -> list[Verdict]:
    """RSMI against fine-tuning on large models."""
    scale, parts = results.scale, []
    for data in grids.COMPARED:
        for encoder in scale.large:
            own, plain = (
                [results.run(cell) for cell in grids.cells(encoder, data, row, "textfooler", (0,))]
                for row in ("rsmi", "finetune")
            )
            parts.append((f"{scale.encoders[encoder].label}, {data}", _beats(own, plain)))
    return [judged("RSMI makes other and larger encoders more robust, too (RSMI - fine-tuned)", parts)]


def table3(results: Results) -> list[Verdict]:
    """Gradient-guided against random masks."""
    scale, guided, rising, falling = results.scale, [], [], []
    most, least = max(scale.copies), min(scale.copies)
    for masks in scale.masks:
        gm = results.run(grids.masked(scale, "gm", masks))
        many, few = (results.run(grids.masked(scale, "rm", masks, copies)) for copies in (most, least))
        guided.append((f"M = {masks}", _less_success(gm, many)))
        rising.append((f"M = {masks}", _less_success(few, many)))
    first, last = (results.run(grids.masked(scale, "gm", masks)) for masks in (scale.masks[0], scale.masks[-1]))
    falling.append((f"M = {scale.masks[0]} to {scale.masks[-1]}", _less_success(last, first)))
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
    runs = {
        name: [results.run(grids.setting(scale, *grids.SETTINGS[place])) for place in places]
        for name, places in ends.items()
    }
    fewer = [(name, _less_success(most, least)) for name, (least, most) in runs.items()]
    cost = [(name, _less_accurate(most, least)) for name, (least, most) in runs.items()]
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
            name = f"{method}, {scale.encoders[encoder].label}"
            parts.append((name, _wider(spread[method], spread["rsmi"])))
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
            parts.append((f"{results.scale.encoders[encoder].label}, {data}", _beats(voted, averaged)))
    return [judged("voting beats averaging under attack (RAcc, mean of attacks)", parts)]


def table7(results: Results) -> list[Verdict]:
    """RSMI against the baselines on QNLI."""
    encoder = results.scale.pairs
    own = _runs(results, encoder, "qnli", "rsmi")
    parts = [(row, _beats(own, _runs(results, encoder, "qnli", row))) for row, _, _ in grids.PAIR_ROWS[:4]]
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
    return Verdict(claim, status, f"{middle:.2f} x ({min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} repeats)")


def figure2(results: Results) -> list[Verdict]:
    """Hidden states of the last layer."""
    parts = []
    for encoder in results.scale.compared:
        plain, own = (results.measure(grids.hidden(encoder, "ag_news", row))["layers"] for row in ("finetune", "rsmi"))
        if plain and own:
            ends = [(layers[-1]["cosine"], layers[-1]["cosine_error"]) for layers in (own, plain)]
            parts.append((results.scale.encoders[encoder].label, _apart(ends[0], ends[1])))
    return [judged("RSMI keeps adversarial texts nearer to the clean ones after the last layer (cosine)", parts, "")]


def _apart(first: tuple[float, float], second: tuple[float, float]) -> Callable[[float], Estimate]:
    def hundredfold(level: float) -> Estimate:
        found = gap(first, second, level)
        return Estimate(100 * found.value, 100 * found.low, 100 * found.high)

    return hundredfold


def figure3(results: Results) -> list[Verdict]:
    """Two steps against one."""
    scale, parts = results.scale, []
    for encoder in scale.compared:
        one, two = (grids.copied(scale, encoder, way) for way in (False, True))
        for count, first, second in zip(scale.counts, one, two, strict=True):
            if first != second:
                runs = ([results.run(second)], [results.run(first)])
                parts.append((f"{scale.encoders[encoder].label}, k = {count}", _beats(*runs)))
    return [judged("two-step sampling adds robustness at every k above 1 (RAcc with less without)", parts)]


def figure4(results: Results) -> list[Verdict]:
    """Clean answers are stable, adversarial texts are luck."""
    stable, lucky = [], []
    for encoder in results.scale.compared:
        found, name = results.measure(grids.repeated(encoder)), results.scale.encoders[encoder].label
        if "clean" in found:
            stable.append((name, _constant(1.0 - 100 * found["clean"]["std"])))
        if "adversarial" in found:
            own = found["adversarial"]
            low, high = wilson_interval(round(own["mean"] * own["texts"]), own["texts"])
            lucky.append((name, _constant(100 * own["mean"] - 50, 100 * low - 50, 100 * high - 50)))
    return [
        judged("accuracy on clean texts varies by less than a point from run to run (1 - standard deviation)", stable),
        judged("most texts that fooled RSMI once are answered right in another run (share less 50 %)", lucky),
    ]


def _constant(value: float, low: float | None = None, high: float | None = None) -> Callable[[float], Estimate]:
    return lambda _level: Estimate(value, value if low is None else low, value if high is None else high)
