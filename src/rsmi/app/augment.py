"""`rsmi augment`: a model and its training texts -> adversarial texts to train on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsmi.app.attack import AttackName, AttackSettings, DataName, MaxQueries, Together, attack_shown
from rsmi.app.exits import interruptible
from rsmi.app.options import (
    Backend,
    Device,
    Dtype,
    Json,
    LabelColumn,
    PairColumn,
    TextColumn,
    TokenBudget,
    Variant,
    check_free,
    parse_settings,
)
from rsmi.writing import write_text

if TYPE_CHECKING:
    from rsmi.attacks.base import Attack
    from rsmi.classifier import RsmiClassifier
    from rsmi.data import TextDataset
    from rsmi.records import Label, TextInput


def augment(
    data: DataName,
    model: Annotated[str, typer.Option("--model", help="The classifier to fool: a folder written by rsmi train.")],
    out: Annotated[Path, typer.Option("--out", help="JSONL file of the texts that fooled it, for rsmi train --added.")],
    attack_name: AttackName = "textfooler",
    num: Annotated[int, typer.Option("--num", min=1, help="Attack a random sample of this many texts.")] = 1000,
    sample_seed: Annotated[int, typer.Option("--sample-seed", help="Seed of that sample.")] = 0,
    split: Annotated[str, typer.Option("--split", help="Split of the data; never the one you test on.")] = "train",
    max_queries: MaxQueries = None,
    together: Together = None,
    more_settings: AttackSettings = None,
    variant: Variant = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the model's noise and the attack's draws.")] = 0,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    device: Device = None,
    dtype: Dtype = "float32",
    backend: Backend = "torch",
    token_budget: TokenBudget = None,
    as_json: Json = False,
) -> None:
    """Attack a model on training texts and keep what fooled it; an interrupted run goes on by itself."""
    from rsmi.attacks.catalogue import make_attack
    from rsmi.data import load_data
    from rsmi.errors import DataError
    from rsmi.opening import open_classifier

    check_free(out, resume=True)
    if out.exists() and not _records(out).exists():
        raise DataError(f"{out}: holds something else than adversarial texts of rsmi augment; choose another file")
    rows = load_data(data, split, text_column=text_column, pair_column=pair_column, label_column=label_column)
    sample = rows.take(min(num, len(rows)), sample_seed)
    classifier = open_classifier(
        model,
        variant,
        seed=seed,
        device=device,
        dtype=dtype,
        backend=backend,
        token_budget=token_budget,
        progress=False,
    )
    chosen = make_attack(attack_name, max_queries=max_queries, **parse_settings(more_settings))
    counts = write_adversarial(classifier, model, chosen, sample, out, seed, together)
    if as_json:
        typer.echo(json.dumps({"out": str(out), **counts}))
    else:
        typer.echo(f"{counts['added']} adversarial texts of {counts['attacked']} attacked are in {out}")


def write_adversarial(
    classifier: RsmiClassifier,
    name: str,
    attack: Attack,
    sample: TextDataset,
    out: Path,
    seed: int,
    together: int | None = None,
) -> dict[str, int]:
    """Attack `sample`, write the successes with their true labels to `out` and return the counts.

    All records go to a file beside it, from which an interrupted run goes on.
    """
    from rsmi.evaluation.protocols import as_it_is

    beside = _records(out)
    setup = as_it_is(classifier, attack)
    with interruptible(f"all records are in {beside}; the same command goes on from there"):
        records = list(attack_shown(classifier, name, setup, sample, beside, seed, together))
    fooled = [record for record in records if record.outcome == "succeeded"]
    lines = [
        json.dumps(_row(record.adversarial, record.label, sample.columns), ensure_ascii=False) for record in fooled
    ]
    write_text(out, "".join(line + "\n" for line in lines))
    return {
        "texts": len(records),
        "attacked": sum(record.outcome != "skipped" for record in records),
        "added": len(fooled),
        "queries": sum(record.queries for record in records),
    }


def _records(out: Path) -> Path:
    return out.with_name(out.name + ".records")


def _row(text: TextInput, label: Label, columns: tuple[str, ...]) -> dict[str, Any]:
    """Return a line that `load_data` reads back."""
    parts = (text,) if isinstance(text, str) else text
    names = columns or ("text", "text_pair")[: len(parts)]
    return {**dict(zip(names, parts, strict=True)), "label": label}
