"""Numbers of an attack and thresholds -> passed or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from rsmi.errors import ConfigError
from rsmi.evaluation.robustness import Robustness, Share

_SHARES: Final = {
    "min_robust_accuracy": "robust_accuracy",
    "min_accuracy": "accuracy",
    "max_success_rate": "attack_success",
}
"""Each threshold and the number that it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A number and the threshold it was held against."""

    threshold: str
    """Its name: `min_robust_accuracy`, `min_accuracy` or `max_success_rate`."""
    limit: float
    share: Share
    """The number, with its 95 % Wilson interval."""
    sure: bool
    """Whether the end of the interval on the cautious side was compared, not the number itself."""

    @property
    def at_least(self) -> bool:
        """Whether the number may not be lower; else it may not be higher."""
        return self.threshold.startswith("min_")

    @property
    def compared(self) -> float:
        """What was compared; not a number where nothing was counted, which is never enough."""
        low, high = self.share.interval
        if not self.sure:
            return self.share.value
        return low if self.at_least else high

    @property
    def passed(self) -> bool:
        """Whether the threshold holds."""
        return self.compared >= self.limit if self.at_least else self.compared <= self.limit

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        compared = self.compared if self.sure or self.share.total else None
        own = {"threshold": self.threshold, "limit": self.limit, "compared": compared, "passed": self.passed}
        return {**own, **self.share.to_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What a model must reach under an attack; shares from 0 to 1, None for what does not matter."""

    min_robust_accuracy: float | None = None
    """Right answers under attack, of all texts."""
    min_accuracy: float | None = None
    """Right answers before it."""
    max_success_rate: float | None = None
    """Successes of the attack, of the texts that were answered right before it."""
    sure: bool = False
    """Compare the end of the 95 % interval on the cautious side: the lower one with a minimum, the upper one with a
    maximum."""

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in _SHARES if getattr(self, name) is not None}
        if not given:
            raise ConfigError(f"expected at least one of {', '.join(_SHARES)}, got none")
        for name, value in given.items():
            if not 0 <= value <= 1:
                raise ConfigError(f"{name}: expected a share from 0 to 1, got {value}")

    def judge(self, result: Robustness) -> tuple[Check, ...]:
        """Hold the numbers of a run against every threshold."""
        return tuple(
            Check(threshold=name, limit=getattr(self, name), share=getattr(result, share), sure=self.sure)
            for name, share in _SHARES.items()
            if getattr(self, name) is not None
        )
