"""`rsmi attack`: a model and labelled texts -> a record of every attempt to fool it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsmi.app.options import Backend, Device, Dtype, Json, LabelColumn, PairColumn, TextColumn, TokenBudget, Variant

if TYPE_CHECKING:
    from rsmi.attacks.base import Attack
    from rsmi.classifier import RsmiClassifier
    from rsmi.data import TextDataset
    from rsmi.records import AttackRecord

AttackName = Annotated[
    str,
    typer.Option(
        "--attack",
        help="textfooler, pwws, bae, deepwordbug, bertattack, hotflip, gbda, or textattack:RECIPE.",
    ),
]
MaxQueries = Annotated[int | None, typer.Option("--max-queries", min=1, help="Most questions about one text.")]
Together = Annotated[int, typer.Option("--together", min=1, help="Texts attacked side by side; same results.")]
AttackSettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of the attack; repeatable."),
]


def attack(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder written by rsmi train, or any checkpoint.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="mr, imdb, a CSV/TSV/JSONL/Parquet file, or a hub id.")],
    out: Annotated[Path, typer.Option("--out", help="JSONL file of the records.")],
    attack_name: AttackName = "textfooler",
    num: Annotated[int, typer.Option("--num", min=1, help="Attack a random sample of this many texts.")] = 100,
    sample_seed: Annotated[int, typer.Option("--sample-seed", help="Seed of that sample.")] = 0,
    split: Annotated[str, typer.Option("--split", help="Split of the data: test, dev, train or all.")] = "test",
    max_queries: MaxQueries = None,
    together: Together = 16,
    more_settings: AttackSettings = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
    variant: Variant = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the model's noise (one draw a text) and the attack's.")] = 0,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    device: Device = None,
    dtype: Dtype = "float32",
    backend: Backend = "torch",
    token_budget: TokenBudget = None,
    as_json: Json = False,
) -> None:
    """Attack a model on labelled texts and tell how often it was fooled."""
    from rsmi.app.loading import open_model
    from rsmi.data import load_data
    from rsmi.errors import DataError
    from rsmi.evaluation.robustness import Robustness

    if out.exists() and not resume:
        raise DataError(f"{out}: exists already; pass --resume to go on with that run, or choose another file")
    rows = load_data(data, split, text_column=text_column, pair_column=pair_column, label_column=label_column)
    sample = rows.take(min(num, len(rows)), sample_seed)
    chosen = open_attack(attack_name, max_queries, more_settings)
    classifier = open_model(model, variant, seed, device, dtype, backend, token_budget, progress=False)
    typer.echo(f"{attack_name} on {len(sample)} of {len(rows)} texts ({rows.source}), sample {sample_seed}", err=True)
    for what, which in chosen.resources.items():
        typer.echo(f"  {what}: {which}", err=True)
    records = []
    try:
        for record in attack_shown(classifier, model, chosen, sample, out, seed, together):
            records.append(record)  # kept one by one, for the message below
    except KeyboardInterrupt:
        typer.echo(f"\ninterrupted; {len(records)} records are in {out}; --resume goes on from there", err=True)
        raise typer.Exit(130) from None
    result = Robustness.of(records)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "resources": chosen.resources, **result.to_dict()}))
    else:
        _print(result, classifier.randomised, out)


def open_attack(name: str, max_queries: int | None, settings: list[str] | None) -> Attack:
    """Make an attack from words of the command line."""
    from rsmi.app.options import parse_setting
    from rsmi.attacks.catalogue import make_attack

    given: dict[str, Any] = dict(parse_setting(item) for item in settings or ())
    return make_attack(name, max_queries=max_queries, **given)


def attack_shown(
    classifier: RsmiClassifier,
    name: str,
    attack: Attack,
    sample: TextDataset,
    out: Path,
    seed: int,
    together: int | None = None,
) -> Iterator[AttackRecord]:
    """Attack `sample`, going on with what `out` holds of the same run, and show it on stderr; yield each record.

    Args:
        classifier: What is attacked.
        name: What the records call it.
        attack: How.
        sample: Texts and true labels.
        out: The JSONL file of the records.
        seed: For the attack's own draws.
        together: Texts attacked side by side; by default as many as suit the engine.
    """
    from rsmi.app.live import AttackView
    from rsmi.attacks.base import TOGETHER
    from rsmi.evaluation.attacking import attack_to_file, read_run

    about = _describe_model(name, classifier)
    already = len(read_run(out)[1]) if out.exists() else 0
    with AttackView(len(sample), already) as view:
        for record in attack_to_file(
            classifier, attack, sample, out, seed=seed, together=together or TOGETHER, about=about
        ):
            view.show(record)
            yield record


def _describe_model(model: str, classifier: RsmiClassifier) -> dict[str, Any]:
    """Return what identifies a model and the software in the records."""
    from rsmi.app.doctor import versions

    return {
        "model": {"name": model, "fingerprint": classifier.fingerprint, "config": classifier.config_.to_dict()},
        "backend": classifier.backend,
        "model_seed": classifier.seed,
        "versions": versions(),
    }


def _print(result: Any, randomised: bool, out: Path) -> None:
    typer.echo(f"accuracy before the attack  {result.accuracy} %  (n = {result.accuracy.total})")
    typer.echo(f"accuracy under attack       {result.robust_accuracy} %")
    typer.echo(f"attack success              {result.attack_success} %  of {result.attack_success.total} attacked")
    typer.echo(f"mean queries                {result.queries:.1f}")
    typer.echo(f"words changed               {100 * result.words_changed:.1f} % of a fooled text")
    if randomised and result.attack_success.count:
        typer.echo(
            f"asked again, other draws    {result.fresh_flips} % still wrong; "
            f"{result.majority_flips} of {result.attack_success.count} successes wrong on most draws"
        )
    if result.budget_hit:
        typer.echo(f"ran out of queries          {result.budget_hit} texts")
    typer.echo(f"95 % Wilson intervals; records in {out}")
