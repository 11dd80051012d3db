"""`rsmi certify`: a model and labelled texts -> a certificate for each, certified accuracy, and attacks from inside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsmi.app.attack import DataName, MaxWords, Split, Stratified
from rsmi.app.completion import BOUNDS, KINDS, among
from rsmi.app.options import (
    Device,
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
    from rsmi.certify import CertifyConfig
    from rsmi.evaluation.certifying import Certified, CertifiedAccuracy
    from rsmi.evaluation.jobs import Job
    from rsmi.records import AttackRecord

_SHOWN_WORDS = (0, 1, 2, 3, 4, 5)
_SHOWN_SHARES = (0.0, 0.5, 1.0, 1.5, 2.0)  # of the noise
_AUDITED_TOGETHER = 16  # certificates after which what was found is written


def certify(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder written by rsmi train.")],
    data: DataName,
    out: Annotated[Path, typer.Option("--out", help="JSONL file of the certificates.")],
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            help="l2-hidden, l2-embedding, l0-mask, synonym or edit; by default what the model is for.",
            autocompletion=among(KINDS),
        ),
    ] = None,
    masking: Annotated[
        str, typer.Option("--masking", help="none, in-noise (masks from what is noisy) or all-masks.")
    ] = "none",
    samples: Annotated[int, typer.Option("--samples", min=1, help="Draws that bound the probability (n).")] = 1000,
    selection: Annotated[int, typer.Option("--selection", min=1, help="Draws that pick the class (n0).")] = 100,
    failure_prob: Annotated[
        float, typer.Option("--failure-prob", help="Chance that a certificate is wrong (alpha).")
    ] = 0.001,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="That chance for all certificates together, not for each.")
    ] = False,
    bound: Annotated[
        str, typer.Option("--bound", help="pa, bonferroni, refined or sequential.", autocompletion=among(BOUNDS))
    ] = "pa",
    radius: Annotated[
        float | None, typer.Option("--radius", min=0, help="The radius wanted: stop drawing once it is settled.")
    ] = None,
    num: Annotated[int, typer.Option("--num", min=1, help="Certify a random sample of this many texts.")] = 100,
    sample_seed: Annotated[int, typer.Option("--sample-seed", help="Seed of that sample.")] = 0,
    stratified: Stratified = False,
    split: Split = "test",
    max_words: MaxWords = 256,
    audit: Annotated[
        bool, typer.Option("--audit", help="Attack every certificate from inside; exit with 1 if one breaks.")
    ] = False,
    against: Annotated[
        list[Path] | None,
        typer.Option("--against", metavar="RUN", help="Check texts found by rsmi attack, too; repeatable."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method, such as word_mask_rate=0.5."),
    ] = None,
    variant: Variant = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the draws.")] = 0,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    device: Device = None,
    token_budget: TokenBudget = None,
    as_json: Json = False,
) -> None:
    """Certify answers: within a radius, no change of a text changes the class that most random copies choose."""
    from rsmi.certify import CertifyConfig
    from rsmi.evaluation.attacking import read_run
    from rsmi.evaluation.certifying import CertifiedAccuracy
    from rsmi.evaluation.jobs import Job

    check_free(out, resume)
    found = [record for run in against or () for record in read_run(run)[1].values()]
    job = Job(
        model=model,
        data=data,
        split=split,
        columns={"text_column": text_column, "pair_column": pair_column, "label_column": label_column},
        num=num,
        sample_seed=sample_seed,
        stratified=stratified,
        max_words=max_words,
        variant=variant,
        config=parse_settings(settings),
        seed=seed,
        device=device,
        token_budget=token_budget,
    )
    sample, classifier = job.sample(), job.classifier()
    wanted = CertifyConfig.suited(
        classifier.config_,
        kind=kind,
        masking=masking,
        selection_samples=selection,
        estimation_samples=samples,
        failure_prob=failure_prob / len(sample) if simultaneous else failure_prob,
        bound=bound,
        radius=radius,
    )
    records = _certified(job, classifier, sample, wanted, out)
    if audit or against:
        records = _audited(job, classifier, wanted, out, records, audit, found)
    result = CertifiedAccuracy.of(records)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "certify": wanted.to_dict(), **result.to_dict()}))
    else:
        _print(result, records, wanted, out)
    if result.broken:
        raise typer.Exit(1)


def _certified(job: Job, classifier: Any, sample: Any, wanted: CertifyConfig, out: Path) -> list[Certified]:
    from tqdm.auto import tqdm

    from rsmi.evaluation.certifying import certify_to_file
    from rsmi.evaluation.running import describe_model

    typer.echo(f"{wanted.kind}, n = {wanted.estimation_samples}, on {len(sample)} texts ({sample.source})", err=True)
    made = certify_to_file(classifier, sample, out, wanted, describe_model(job.model, classifier))
    records: list[Certified] = []
    try:
        for record in tqdm(made, "certify", len(sample), unit="text", dynamic_ncols=True):
            records.append(record)  # kept one by one, for the message below
    except KeyboardInterrupt:
        typer.echo(f"\ninterrupted; {len(records)} certificates are in {out}; --resume goes on from there", err=True)
        raise typer.Exit(130) from None
    return records


def _audited(
    job: Job,
    classifier: Any,
    wanted: CertifyConfig,
    out: Path,
    records: list[Certified],
    inside: bool,
    found: list[AttackRecord],
) -> list[Certified]:
    """Attack the certificates that have not been attacked yet, and write the file anew after every few of them."""
    from tqdm.auto import tqdm

    from rsmi.evaluation.audit import audit_records
    from rsmi.evaluation.recordfile import read_header, write_records

    train = job.load("train") if inside and not wanted.gaussian else None
    typer.echo(f"attacking {sum(not own.audits for own in records)} certificates from inside", err=True)
    header, audited = read_header(out), list(records)
    groups = audit_records(
        classifier,
        wanted,
        records,
        inside=inside,
        telling=train,
        found=found,
        seed=job.seed,
        together=_AUDITED_TOGETHER,
    )
    done = 0
    bar = tqdm(total=len(records), desc="audit", unit="text", dynamic_ncols=True)
    try:
        for few in groups:
            audited[done : done + len(few)] = few
            done += len(few)
            write_records(out, header, dict(enumerate(audited)))
            bar.update(len(few))
    except KeyboardInterrupt:
        bar.close()
        typer.echo(f"interrupted; what was attacked is in {out}; --resume goes on from there", err=True)
        raise typer.Exit(130) from None
    bar.close()
    return audited


def _print(result: CertifiedAccuracy, records: list[Certified], wanted: CertifyConfig, out: Path) -> None:
    space, std = records[0].certificate.space, records[0].certificate.noise_std
    radii = [share * std for share in _SHOWN_SHARES] if wanted.gaussian else [float(n) for n in _SHOWN_WORDS]
    typer.echo(f"certified for the true class  {result.at(0.0)} %  (n = {result.total})")
    for radius in radii[1:]:
        shown = f"radius {radius:.3f}" if wanted.gaussian else f"{radius:.0f} words"
        typer.echo(f"  {shown:<12}  {result.at(radius)} %")
    typer.echo(f"certified for another class   {result.wrong}")
    typer.echo(f"abstained                     {result.abstained}")
    if result.audited:
        typer.echo(f"attacked from inside          {result.audited}, broken {result.broken}")
    if result.broken:
        typer.echo("A CERTIFICATE IS WRONG: please report it with the file of certificates", err=True)
    typer.echo(
        f"measured in: {space}\neach wrong with chance {wanted.failure_prob:g} at most; 95 % Wilson intervals; "
        f"certificates in {out}"
    )
