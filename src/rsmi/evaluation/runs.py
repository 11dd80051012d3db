"""Runs read from their files: which can be compared, what survives all of them, who is better on the same inputs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from rsmi.errors import DataError
from rsmi.evaluation.attacking import read_run
from rsmi.evaluation.recordfile import check_complete, read_header
from rsmi.evaluation.robustness import Robustness, Share, flips_majority
from rsmi.records import AttackRecord


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One model attacked in one way on one sample: a file of records."""

    source: str
    """Where it was read from."""
    header: dict[str, Any]
    """The first line of the file: see `describe_run`."""
    records: tuple[AttackRecord, ...]
    """In the order of the sample."""

    @classmethod
    def read(cls, path: str | Path) -> Run:
        """Read a finished run.

        Raises:
            DataError: If a line cannot be read, or records are missing: the run was interrupted.
        """
        header = read_header(path)
        if not isinstance(header.get("num"), int) or "attack" not in header:
            found = "certificates" if "certify" in header else "something else"
            raise DataError(f"{path}, line 1: expected a run of rsmi attack, got {found}; pass another file")
        _, records = read_run(path)
        check_complete(path, header["num"], records, "rsmi attack")
        return cls(str(path), header, tuple(records[place] for place in sorted(records)))

    @property
    def _about_model(self) -> dict[str, Any]:
        about = self.header.get("model", {})
        return about if isinstance(about, dict) else {"name": about}

    def called(self, name: str) -> Run:
        """Return the run with another name for its model."""
        return replace(self, header={**self.header, "model": {**self._about_model, "name": name}})

    @property
    def model(self) -> str:
        """Name of the model."""
        return str(self._about_model.get("name", "model"))

    @property
    def fingerprint(self) -> str:
        """What identifies the weights."""
        return str(self._about_model.get("fingerprint", ""))

    @property
    def note(self) -> str:
        """What must be known about a model that is not ours; empty for the others."""
        return str(self._about_model.get("note", ""))

    @property
    def identity(self) -> str:
        """What makes two runs runs of one model: weights, settings and backend; how copies are counted may differ."""
        config = {k: v for k, v in self._about_model.get("config", {}).items() if k != "aggregation"}
        return json.dumps([self.fingerprint, config, self.header.get("backend")], sort_keys=True)

    @property
    def attack(self) -> str:
        """Name of the attack."""
        return str(self.header["attack"]["name"])

    @property
    def protocol(self) -> str:
        """Name of the protocol, with its number where it has one: `eot-20`."""
        return str(self.header.get("protocol", {}).get("label", "paper"))

    @property
    def data(self) -> str:
        """Name of the data set."""
        return str(self.header["data"]["name"])

    @property
    def inputs(self) -> tuple[str, int]:
        """What two runs must share to be compared: the sample."""
        return str(self.header["data"]["fingerprint"]), len(self.records)

    @property
    def robustness(self) -> Robustness:
        """The paper's numbers."""
        return Robustness.of(self.records)

    @property
    def survived(self) -> tuple[bool, ...]:
        """Whether each input was answered right before and after the attack."""
        return tuple(record.outcome == "failed" for record in self.records)

    @property
    def survived_by_majority(self) -> tuple[bool, ...]:
        """The same where a success counts only if it fools on most fresh draws, or was not asked about again."""
        return tuple(
            record.outcome == "failed" or (record.outcome == "succeeded" and not flips_majority(record))
            for record in self.records
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two models attacked on the same inputs."""

    only_first: int
    """Inputs that only the first one got right under attack."""
    only_second: int
    """Inputs that only the second one got right."""
    p_value: float
    """Exact McNemar test: how likely so uneven a split of these inputs is if neither is better."""


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> Comparison:
    """Compare what survived in two runs on the same inputs."""
    if len(first) != len(second):
        raise DataError(f"expected two runs on the same inputs, got {len(first)} and {len(second)} of them")
    only_first = sum(one and not other for one, other in zip(first, second, strict=True))
    only_second = sum(other and not one for one, other in zip(first, second, strict=True))
    either = only_first + only_second
    p_value = float(binomtest(only_first, either, 0.5).pvalue) if either else 1.0
    return Comparison(only_first=only_first, only_second=only_second, p_value=p_value)


def worst_case(runs: Iterable[Run], *, by_majority: bool = False) -> tuple[bool, ...]:
    """Whether each input survived every one of the runs, which must be of one model on one sample.

    Args:
        runs: The runs.
        by_majority: Whether successes count only if they fool on most fresh draws.
    """
    runs = list(runs)
    if not runs:
        raise DataError("expected at least one run, got none")
    others = [run.source for run in runs if (run.identity, run.inputs) != (runs[0].identity, runs[0].inputs)]
    if others:
        raise DataError(f"{others[0]}: expected the same model and sample as in {runs[0].source}, got others")
    survived = (run.survived_by_majority if by_majority else run.survived for run in runs)
    return tuple(all(each) for each in zip(*survived, strict=True))


def share_of(survived: Sequence[bool]) -> Share:
    """Count what survived."""
    return Share(count=sum(survived), total=len(survived))


def cautions(runs: Sequence[Run]) -> list[str]:
    """Return what a reader of these runs must know before he believes a number.

    The checks of the evaluation design: a randomised victim, gradients at inference, one-hot scores, a fixed noise that
    was not easier than fresh noise, a transfer that beat the white-box attack, a budget that was hit.
    """
    found: list[str] = []
    for model, identity in dict.fromkeys((run.model, run.identity) for run in runs):
        found += _cautions_of(model, [run for run in runs if (run.model, run.identity) == (model, identity)])
    return found


def _cautions_of(model: str, runs: Sequence[Run]) -> list[str]:
    found = []
    protocols = {run.protocol.split("-")[0] for run in runs} | {run.protocol for run in runs}
    if any(run.header.get("randomised") for run in runs):
        found.append(
            f"{model}: its answers are random; a success on the draw that the attacker saw may fail on the next one, "
            "and a failure succeed"
        )
        missing = [name for name in ("eot", "fixed-noise", "transfer", "persistent") if name not in protocols]
        if missing:
            found.append(f"{model}: not attacked under {', '.join(missing)}; its robustness may be overstated")
    if any(run.header.get("uses_gradients") for run in runs) and "white-box" not in protocols:
        found.append(f"{model}: takes gradients at inference and was not attacked by a white-box attack")
    found += dict.fromkeys(f"{model}: {run.note}" for run in runs if run.note)
    for run in runs:
        hit = run.robustness.budget_hit
        if hit:
            found.append(f"{model}, {run.attack}, {run.protocol}: {hit} attacks failed because their queries ran out")
        if _one_hot(run):
            found.append(f"{model}, {run.attack}, {run.protocol}: scores are one-hot, which blinds attacks that climb")
    found += _harder(model, runs, "fixed-noise", "eot", "frozen noise was harder than fresh noise: the attack is weak")
    found += _harder(model, runs, "white-box", "transfer", "a transfer beat the white-box attack: gradients are masked")
    return found


def _one_hot(run: Run) -> bool:
    scores = [score for record in run.records for score in (record.gold_before, record.gold_after)]
    return all(score in (0.0, 1.0) for score in scores)


def _harder(model: str, runs: Sequence[Run], easy: str, hard: str, saying: str) -> list[str]:
    """Say so where a protocol that must be easier left more inputs standing, beyond chance."""
    found = []
    for one in runs:
        for other in runs:
            same = one.inputs == other.inputs and (one.attack == other.attack or easy == "white-box")
            if not (same and one.protocol.startswith(easy) and other.protocol.startswith(hard)):
                continue
            compared = mcnemar(one.survived, other.survived)
            if compared.only_first > compared.only_second and compared.p_value < 0.05:
                found.append(
                    f"{model}, {one.attack}: {saying} ({compared.only_first} against {compared.only_second} inputs, "
                    f"p = {compared.p_value:.3f})"
                )
    return found
