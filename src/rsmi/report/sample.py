"""Runs -> the numbers of each sample of inputs, and what forbids to compare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rsmi.evaluation.runs import Run
from rsmi.report.coverage import spared
from rsmi.report.naming import name_protocols
from rsmi.report.numbers import (
    AttackAverage,
    PairedTest,
    ProtocolNumbers,
    RunNumbers,
    average_attacks,
    compare_models,
    compare_protocols,
    plain,
    unique,
)

_FEW = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """All runs on the same inputs."""

    data: str
    split: str
    source: str
    fingerprint: str
    total: int
    title: str
    """Data set, split and n, with the fingerprint where another sample is called the same."""
    runs: tuple[RunNumbers, ...]
    averages: tuple[AttackAverage, ...]
    protocols: tuple[ProtocolNumbers, ...]
    comparisons: tuple[PairedTest, ...]
    spared: dict[str, list[str]]
    """Models that were not attacked in every way in which others were, and these ways."""

    @property
    def models(self) -> list[str]:
        """Names of the models, in the order given."""
        return unique(run.model for run in self.runs)

    @property
    def attacks(self) -> list[str]:
        """Names of the attacks, in the order given."""
        return unique(run.attack for run in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}


def split_samples(runs: Sequence[Run]) -> tuple[Sample, ...]:
    """Group runs by their inputs and compute the numbers of each group."""
    names = name_protocols(runs)
    keys = [(run.data, run.inputs) for run in runs]
    titles = {key: _title(runs[keys.index(key)]) for key in unique(keys)}
    samples = []
    for key in unique(keys):
        places = [place for place, other in enumerate(keys) if other == key]
        own = [runs[place] for place in places]
        counted = tuple(RunNumbers.of(place, runs[place], names[place]) for place in places)
        own_names = [names[place] for place in places]
        protocols = compare_protocols(own, own_names)
        uneven = spared(own, own_names)
        title, about = titles[key], own[0].header["data"]
        if list(titles.values()).count(title) > 1:
            title = f"{title}, sample {key[1][0][:6]}"
        samples.append(
            Sample(
                data=own[0].data,
                split=str(about.get("split", "")),
                source=str(about.get("source", "")),
                fingerprint=key[1][0],
                total=key[1][1],
                title=title,
                runs=counted,
                averages=average_attacks(counted),
                protocols=protocols,
                comparisons=compare_models(counted, protocols, uneven),
                spared=uneven,
            )
        )
    return tuple(samples)


def _title(run: Run) -> str:
    split = run.header["data"].get("split")
    return f"{run.data}{f' {split}' if split else ''}, n = {len(run.records)}"


def doubts(runs: Sequence[Run], samples: Sequence[Sample]) -> list[str]:
    """Return what forbids to compare some of these runs: few inputs, other settings, other attacks, other versions."""
    found = []
    for sample in samples:
        if sample.total < _FEW:
            found.append(f"{sample.title}: fewer than {_FEW} inputs are too few to rank models")
        for model, ways in sample.spared.items():
            found.append(
                f"{sample.title}: {model} was spared {', '.join(ways)}; its worst case and averages cannot be compared "
                "with those of other models"
            )
        for attack, protocol in unique((run.attack, run.protocol) for run in sample.runs):
            own = [runs[run.place] for run in sample.runs if (run.attack, run.protocol) == (attack, protocol)]
            differing = _differing([run.header["attack"] for run in own])
            differing += _differing([run.header.get("resources", {}) for run in own])
            if differing:
                found.append(
                    f"{sample.title}, {attack}, {protocol}: other {', '.join(differing)} for other models; "
                    "their numbers cannot be compared"
                )
    versions = _differing([run.header.get("versions", {}) for run in runs])
    if versions:
        found.append(f"the runs were made with different versions of {', '.join(versions)}")
    return found


def _differing(settings: Sequence[dict[str, Any]]) -> list[str]:
    names = unique(name for own in settings for name in own)
    return [name for name in names if any(own.get(name) != settings[0].get(name) for own in settings)]
