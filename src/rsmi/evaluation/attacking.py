"""Target x attack x data -> records in a JSONL file, one by one: an interrupted run goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from rsmi.attacks.base import TOGETHER, Attack
from rsmi.data import TextDataset
from rsmi.defense import Target
from rsmi.errors import DataError
from rsmi.records import AttackRecord, Evidence, Prediction, TextInput
from rsmi.writing import write_text

_FORMAT = 1

Explain: TypeAlias = Callable[[Sequence[TextInput]], Sequence[Prediction]]
"""Texts -> decisions with what is behind them: `RsmiClassifier.explain`."""
Placed: TypeAlias = tuple[int, AttackRecord]
"""A record and the place of its text in the sample."""


def describe_run(
    target: Target, attack: Attack, data: TextDataset, seed: int, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return everything that the records of a run depend on: the first line of its file."""
    return {
        "format": _FORMAT,
        "attack": dict(attack.settings),
        "resources": dict(attack.resources),
        "data": {"name": data.name, "split": data.split, "source": data.source, "fingerprint": data.fingerprint},
        "num": len(data),
        "seed": seed,
        "randomised": target.randomised,
        "uses_gradients": target.uses_gradients,
        **more,
    }


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

    yield from records_to_file(describe_run(target, attack, data, seed, about or {}), len(data), out, run)


def records_to_file(
    about: Mapping[str, Any], num: int, out: str | Path, run: Callable[[Sequence[int]], Iterator[Placed]]
) -> Iterator[AttackRecord]:
    """Append the records of a run to a file as they are made and yield them; see `attack_to_file`.

    Args:
        about: What the records depend on: see `describe_run`.
        num: Texts of the run.
        out: The file.
        run: Attacks the texts at the places it is given, in any order.
    """
    path = Path(out)
    header = json.loads(json.dumps(about))
    done = _begin(path, header)
    yield from (done[place] for place in sorted(done))
    with path.open("a", encoding="utf-8") as file:
        for place, record in run([place for place in range(num) if place not in done]):
            file.write(_line({"place": place, **record.to_dict()}))
            file.flush()
            done[place] = record
            yield record
    lines = [_line({"run": header})] + [_line({"place": place, **done[place].to_dict()}) for place in sorted(done)]
    write_text(path, "".join(lines))


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
    header, records, _ = _read(Path(path))
    return header, records


def _begin(path: Path, header: dict[str, Any]) -> dict[int, AttackRecord]:
    if not path.exists() or path.stat().st_size == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, _line({"run": header}))
        return {}
    found, records, complete = _read(path)
    differing = [name for name in {**found, **header} if found.get(name) != header.get(name)]
    if differing:
        raise DataError(
            f"{path}: holds another run (other {', '.join(sorted(differing))}); choose another file, or remove this one"
        )
    with path.open("r+b") as file:
        file.truncate(complete)
    return records


def _read(path: Path) -> tuple[dict[str, Any], dict[int, AttackRecord], int]:
    """Return header, records and the length of the complete lines in bytes."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot read the records of a run: {error}") from error
    complete = raw.rfind(b"\n") + 1
    header: dict[str, Any] | None = None
    records = {}
    for number, line in enumerate(raw[:complete].splitlines(), 1):
        try:
            values = json.loads(line)
            if number == 1:
                header = values["run"]
                _check_format(path, header["format"])
            else:
                place = values.pop("place")
                records[place] = AttackRecord.from_dict(values)
        except DataError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}, line {number}: expected {'the description of a run' if number == 1 else 'a record'} as "
                f"rsmi attack writes it, got {line[:60]!r} ({type(error).__name__}); remove the line or the file"
            ) from error
    if header is None:
        raise DataError(f"{path}: expected a line about the run, got none; remove the file and start again")
    return header, records, complete


def _check_format(path: Path, found: object) -> None:
    if found != _FORMAT:
        raise DataError(
            f"{path}, line 1: expected records of format {_FORMAT}, got format {found!r}; read them with the version "
            "of rsmi that wrote them"
        )


def _line(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"
