"""Target x attack x data -> records in a JSONL file, one by one: an interrupted run goes on where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from rsmi.attacks.base import TOGETHER, Attack
from rsmi.classifier import RsmiClassifier
from rsmi.data import TextDataset
from rsmi.defense import Target
from rsmi.evaluation.recordfile import FORMAT, read_records, records_to_file
from rsmi.records import AttackRecord, Evidence, Prediction, TextInput

Explain: TypeAlias = Callable[[Sequence[TextInput]], Sequence[Prediction]]
"""Texts -> decisions with what is behind them: `RsmiClassifier.explain`."""


def describe_run(
    target: Target, attack: Attack, data: TextDataset, seed: int, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return everything that the records of a run depend on: the first line of its file."""
    return {
        "format": FORMAT,
        "attack": dict(attack.settings),
        "resources": dict(attack.resources),
        "data": {"name": data.name, "split": data.split, "source": data.source, "fingerprint": data.fingerprint},
        "num": len(data),
        "seed": seed,
        "randomised": target.randomised,
        "uses_gradients": target.uses_gradients,
        **more,
    }


def side_by_side(target: Target, wanted: int | None = None) -> int:
    """Return how many texts to attack at a time: as many as are wanted, else as suit the model.

    The questions of one search fill a CPU, and if no other text is in its batches, its record is the same to the last
    bit, whatever else was attacked or interrupted. A GPU, and a model far away, want more.
    """
    if wanted is not None:
        return wanted
    on_cpu = isinstance(target, RsmiClassifier) and target.engine().runner.device.type == "cpu"
    return 1 if on_cpu else TOGETHER


def attack_to_file(
    target: Target,
    attack: Attack,
    data: TextDataset,
    out: str | Path,
    *,
    seed: int = 0,
    together: int = TOGETHER,
    about: Mapping[str, Any] | None = None,
    deployed: Target | None = None,
    explain: Explain | None = None,
) -> Iterator[AttackRecord]:
    """Attack every text of `data`, append each record to `out` as it is done and yield it.

    Records that `out` holds already are yielded first and not made again. At the end the file is put in the order of
    the data, so that an interrupted run ends with the same file as an uninterrupted one, but for the last digits of
    scores.

    Args:
        target: What is attacked.
        attack: How.
        data: Texts and true labels.
        out: The JSONL file: a line about the run, then a line for each text.
        seed: For the attack's own draws.
        together: Texts attacked side by side; the records do not depend on it.
        about: More that identifies the run: the model, versions, the protocol.
        deployed: What is asked again about a success, where the attacker sees the target through something else.
        explain: Gives the evidence that records keep of texts that were attacked.

    Raises:
        DataError: If `out` holds another run, or a line that cannot be read.
    """

    def run(left: Sequence[int]) -> Iterator[tuple[int, AttackRecord]]:
        for place, record in attack.run(
            target,
            data.texts,
            data.labels,
            seed=seed,
            together=together,
            columns=data.columns,
            only=left,
            deployed=deployed,
        ):
            yield place, record if explain is None else with_evidence(record, explain)

    header = describe_run(target, attack, data, seed, about or {})
    yield from records_to_file(header, len(data), out, run, AttackRecord.from_dict)


def evidence_of(prediction: Prediction) -> Evidence:
    """Return what a record keeps of an explained decision."""
    votes = prediction.first_votes if prediction.second_votes is None else prediction.second_votes
    hidden = frozenset(prediction.masked)
    return Evidence(
        votes={str(label): count for label, count in votes.items()},
        tokens=tuple(
            (token.text, round(token.saliency, 6), place in hidden)
            for place, token in enumerate(prediction.tokens)
            if token.sequence >= 0
        ),
    )


def with_evidence(record: AttackRecord, explain: Explain) -> AttackRecord:
    """Return a record with what the defense saw of its texts."""
    if record.outcome == "skipped":
        return record
    before, after = explain([record.original, record.adversarial])
    return replace(record, evidence={"original": evidence_of(before), "adversarial": evidence_of(after)})


def read_run(path: str | Path) -> tuple[dict[str, Any], dict[int, AttackRecord]]:
    """Return the description of a run and its records by their place in the data.

    A last line that was cut off by a crash is left out.
    """
    return read_records(path, AttackRecord.from_dict)
