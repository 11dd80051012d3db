"""Runs on one sample -> every number of a report."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, TypeVar

from rsmi.evaluation.robustness import Robustness, Share
from rsmi.evaluation.runs import Comparison, Run, mcnemar, share_of, worst_case
from rsmi.records import AttackRecord
from rsmi.report.curves import Curve, Reliability, against_queries, against_words, success_by_tries
from rsmi.report.naming import protocol_order

WORST = "worst case"
_Z = 1.959963984540054  # 95 % of a normal distribution
_T = TypeVar("_T")


def wilson(value: float, total: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share that need not be a whole number of inputs."""
    if not total:
        return 0.0, 1.0
    weight = _Z**2 / total
    middle = (value + weight / 2) / (1 + weight)
    half = _Z * math.sqrt(value * (1 - value) / total + weight / (4 * total)) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True, slots=True, kw_only=True)
class Average:
    """A mean of shares of the same inputs, with the Wilson interval of as many inputs.

    A mean over several attacks varies less than one share of as many inputs, so the interval is never too narrow.
    """

    value: float
    total: int

    @classmethod
    def of(cls, shares: Iterable[Share]) -> Average:
        """Average shares of something."""
        counted = [share for share in shares if share.total]
        value = sum(share.value for share in counted) / len(counted) if counted else math.nan
        return cls(value=value, total=min((share.total for share in counted), default=0))

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the interval."""
        return wilson(self.value, self.total)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        low, high = self.interval
        return {"value": self.value if self.total else None, "total": self.total, "low": low, "high": high}


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrawn:
    """What the successes against a randomised target are worth on fresh draws."""

    first_draw: Share
    """Attacked inputs that were fooled on the draw that the attacker saw (ASR)."""
    mean_flips: Average
    """How often such a success fools again, on average over successes."""
    majority: Share
    """Successes that fool on most fresh draws."""
    robust_by_majority: Share
    """Robust accuracy (RAcc) if only these count as successes."""

    @classmethod
    def of(cls, records: Sequence[AttackRecord]) -> Redrawn | None:
        """Count; None where no success was asked about again."""
        counted = Robustness.of(records)
        again = [record for record in records if record.outcome == "succeeded" and record.fresh_draws]
        if not again:
            return None
        flips = (Share(count=record.fresh_flips, total=record.fresh_draws) for record in again)
        kept = counted.robust_accuracy.count + len(again) - counted.majority_flips
        return cls(
            first_draw=counted.attack_success,
            mean_flips=Average(value=sum(share.value for share in flips) / len(again), total=len(again)),
            majority=Share(count=counted.majority_flips, total=len(again)),
            robust_by_majority=Share(count=kept, total=len(records)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNumbers:
    """One model under one attack and protocol."""

    place: int
    """Of the run among all runs of the report."""
    model: str
    attack: str
    protocol: str
    robustness: Robustness
    redrawn: Redrawn | None
    queries: Curve
    words: Curve
    tries: tuple[Share, ...]
    reliability: Reliability | None
    classes: tuple[tuple[str, Robustness], ...]
    survived: tuple[bool, ...]

    @classmethod
    def of(cls, place: int, run: Run, protocol: str) -> RunNumbers:
        """Compute all of them; `protocol` is the name that sets the run apart."""
        return cls(
            place=place,
            model=run.model,
            attack=run.attack,
            protocol=protocol,
            robustness=run.robustness,
            redrawn=Redrawn.of(run.records),
            queries=against_queries(run.records),
            words=against_words(run.records),
            tries=success_by_tries(run.records),
            reliability=Reliability.of(run.records),
            classes=by_class(run.records),
            survived=run.survived,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackAverage:
    """One model under one protocol, averaged over attacks."""

    model: str
    protocol: str
    attacks: tuple[str, ...]
    accuracy: Average
    robust_accuracy: Average
    attack_success: Average
    queries: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolNumbers:
    """What of one model survives every attack of one protocol, or of all of them."""

    model: str
    protocol: str
    attacks: tuple[str, ...]
    joint: Share
    """Inputs that survive every one of these attacks."""
    change: float | None
    """How far that lies from the same under `paper`; None where the model was not attacked so."""
    survived: tuple[bool, ...]
    by_majority: Share
    """The same where a success counts only if it fools on most fresh draws; all do if the model is not random."""
    survived_by_majority: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """Two models on the same inputs, under the same attack and protocol."""

    attack: str
    protocol: str
    first: str
    second: str
    result: Comparison
    adjusted: float
    """The p-value times what Holm's method asks for, with all tests on this sample."""


def by_class(records: Sequence[AttackRecord]) -> tuple[tuple[str, Robustness], ...]:
    """Return the numbers of each true class, in the order of their names."""
    groups: dict[str, list[AttackRecord]] = {}
    for record in records:
        groups.setdefault(str(record.label), []).append(record)
    return tuple((label, Robustness.of(groups[label])) for label in sorted(groups))


def average_attacks(runs: Sequence[RunNumbers]) -> tuple[AttackAverage, ...]:
    """Average each model over the attacks of each protocol, where there are several."""
    found = []
    for protocol in protocols_of(runs):
        for model in unique(run.model for run in runs):
            own = [run for run in runs if (run.model, run.protocol) == (model, protocol)]
            if len(own) < 2:
                continue
            spent = [run.robustness.queries for run in own if not math.isnan(run.robustness.queries)]
            found.append(
                AttackAverage(
                    model=model,
                    protocol=protocol,
                    attacks=tuple(run.attack for run in own),
                    accuracy=Average.of(run.robustness.accuracy for run in own),
                    robust_accuracy=Average.of(run.robustness.robust_accuracy for run in own),
                    attack_success=Average.of(run.robustness.attack_success for run in own),
                    queries=sum(spent) / len(spent) if spent else math.nan,
                )
            )
    return tuple(found)


def compare_protocols(runs: Sequence[Run], names: Sequence[str]) -> tuple[ProtocolNumbers, ...]:
    """Return what survives each protocol and all of them together, model by model."""
    found = []
    for model in unique(run.model for run in runs):
        own = [(run, name) for run, name in zip(runs, names, strict=True) if run.model == model]
        base = _joint([run for run, _ in own if run.protocol == "paper"])
        for name in sorted(unique(name for _, name in own), key=protocol_order):
            found.append(_protocol_numbers(name, [run for run, other in own if other == name], base))
        found.append(_protocol_numbers(WORST, [run for run, _ in own], base))
    return tuple(found)


def _protocol_numbers(name: str, runs: list[Run], base: Share | None) -> ProtocolNumbers:
    survived, by_majority = worst_case(runs), worst_case(runs, by_majority=True)
    joint = share_of(survived)
    return ProtocolNumbers(
        model=runs[0].model,
        protocol=name,
        attacks=tuple(unique(run.attack for run in runs)),
        joint=joint,
        change=None if base is None else joint.value - base.value,
        survived=survived,
        by_majority=share_of(by_majority),
        survived_by_majority=by_majority,
    )


def _joint(runs: list[Run]) -> Share | None:
    return share_of(worst_case(runs)) if runs else None


def compare_models(
    runs: Sequence[RunNumbers], protocols: Sequence[ProtocolNumbers], spared: Collection[str] = ()
) -> tuple[PairedTest, ...]:
    """Test every two models on what each attack left standing, and on the worst case unless one was `spared`."""
    pairs: list[tuple[str, str, str, str, Comparison]] = []
    for protocol in protocols_of(runs):
        for attack in unique(run.attack for run in runs if run.protocol == protocol):
            own = [run for run in runs if (run.attack, run.protocol) == (attack, protocol)]
            for one, other in combinations(own, 2):
                pairs.append((attack, protocol, one.model, other.model, mcnemar(one.survived, other.survived)))
    several = len({(run.attack, run.protocol) for run in runs}) > 1  # otherwise it is the test above
    worst = [each for each in protocols if each.protocol == WORST and each.model not in spared]
    for first, second in combinations(worst if several else (), 2):
        names = first.model, second.model
        pairs.append(("all", WORST, *names, mcnemar(first.survived, second.survived)))
        if any(run.redrawn for run in runs):
            compared = mcnemar(first.survived_by_majority, second.survived_by_majority)
            pairs.append(("all", f"{WORST}, by majority", *names, compared))
    adjusted = holm([result.p_value for *_, result in pairs])
    return tuple(
        PairedTest(attack=attack, protocol=protocol, first=first, second=second, result=result, adjusted=value)
        for (attack, protocol, first, second, result), value in zip(pairs, adjusted, strict=True)
    )


def holm(values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number: the smallest is multiplied by it, the next by one less, and so on."""
    adjusted, highest = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=lambda place: values[place])):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = highest
    return adjusted


def protocols_of(runs: Sequence[RunNumbers]) -> list[str]:
    """Return the names of the protocols in the order of the design."""
    return sorted(unique(run.protocol for run in runs), key=protocol_order)


def unique(values: Iterable[_T]) -> list[_T]:
    """Return the values without repetitions, in their order."""
    return list(dict.fromkeys(values))


def plain(value: Any) -> Any:
    """Turn dataclasses of numbers into what JSON can hold."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Comparison):
        return asdict(value)
    if hasattr(value, "__dataclass_fields__"):
        return {
            name: plain(getattr(value, name)) for name in value.__dataclass_fields__ if not name.startswith("survived")
        }
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value
