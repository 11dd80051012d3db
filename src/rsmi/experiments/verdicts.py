"""A claim of the paper and what its parts were found to be -> reproduced, not reproduced, or undecided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from rsmi.experiments.statistics import Estimate

Status: TypeAlias = Literal["reproduced", "not reproduced", "undecided"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim of the paper and what became of it."""

    claim: str
    status: Status
    evidence: tuple[str, ...]
    """One line for each part of the claim."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


class Part(NamedTuple):
    """One of the inequalities that a claim consists of."""

    name: str
    estimate: Callable[[float], Estimate]
    """At a level; it must be above 0."""
    paper: float | None = None
    """What the paper's own figures make of it, None where it prints none."""


def judged(claim: str, parts: Sequence[Part], unit: str = "points") -> Verdict:
    """Judge a claim that holds if every part is above 0.

    It is reproduced if the 95 % interval of every part lies above 0 (no correction is needed where all must hold), not
    reproduced if one lies below 0 (at a level corrected for their number), and undecided otherwise.
    """
    shown = [(part, part.estimate(0.95), part.estimate(1 - 0.05 / len(parts))) for part in parts]
    status: Status = "undecided"
    if shown and all(usual.low > 0 for _, usual, _ in shown):
        status = "reproduced"
    elif any(strict.high < 0 for _, _, strict in shown):
        status = "not reproduced"
    return Verdict(claim, status, tuple(_told(part, usual, unit) for part, usual, _ in shown))


def _told(part: Part, found: Estimate, unit: str) -> str:
    printed = "" if part.paper is None else f" (paper: {part.paper:.1f})"
    return f"{part.name}: {found} {unit}".rstrip() + printed
