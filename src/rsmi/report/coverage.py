"""Runs on one sample -> the ways of attack that a model was spared and others were not."""

from __future__ import annotations

from collections.abc import Sequence

from rsmi.evaluation.runs import Run
from rsmi.report.naming import protocol_order
from rsmi.report.numbers import unique

# As in rsmi.evaluation.protocols.protocols_for: without draws or masks of its own a model looks the same under them.
_FOR_RANDOM = ("eot", "fixed-noise", "transfer", "persistent")
_FOR_MASKED = ("vote", "mask-aware")


def spared(runs: Sequence[Run], names: Sequence[str]) -> dict[str, list[str]]:
    """Return, for each model that others were attacked harder than, the attacks and protocols that it did not face.

    Protocols that say nothing about a model do not count: repeating an attack on one that never changes its answer.

    Args:
        runs: All runs on one sample.
        names: The names of their protocols.
    """
    ways = unique((run.attack, name, run.protocol) for run, name in zip(runs, names, strict=True))
    missing = {}
    for model in unique(run.model for run in runs):
        own = [(run, name) for run, name in zip(runs, names, strict=True) if run.model == model]
        nothing_new: tuple[str, ...] = () if any(run.header.get("randomised") for run, _ in own) else _FOR_RANDOM
        nothing_new += () if any(run.header.get("uses_gradients") for run, _ in own) else _FOR_MASKED
        faced = {(run.attack, name) for run, name in own}
        left = [
            (protocol_order(name), f"{attack} · {name}")
            for attack, name, protocol in ways
            if (attack, name) not in faced and not protocol.startswith(nothing_new)
        ]
        if left:
            missing[model] = [way for _, way in sorted(left)]
    return missing
