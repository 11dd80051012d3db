"""Runs -> the attacked examples that a page holds, each text once, with the places of the changed words."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from typing import Any

from rsmi.attacks.words import Words
from rsmi.evaluation.runs import Run
from rsmi.records import AttackRecord, Evidence, TextInput
from rsmi.report.sample import Sample

Spans = list[list[int]]
"""First character of each changed stretch, and one past its last."""


def example_data(runs: Sequence[Run], samples: Sequence[Sample], max_examples: int | None) -> dict[str, Any]:
    """Return what the browser of examples needs, ready for JSON.

    Args:
        runs: All runs of a report.
        samples: Their numbers, which name them.
        max_examples: Examples of each run, the first ones; None for all.
    """
    names: dict[int, dict[str, str]] = {}
    for sample in samples:
        for run in sample.runs:
            own = {"data": sample.title, "model": run.model, "attack": run.attack, "protocol": run.protocol}
            names[run.place] = own
    texts: dict[TextInput, int] = {}
    examples = [
        _example(place, number, record, texts)
        for place, run in enumerate(runs)
        for number, record in enumerate(run.records[:max_examples])
    ]
    return {
        "runs": [names[place] for place in range(len(runs))],
        "texts": [_text(Words.of(text)) for text in texts],
        "examples": examples,
        "left_out": sum(len(run.records) for run in runs) - len(examples),
    }


def _text(words: Words) -> list[str | int]:
    """Return a text, or a pair joined by a line break and where that stands."""
    return [words.joined] if words.boundary is None else [words.joined, words.boundary]


def _example(run: int, place: int, record: AttackRecord, texts: dict[TextInput, int]) -> dict[str, Any]:
    before, after = changed_spans(record.original, record.adversarial)
    values: dict[str, Any] = {
        "run": run,
        "place": place,
        "outcome": record.outcome,
        "original": texts.setdefault(record.original, len(texts)),
        "adversarial": texts.setdefault(record.adversarial, len(texts)),
        "removed": before,
        "added": after,
        "label": str(record.label),
        "before": str(record.label_before),
        "after": str(record.label_after),
        "gold": [_rounded(record.gold_before), _rounded(record.gold_after)],
        "queries": record.queries,
        "words": [record.words_changed, record.num_words],
        "fresh": [record.fresh_flips, record.fresh_draws],
        "tries": record.tries,
        "budget_hit": record.budget_hit,
    }
    if record.evidence:
        values["evidence"] = {name: _evidence(own) for name, own in record.evidence.items()}
    return values


def _evidence(evidence: Evidence) -> dict[str, Any]:
    """Return votes, and tokens with their saliency in % of the largest one."""
    largest = max((saliency for _, saliency, _ in evidence.tokens), default=0.0) or 1.0
    tokens = [[text, round(100 * saliency / largest), int(hidden)] for text, saliency, hidden in evidence.tokens]
    return {"votes": evidence.votes, "tokens": tokens}


def _rounded(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None


def changed_spans(original: TextInput, adversarial: TextInput) -> tuple[Spans, Spans]:
    """Return the stretches of changed words in both texts (of a pair: in both joined by a line break)."""
    if original == adversarial:
        return [], []
    before, after = Words.of(original), Words.of(adversarial)
    removed: Spans = []
    added: Spans = []
    for first, last, start, stop in _changed(before.words, after.words):
        if last > first:
            removed.append([before.span(first)[0], before.span(last - 1)[1]])
        if stop > start:
            added.append([after.span(start)[0], after.span(stop - 1)[1]])
    return removed, added


def _changed(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the places of words that differ; word by word where their number is the same, as they are counted."""
    if len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        yield from ((place, place + 1, place, place + 1) for place, (one, other) in pairs if one != other)
        return
    for kind, first, last, start, stop in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            yield first, last, start, stop
