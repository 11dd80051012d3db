"""What the paper concludes from its figures, judged by our results: reproduced, not, or undecided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rsmi.evaluation.accuracy import wilson_interval
from rsmi.experiments import grids
from rsmi.experiments.paper import figure_of, less
from rsmi.experiments.results import Results
from rsmi.experiments.statistics import Estimate, ahead, deviation, gap
from rsmi.experiments.verdicts import Part, Verdict, judged
from rsmi.method.encoder import noise_positions


def figure2(results: Results) -> list[Verdict]:
    """Hidden states of the last layer, and of those with noise."""
    near, falling = [], []
    for encoder in results.scale.compared:
        steps = [grids.hidden(encoder, "ag_news", row) for row in ("finetune", "rsmi")]
        plain, own = (results.measure(step)["layers"] for step in steps)
        name = results.scale.called(encoder)
        if plain and own:
            near.append(Part(name, _apart(own[-1], plain[-1], "cosine", 100.0)))
        if own:
            config = results.trained(steps[1].models[0])["config"]
            for layer in noise_positions(_layers(config["noise_layers"]), len(own)):
                if layer:  # below the first is no layer whose distance is known
                    where = results.scale.where(encoder, f"layer {layer + 1}")
                    falling.append(Part(where, _apart(own[layer - 1], own[layer], "l2")))
    return [
        judged(
            "RSMI keeps adversarial texts nearer to the clean ones after the last layer (cosine)", near, "hundredths"
        ),
        judged("RSMI's L2 distance falls at the layers with noise (of the layer before less its own)", falling, ""),
    ]


def _layers(noise_layers: int | list[int]) -> int | tuple[int, ...]:
    return noise_layers if isinstance(noise_layers, int) else tuple(noise_layers)


def _apart(
    first: Mapping[str, float], second: Mapping[str, float], what: str, scale: float = 1.0
) -> Callable[[float], Estimate]:
    """Return the difference of two layers' means of `cosine` or `l2`, `scale` times as large."""

    def scaled(level: float) -> Estimate:
        one, other = ((own[what], own[f"{what}_error"]) for own in (first, second))
        found = gap(one, other, level)
        return Estimate(scale * found.value, scale * found.low, scale * found.high)

    return scaled


def figure3(results: Results) -> list[Verdict]:
    """Two steps against one."""
    scale, parts = results.scale, []
    for encoder in scale.compared:
        one, two = (grids.copied(scale, encoder, way) for way in (False, True))
        for count, first, second in zip(scale.counts, one, two, strict=True):
            if first != second:
                runs = ([results.run(second)], [results.run(first)])
                printed = less(*(figure_of("figure3", way, str(count)) for way in ("with", "without")))
                parts.append(Part(scale.where(encoder, f"k = {count}"), ahead(*runs), printed))
    return [judged("two-step sampling adds robustness at every k above 1 (RAcc with less without)", parts)]


def figure4(results: Results) -> list[Verdict]:
    """Clean answers are stable, adversarial texts are luck."""
    stable, lucky = [], []
    for encoder in results.scale.compared:
        found, name = results.measure(grids.repeated(encoder)), results.scale.called(encoder)
        if "clean" in found:
            stable.append(Part(f"{name}, {found['clean']['texts']:,} texts", _steady(found["clean"])))
        if "adversarial" in found:
            lucky.append(Part(f"{name}, {found['adversarial']['texts']:,} texts", _mostly(found["adversarial"])))
    return [
        judged("accuracy on clean texts varies by less than a point from run to run (1 - standard deviation)", stable),
        judged("most texts that fooled RSMI once are answered right in another run (share less 50 %)", lucky),
    ]


def _steady(found: Mapping[str, Any]) -> Callable[[float], Estimate]:
    """Return by how much the deviation stays below a point."""

    def below(level: float) -> Estimate:
        own = deviation(found["std"], found["n"], level)
        return Estimate(1 - 100 * own.value, 1 - 100 * own.high, 1 - 100 * own.low)

    return below


def _mostly(found: Mapping[str, Any]) -> Callable[[float], Estimate]:
    def above_half(level: float) -> Estimate:
        low, high = wilson_interval(round(found["mean"] * found["texts"]), found["texts"], level)
        return Estimate(*(100 * share - 50 for share in (found["mean"], low, high)))

    return above_half
