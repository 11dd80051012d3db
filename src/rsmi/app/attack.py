"""`rsmi attack`: a model and labelled texts -> a record of every attempt to fool it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsmi.app.completion import ATTACKS, PROTOCOLS, SETS, SPLITS, among
from rsmi.app.foreign import ForeignOptions, TargetName
from rsmi.app.grouped import grouped
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

if TYPE_CHECKING:
    from rsmi.classifier import RsmiClassifier
    from rsmi.data import TextDataset
    from rsmi.evaluation.jobs import Job, OpenJob
    from rsmi.evaluation.protocols import Setup
    from rsmi.evaluation.robustness import Robustness
    from rsmi.records import AttackRecord

DataName = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="mr, imdb, a CSV/TSV/JSONL/Parquet file, or a hub id.", autocompletion=among(SETS)
    ),
]
AttackName = Annotated[
    str,
    typer.Option(
        "--attack",
        help="textfooler, pwws, bae, deepwordbug, bertattack, hotflip, gbda, or textattack:RECIPE.",
        autocompletion=among(ATTACKS),
    ),
]
MaxQueries = Annotated[int | None, typer.Option("--max-queries", min=1, help="Most questions about one text.")]
Together = Annotated[
    int | None, typer.Option("--together", min=1, help="Texts attacked side by side; by default 1 on a CPU, else 16.")
]
ProtocolName = Annotated[
    str,
    typer.Option(
        "--protocol",
        help="What the attacker may do: paper, vote, eot, fixed-noise, temperature, transfer, white-box, mask-aware or "
        "persistent.",
        autocompletion=among(PROTOCOLS),
    ),
]
Draws = Annotated[int, typer.Option("--draws", min=1, max=10_000, help="Protocol eot: draws an answer averages over.")]
Tries = Annotated[
    int, typer.Option("--tries", min=1, max=10_000, help="Protocol persistent: attacks on one text at most.")
]
FreshDraws = Annotated[
    int, typer.Option("--fresh-draws", min=0, help="How often a success is asked about again, if answers are random.")
]
Stratified = Annotated[bool, typer.Option("--stratified", help="Keep the shares of the classes in the sample.")]
Split = Annotated[
    str,
    typer.Option("--split", help="Split of the data: test, dev, train or all.", autocompletion=among(SPLITS)),
]
MaxWords = Annotated[int, typer.Option("--max-words", min=1, help="Attack the first so many words of a text.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Processes that share the texts; same records.")]
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="ADDRESS", help="Run on Ray: auto, or ray://host:port.")
]
AttackSettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of the attack; repeatable."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackOptions:
    """How a model is attacked: what `rsmi attack` and `rsmi gate` share."""

    attack_name: AttackName = "textfooler"
    num: Annotated[int, typer.Option("--num", min=1, help="Attack a random sample of this many texts.")] = 100
    sample_seed: Annotated[int, typer.Option("--sample-seed", help="Seed of that sample.")] = 0
    stratified: Stratified = False
    split: Split = "test"
    max_words: MaxWords = 256
    protocol: ProtocolName = "paper"
    draws: Draws = 20
    tries: Tries = 5
    fresh_draws: FreshDraws = 100
    max_queries: MaxQueries = None
    evidence: Annotated[
        bool, typer.Option("--evidence/--no-evidence", help="Keep votes and salient tokens in the records.")
    ] = True
    together: Together = None
    workers: Workers = 1
    cluster: Cluster = None
    more_settings: AttackSettings = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False
    variant: Variant = None
    seed: Annotated[int, typer.Option("--seed", help="Of the model's noise (one draw a text) and the attack's.")] = 0
    text_column: TextColumn = None
    pair_column: PairColumn = None
    label_column: LabelColumn = None
    device: Device = None
    dtype: Dtype = "float32"
    backend: Backend = "torch"
    token_budget: TokenBudget = None

    def job(self, model: str, data: str, foreign: ForeignOptions) -> Job:
        """Return what they ask for."""
        from rsmi.evaluation.jobs import Job

        return Job(
            model=model,
            foreign=foreign.settings(),
            data=data,
            attack=self.attack_name,
            attack_settings={"max_queries": self.max_queries, **parse_settings(self.more_settings)},
            protocol=self.protocol,
            draws=self.draws,
            tries=self.tries,
            fresh_draws=self.fresh_draws,
            split=self.split,
            columns={name: getattr(self, name) for name in ("text_column", "pair_column", "label_column")},
            num=self.num,
            sample_seed=self.sample_seed,
            stratified=self.stratified,
            max_words=self.max_words,
            variant=self.variant,
            seed=self.seed,
            device=self.device,
            dtype=self.dtype,
            backend=self.backend,
            token_budget=self.token_budget,
            together=self.together,
            explained=self.evidence,
        )


@grouped
def attack(
    model: TargetName,
    data: DataName,
    out: Annotated[Path, typer.Option("--out", help="JSONL file of the records.")],
    how: AttackOptions,
    foreign: ForeignOptions,
    as_json: Json = False,
) -> None:
    """Attack a model on labelled texts and tell how often it was fooled."""
    check_free(out, how.resume)
    opened = how.job(model, data, foreign).open()
    result = run_to_end(opened, out, how.workers, how.cluster)
    if as_json:
        typer.echo(json.dumps({"out": str(out), **numbers(opened, result)}))
    else:
        show_result(result, opened.classifier.randomised)
        typer.echo(f"95 % Wilson intervals; records in {out}")


def run_to_end(opened: OpenJob, out: Path, workers: int, cluster: str | None, kept: bool = True) -> Robustness:
    """Run a job into a file, shown on stderr, and count its records; an interruption says how to go on."""
    from rsmi.evaluation.robustness import Robustness

    records = []
    try:
        for record in run_shown(opened, out, workers, cluster):
            records.append(record)  # kept one by one, for the message below
    except KeyboardInterrupt:
        there = f"records are in {out}; --resume goes on from there" if kept else "records are lost; --out keeps them"
        typer.echo(f"\ninterrupted; {len(records)} {there}", err=True)
        raise typer.Exit(130) from None
    return Robustness.of(records)


def numbers(opened: OpenJob, result: Robustness) -> dict[str, Any]:
    """Return what `--json` prints of a run."""
    return {"protocol": opened.setup.about, "resources": opened.setup.attack.resources, **result.to_dict()}


def run_shown(opened: OpenJob, out: Path, workers: int = 1, cluster: str | None = None) -> Iterator[AttackRecord]:
    """Run a job into a file, here, in several processes or on a cluster, and show it on stderr; yield each record."""
    from rsmi.evaluation.running import run_job

    job, setup, sample = opened.job, opened.setup, opened.sample
    typer.echo(
        f"{job.attack}, protocol {setup.about['label']}, on {len(sample)} texts ({sample.source}, sample "
        f"{job.sample_seed})",
        err=True,
    )
    for what, which in setup.attack.resources.items():
        typer.echo(f"  {what}: {which}", err=True)
    yield from shown(run_job(opened, out, workers, cluster), len(sample), out)


def shown(records: Iterator[AttackRecord], total: int, out: Path) -> Iterator[AttackRecord]:
    """Show records on stderr as they come."""
    from rsmi.app.live import AttackView
    from rsmi.evaluation.attacking import read_run

    already = len(read_run(out)[1]) if out.exists() else 0
    with AttackView(total, already) as view:
        for record in records:
            view.show(record)
            yield record


def attack_shown(
    classifier: RsmiClassifier,
    name: str,
    setup: Setup,
    sample: TextDataset,
    out: Path,
    seed: int,
    together: int | None = None,
    explained: bool = False,
) -> Iterator[AttackRecord]:
    """Attack `sample`, going on with what `out` holds of the same run, and show it on stderr; yield each record.

    Args:
        classifier: What is attacked.
        name: What the records call it.
        setup: How.
        sample: Texts and true labels.
        out: The JSONL file of the records.
        seed: For the attack's own draws.
        together: Texts attacked side by side; by default as many as suit the model.
        explained: Keep votes and salient tokens of every text in its record.
    """
    from rsmi.evaluation.attacking import attack_to_file, side_by_side
    from rsmi.evaluation.running import describe_model

    records = attack_to_file(
        setup.target,
        setup.attack,
        sample,
        out,
        seed=seed,
        together=side_by_side(classifier, together),
        about={**describe_model(name, classifier), "protocol": setup.about},
        deployed=setup.deployed,
        explain=classifier.explain if explained else None,
    )
    yield from shown(records, len(sample), out)


def show_result(result: Robustness, randomised: bool) -> None:
    """Print the numbers of a run."""
    typer.echo(f"accuracy before the attack  {result.accuracy} %  (n = {result.accuracy.total})")
    typer.echo(f"accuracy under attack       {result.robust_accuracy} %")
    if not result.attack_success.total:
        typer.echo("attack success              none was attacked: every answer was wrong before")
        return
    typer.echo(f"attack success              {result.attack_success} %  of {result.attack_success.total} attacked")
    typer.echo(f"mean queries                {result.queries:.1f}")
    if result.attack_success.count:
        typer.echo(f"words changed               {100 * result.words_changed:.1f} % of a fooled text")
    if result.fresh_flips.total:
        typer.echo(
            f"asked again, other draws    {result.fresh_flips} % still wrong; "
            f"{result.majority_flips} of {result.attack_success.count} successes wrong on most draws"
        )
    elif randomised and result.attack_success.count:
        typer.echo("asked again, other draws    not asked (--fresh-draws 0): one draw of a random answer was fooled")
    if result.budget_hit:
        typer.echo(f"ran out of queries          {result.budget_hit} texts")
