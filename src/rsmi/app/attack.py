"""`rsmi attack`: a model and labelled texts -> a record of every attempt to fool it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsmi.app.options import Backend, Device, Dtype, Json, LabelColumn, PairColumn, TextColumn, TokenBudget, Variant

if TYPE_CHECKING:
    from rsmi.attacks.base import Attack
    from rsmi.classifier import RsmiClassifier
    from rsmi.data import TextDataset
    from rsmi.evaluation.protocols import Setup
    from rsmi.records import AttackRecord

_CALIBRATED = 500  # dev texts that a temperature is fitted to

AttackName = Annotated[
    str,
    typer.Option(
        "--attack",
        help="textfooler, pwws, bae, deepwordbug, bertattack, hotflip, gbda, or textattack:RECIPE.",
    ),
]
MaxQueries = Annotated[int | None, typer.Option("--max-queries", min=1, help="Most questions about one text.")]
Together = Annotated[int, typer.Option("--together", min=1, help="Texts attacked side by side; same results.")]
ProtocolName = Annotated[
    str,
    typer.Option(
        "--protocol",
        help="What the attacker may do: paper, vote, eot, fixed-noise, temperature, transfer, white-box, mask-aware or "
        "persistent.",
    ),
]
Draws = Annotated[int, typer.Option("--draws", min=1, help="Protocol eot: draws an answer averages over.")]
Tries = Annotated[int, typer.Option("--tries", min=1, help="Protocol persistent: attacks on one text at most.")]
FreshDraws = Annotated[
    int, typer.Option("--fresh-draws", min=0, help="How often a success is asked about again, if answers are random.")
]
Stratified = Annotated[bool, typer.Option("--stratified", help="Keep the shares of the classes in the sample.")]
MaxWords = Annotated[int, typer.Option("--max-words", min=1, help="Attack the first so many words of a text.")]
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
    stratified: Stratified = False,
    split: Annotated[str, typer.Option("--split", help="Split of the data: test, dev, train or all.")] = "test",
    max_words: MaxWords = 256,
    protocol: ProtocolName = "paper",
    draws: Draws = 20,
    tries: Tries = 5,
    fresh_draws: FreshDraws = 100,
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
    from rsmi.evaluation.protocols import set_up
    from rsmi.evaluation.robustness import Robustness

    if out.exists() and not resume:
        raise DataError(f"{out}: exists already; pass --resume to go on with that run, or choose another file")
    load = partial(load_data, data, text_column=text_column, pair_column=pair_column, label_column=label_column)
    rows = load(split)
    sample = rows.take(min(num, len(rows)), sample_seed, stratified).cut(max_words)
    classifier = open_model(model, variant, seed, device, dtype, backend, token_budget, progress=False)
    setup = set_up(
        protocol,
        classifier,
        partial(open_attack, attack_name, max_queries, more_settings),
        draws=draws,
        tries=tries,
        dev=held_out(load("dev"), max_words) if protocol == "temperature" else None,
        fresh_draws=fresh_draws,
    )
    typer.echo(
        f"{attack_name}, protocol {setup.about['label']}, on {len(sample)} of {len(rows)} texts ({rows.source}), "
        f"sample {sample_seed}",
        err=True,
    )
    for what, which in setup.attack.resources.items():
        typer.echo(f"  {what}: {which}", err=True)
    records = []
    try:
        for record in attack_shown(classifier, model, setup, sample, out, seed, together):
            records.append(record)  # kept one by one, for the message below
    except KeyboardInterrupt:
        typer.echo(f"\ninterrupted; {len(records)} records are in {out}; --resume goes on from there", err=True)
        raise typer.Exit(130) from None
    result = Robustness.of(records)
    if as_json:
        about = {"out": str(out), "protocol": setup.about, "resources": setup.attack.resources}
        typer.echo(json.dumps({**about, **result.to_dict()}))
    else:
        _print(result, classifier.randomised, out)


def open_attack(name: str, max_queries: int | None, settings: list[str] | None, **more: Any) -> Attack:
    """Make an attack from words of the command line; they come before what the protocol wants."""
    from rsmi.app.options import parse_setting
    from rsmi.attacks.catalogue import make_attack

    given: dict[str, Any] = dict(parse_setting(item) for item in settings or ())
    return make_attack(name, max_queries=max_queries, **{**more, **given})


def held_out(dev: TextDataset, max_words: int) -> TextDataset:
    """Return the texts that a temperature is calibrated on."""
    return dev.take(min(_CALIBRATED, len(dev)), 0).cut(max_words)


def attack_shown(
    classifier: RsmiClassifier,
    name: str,
    setup: Setup,
    sample: TextDataset,
    out: Path,
    seed: int,
    together: int | None = None,
    explained: bool = True,
) -> Iterator[AttackRecord]:
    """Attack `sample`, going on with what `out` holds of the same run, and show it on stderr; yield each record.

    Args:
        classifier: What is attacked.
        name: What the records call it.
        setup: How.
        sample: Texts and true labels.
        out: The JSONL file of the records.
        seed: For the attack's own draws.
        together: Texts attacked side by side; by default as many as suit the engine.
        explained: Keep votes and salient tokens of every text in its record.
    """
    from rsmi.app.live import AttackView
    from rsmi.attacks.base import TOGETHER
    from rsmi.evaluation.attacking import attack_to_file, read_run

    about = {**_describe_model(name, classifier), "protocol": setup.about}
    already = len(read_run(out)[1]) if out.exists() else 0
    with AttackView(len(sample), already) as view:
        for record in attack_to_file(
            setup.target,
            setup.attack,
            sample,
            out,
            seed=seed,
            together=together or TOGETHER,
            about=about,
            deployed=setup.deployed,
            explain=classifier.explain if explained else None,
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
