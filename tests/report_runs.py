"""Runs whose numbers are known by hand: outcomes are written as letters, s(ucceeded), f(ailed), - (skipped)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rsmi.evaluation.runs import Run
from rsmi.records import AttackRecord, Evidence, TextInput
from toy import FAILED

OUTCOMES = {"s": "succeeded", "f": "failed", "-": "skipped"}
BEFORE = (("a", 0.0, False), ("good", 2.0, True), ("film", 1.0, False))
AFTER = (("a", 0.5, False), ("bad", 1.0, False), ("film", 0.0, False))
EVIDENCE = {
    "original": Evidence(votes={"neg": 1, "pos": 4}, tokens=BEFORE),
    "adversarial": Evidence(votes={"neg": 5, "pos": 0}, tokens=AFTER),
}


def record(outcome: str, place: int = 0, **changes: Any) -> AttackRecord:
    """A record of input `place`; a success changes one word of four and takes 10 queries."""
    label = "pos" if place % 2 == 0 else "neg"
    other = "neg" if label == "pos" else "pos"
    text: TextInput = f"a good film {place}"
    return replace(
        FAILED,
        **{
            "original": text,
            "adversarial": text if outcome == "-" else f"a bad film {place}",
            "label": label,
            "outcome": OUTCOMES[outcome],
            "label_before": other if outcome == "-" else label,
            "label_after": label if outcome == "f" else other,
            "queries": 1 if outcome == "-" else 10,
            "num_words": 4,
            "words_changed": 0 if outcome == "-" else 1,
            **changes,
        },
    )


def run(
    outcomes: str,
    *,
    model: str = "plain",
    attack: str = "textfooler",
    protocol: str = "paper",
    data: str = "toy",
    records: Sequence[AttackRecord] | None = None,
    **header: Any,
) -> Run:
    """A run with one record for each letter."""
    own = tuple(records if records is not None else (record(letter, place) for place, letter in enumerate(outcomes)))
    about = {
        "format": 1,
        "attack": {"name": attack, "max_queries": None},
        "resources": {},
        "data": {"name": data, "split": "test", "source": "a test", "fingerprint": f"{data}-{len(own)}"},
        "num": len(own),
        "seed": 0,
        "randomised": False,
        "uses_gradients": False,
        "model": {
            "name": model,
            "fingerprint": f"weights of {model}",
            "config": {"num_masks": 1, "aggregation": "vote"},
        },
        "protocol": {"label": protocol},
        "model_seed": 0,
        "versions": {"rsmi": "0.1.0"},
        **header,
    }
    return Run(f"{model}-{attack}-{protocol}.jsonl", about, own)


def write(own: Run, folder: Path) -> Path:
    """Write a run as `rsmi attack` does."""
    lines = [{"run": own.header}, *({"place": place, **each.to_dict()} for place, each in enumerate(own.records))]
    path = folder / own.source
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def suite() -> list[Run]:
    """Two models, two attacks, three protocols, eight inputs."""
    flips, tries = (4, 1, 0, 0, 0, 0, 0, 0), (1, 3, 2, 5, 1, 5, 5, 5)
    redrawn = [
        record(letter, place, fresh_draws=4 if letter == "s" else 0, fresh_flips=flips[place], confidence_before=0.85)
        for place, letter in enumerate("ssff-fff")
    ]
    tried = [record(letter, place, tries=tries[place]) for place, letter in enumerate("sssf-fff")]
    shown = [replace(each, evidence=EVIDENCE, confidence_before=0.95) for each in run("ssffffff").records]
    noisy = {"model": "noisy", "randomised": True, "uses_gradients": True}
    return [
        run("ssssss--", model="plain"),
        run("ssssff--", model="plain", attack="pwws"),
        run("", records=redrawn, **noisy),
        run("fssf-fff", attack="pwws", **noisy),
        run("sssf-fff", protocol="eot-20", **noisy),
        run("", records=tried, protocol="persistent", **noisy),
        run("", records=shown, protocol="vote", **noisy),
    ]
