"""A short calibration on this machine -> what a whole run will take, of an attack or of predictions."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from rsmi.attacks.words import Words
from rsmi.data import TextDataset
from rsmi.errors import InputError
from rsmi.records import AttackRecord, TextInput
from rsmi.seeds import derive, generator

_Numbers: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
_RESAMPLES = 2000
_PART = 32  # texts classified at a time: their batches are as full as those of a long run


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run is expected to take; nothing in it but the calibration was run."""

    inputs: int
    """Texts of the whole run."""
    calibrated: int
    """Texts that were run to find out."""
    calibration_seconds: float
    seconds: float
    """Of the whole run, without the loading of models and lexicons."""
    low: float
    """Lower end of a 95 % interval of `seconds`, by resampling the texts of the calibration."""
    high: float
    """Upper end."""
    queries: float | None
    """Of the whole run; None where nothing is attacked."""
    peak_mib: float | None
    """Most memory the process held, model included; it does not grow with the number of texts. None on Windows."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


def plan_attack(
    run: Callable[[Sequence[int]], Iterable[tuple[int, AttackRecord]]], data: TextDataset, calibrate: int
) -> Plan:
    """Attack the first `calibrate` texts and tell what attacking all of `data` will take.

    Texts run side by side, so a text's own time is taken as its share, by queries and words, of the whole.

    Args:
        run: Attacks the texts at some places of `data`, such as `OpenJob.run`.
        data: The texts of the whole run.
        calibrate: How many of them to attack now.
    """
    part = _checked(data, calibrate)
    started = time.perf_counter()
    records = dict(run(range(part)))
    seconds = time.perf_counter() - started
    queries = np.array([records[place].queries for place in range(part)], dtype=float)
    words = _words(data.texts)
    costs = queries * words[:part]
    plan = _extrapolated(words, words[:part], costs * (seconds / costs.sum()), part)
    return replace(plan, queries=round(float(queries.sum() * words.sum() / words[:part].sum()), 1))


def plan_predictions(classify: Callable[[Sequence[TextInput]], object], data: TextDataset, calibrate: int) -> Plan:
    """Classify the first `calibrate` texts and tell what classifying all of `data` will take.

    They are timed some at a time: a text that goes on to step two takes several times as long as others, and how many
    of them there are is what the interval has to tell.
    """
    part = _checked(data, calibrate)
    classify(data.texts[:1])  # what is set up at the first call is not repeated
    starts = range(0, part, _PART)
    costs = [_timed(classify, data.texts[start : min(part, start + _PART)]) for start in starts]
    words = _words(data.texts)
    return _extrapolated(words, np.add.reduceat(words[:part], starts), np.array(costs), part)


def _timed(classify: Callable[[Sequence[TextInput]], object], texts: Sequence[TextInput]) -> float:
    started = time.perf_counter()
    classify(texts)
    return time.perf_counter() - started


def _checked(data: TextDataset, calibrate: int) -> int:
    if calibrate < 1 or len(data) == 0:
        raise InputError(f"expected texts and a calibration of 1 or more of them, got {calibrate} of {len(data)}")
    return min(calibrate, len(data))


def _words(texts: Sequence[TextInput]) -> _Numbers:
    return np.array([max(1, len(Words.of(text))) for text in texts], dtype=np.float64)


def _extrapolated(words: _Numbers, own_words: _Numbers, costs: _Numbers, calibrated: int) -> Plan:
    """Scale by words: what is left takes what a word took in the calibration, times its words.

    Args:
        words: Of every text of the run.
        own_words: Of each unit of the calibration, a text or some of them.
        costs: Seconds of each unit.
        calibrated: Texts in all of the units.
    """
    seconds, units = float(costs.sum()), len(costs)
    scale = words.sum() / own_words.sum()
    draws = torch.randint(units, (_RESAMPLES, units), generator=generator(derive("plan", units))).numpy()
    totals = words.sum() * costs[draws].sum(1) / own_words[draws].sum(1)
    left = 1 - calibrated / len(words)  # what was run is known
    low, high = (seconds * scale + left * (np.quantile(totals, q) - seconds * scale) for q in (0.025, 0.975))
    return Plan(
        inputs=len(words),
        calibrated=calibrated,
        calibration_seconds=round(seconds, 3),
        seconds=round(float(seconds * scale), 3),
        low=round(float(low), 3),
        high=round(float(high), 3),
        queries=None,
        peak_mib=_peak_mib(),
    )


def _peak_mib() -> float | None:
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)
