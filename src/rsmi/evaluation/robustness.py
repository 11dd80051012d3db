"""Records of an attack -> the paper's numbers, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rsmi.errors import InputError
from rsmi.evaluation.accuracy import wilson_interval
from rsmi.records import AttackRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A proportion with its 95 % Wilson interval; not a number where nothing was counted."""

    count: int
    total: int

    @property
    def value(self) -> float:
        """Count / total."""
        return self.count / self.total if self.total else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the interval."""
        return wilson_interval(self.count, self.total) if self.total else (0.0, 1.0)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        low, high = self.interval
        value = self.value if self.total else None
        return {"count": self.count, "total": self.total, "value": value, "low": low, "high": high}


@dataclass(frozen=True, slots=True, kw_only=True)
class Robustness:
    """What an attack did to a target over many texts."""

    accuracy: Share
    """Right answers before the attack (paper: SAcc)."""
    robust_accuracy: Share
    """Right answers after it (RAcc)."""
    attack_success: Share
    """Successes among the texts attacked, which are those answered right (ASR)."""
    queries: float
    """Mean queries of the texts attacked (AvgQ)."""
    words_changed: float
    """Mean share of the words changed in the successes."""
    fresh_flips: Share
    """Successes that fool a randomised target again, counted over all fresh draws; of nothing for other targets."""
    majority_flips: int
    """Successes that fool a randomised target on most fresh draws."""
    budget_hit: int
    """Failures for want of queries."""

    @classmethod
    def of(cls, records: Sequence[AttackRecord]) -> Robustness:
        """Count records."""
        if not records:
            raise InputError("expected at least one record, got none")
        attacked = [record for record in records if record.outcome != "skipped"]
        fooled = [record for record in attacked if record.outcome == "succeeded"]
        redrawn = [record for record in fooled if record.fresh_draws]
        return cls(
            accuracy=Share(count=len(attacked), total=len(records)),
            robust_accuracy=Share(count=len(attacked) - len(fooled), total=len(records)),
            attack_success=Share(count=len(fooled), total=len(attacked)),
            queries=_mean([record.queries for record in attacked]),
            words_changed=_mean([record.words_changed / max(1, record.num_words) for record in fooled]),
            fresh_flips=Share(
                count=sum(record.fresh_flips for record in redrawn), total=sum(record.fresh_draws for record in redrawn)
            ),
            majority_flips=sum(map(flips_majority, redrawn)),
            budget_hit=sum(record.budget_hit for record in records),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        shares = ("accuracy", "robust_accuracy", "attack_success", "fresh_flips")
        values = asdict(self) | {name: getattr(self, name).to_dict() for name in shares}
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value for name, value in values.items()
        }


def flips_majority(record: AttackRecord) -> bool:
    """Whether a success fools on most fresh draws; one that was not asked about again counts as such."""
    return not record.fresh_draws or 2 * record.fresh_flips > record.fresh_draws


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
