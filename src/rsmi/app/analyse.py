"""`rsmi analyse`: the paper's figures and tables about one model: layers, copies, stability, time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rsmi.app.attack import AttackName, MaxQueries, Workers, run_shown
from rsmi.app.completion import SETS, among
from rsmi.app.exits import interruptible
from rsmi.app.monitoring import monitoring
from rsmi.app.options import Backend, Device, Dtype, Json, TokenBudget, Variant

analyse = typer.Typer(
    help="Look into a model: its layers, its copies, its luck and its cost.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

analyse.command()(monitoring)

Model = Annotated[str, typer.Argument(metavar="MODEL", help="Folder written by rsmi train, or any classifier.")]
Records = Annotated[Path, typer.Argument(metavar="RUN", help="Records written by rsmi attack.")]
Data = Annotated[str, typer.Argument(metavar="DATA", help="mr, imdb, a file, or a hub id.", autocompletion=among(SETS))]


@analyse.command()
def layers(
    model: Model,
    records: Records,
    variant: Variant = None,
    device: Device = None,
    dtype: Dtype = "float32",
    as_json: Json = False,
) -> None:
    """Distance and cosine between clean and adversarial hidden states, layer by layer (Figure 2)."""
    from rsmi.errors import DataError
    from rsmi.evaluation.analyses import fooled_pairs, layer_distances
    from rsmi.evaluation.runs import Run

    pairs = fooled_pairs(Run.read(records).records)
    if not pairs:
        raise DataError(f"{records}: expected adversarial texts, got none: no attack succeeded")
    classifier = _open(model, variant, device, dtype)
    found = layer_distances(classifier, pairs)
    rows = [[str(own.layer), f"{own.l2:.4f}", f"{own.cosine:.4f}"] for own in found]
    _show(["layer", "L2", "cosine"], rows, {"pairs": len(pairs), "layers": [own.to_dict() for own in found]}, as_json)


@analyse.command()
def stability(
    model: Model,
    records: Records,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Independent runs (the paper: 1,000).")] = 1000,
    variant: Variant = None,
    device: Device = None,
    dtype: Dtype = "float32",
    backend: Backend = "torch",
    as_json: Json = False,
) -> None:
    """Accuracy over independent runs on clean inputs and on the texts that fooled the model once (Figure 4)."""
    from tqdm.auto import tqdm

    from rsmi.evaluation.analyses import stability_of
    from rsmi.evaluation.runs import Run

    attacked = Run.read(records).records
    classifier = _open(model, variant, device, dtype, backend)
    measured = stability_of(
        classifier, attacked, runs, lambda name, draws: tqdm(draws, name, unit="run", dynamic_ncols=True)
    )
    found = {name: own.to_dict() for name, own in measured.items()}
    rows = [
        [name, str(own["texts"]), *(f"{100 * own[each]:.1f}" for each in ("mean", "std", "min", "max"))]
        for name, own in found.items()
    ]
    _show(["texts", "n", "mean", "std", "min", "max"], rows, {"runs": runs, **found}, as_json)


@analyse.command()
def copies(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option("--out", help="Folder for the records of every number of copies.")],
    counts: Annotated[str, typer.Option("--counts", help="Numbers of copies, with commas.")] = "1,5,10,25,50",
    attack_name: AttackName = "textfooler",
    num: Annotated[int, typer.Option("--num", min=1, help="Texts to attack.")] = 100,
    max_queries: MaxQueries = None,
    workers: Workers = 1,
    seed: Annotated[int, typer.Option("--seed", help="Of the model's noise and the attack.")] = 0,
    backend: Backend = "torch",
    device: Device = None,
    token_budget: TokenBudget = None,
    as_json: Json = False,
) -> None:
    """Accuracy under attack against the number of copies, with and without two steps (Figure 3)."""
    from rsmi.errors import ConfigError
    from rsmi.evaluation.analyses import copies_settings
    from rsmi.evaluation.jobs import Job
    from rsmi.evaluation.robustness import Robustness

    words = [word.strip() for word in counts.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise ConfigError(f"--counts: expected whole numbers above 0 with commas, such as 1,5,50; got {counts!r}")
    numbers = [int(word) for word in words]
    rows, found = [], []
    for two_step in (False, True):
        for count, settings in zip(numbers, copies_settings(numbers, two_step), strict=True):
            job = Job(
                model=model,
                data=data,
                attack=attack_name,
                attack_settings={"max_queries": max_queries},
                num=num,
                seed=seed,
                config=settings,
                backend=backend,
                device=device,
                token_budget=token_budget,
            )
            name = f"{'two-step' if two_step else 'one-step'}-{count}"
            with interruptible(f"all records are in {out}; the same command goes on from there"):
                result = Robustness.of(list(run_shown(job.open(), out / f"{name}.jsonl", workers)))
            rows.append([name, str(result.accuracy), str(result.robust_accuracy), str(result.accuracy.total)])
            found.append({"copies": count, "two_step": two_step, **result.to_dict()})
    _show(["copies", "SAcc", "RAcc", "n"], rows, {"results": found}, as_json)


@analyse.command()
def seeds(
    records: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs of models trained with other seeds.")],
    as_json: Json = False,
) -> None:
    """Mean, deviation, best and worst accuracy of models that differ in their seed (Table 5)."""
    from rsmi.evaluation.analyses import spread_of
    from rsmi.evaluation.runs import Run

    runs = [Run.read(path) for path in records]
    found = {
        "SAcc": spread_of([100 * run.robustness.accuracy.value for run in runs]),
        "RAcc": spread_of([100 * run.robustness.robust_accuracy.value for run in runs]),
    }
    rows = [
        [name, str(own["n"]), *(f"{own[each]:.2f}" for each in ("mean", "std", "max", "min"))]
        for name, own in found.items()
    ]
    _show(["", "models", "mean", "std", "max", "min"], rows, found, as_json)


@analyse.command("time")
def run_time(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="The others are compared with the first.")],
    data: Data,
    num: Annotated[int, typer.Option("--num", min=1, help="Texts to classify.")] = 64,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Rounds; models take turns.")] = 5,
    split: Annotated[str, typer.Option("--split", help="Split of the data.")] = "test",
    device: Device = None,
    dtype: Dtype = "float32",
    backend: Backend = "torch",
    as_json: Json = False,
) -> None:
    """Time of predictions against that of the first model (Table 8)."""
    from rsmi.data import load_data
    from rsmi.evaluation.analyses import inference_times

    rows = load_data(data, split)
    texts = rows.take(min(num, len(rows)), 0).texts
    classifiers = {model: _open(model, None, device, dtype, backend) for model in models}
    found = inference_times(classifiers, texts, repeats)
    table = []
    for own in found:
        ratio = own.to_dict()["ratio"]
        table.append(
            [own.name, f"{min(own.seconds):.2f}", f"{ratio['mean']:.2f}", f"{ratio['min']:.2f}", f"{ratio['max']:.2f}"]
        )
    about = {"texts": len(texts), "repeats": repeats, "models": [own.to_dict() for own in found]}
    _show(["model", "s, least", "ratio, mean", "least", "most"], table, about, as_json)


def _open(model: str, variant: str | None, device: str | None, dtype: str, backend: str = "torch") -> Any:
    from rsmi.opening import open_classifier

    return open_classifier(
        model, variant, seed=0, device=device, dtype=dtype, backend=backend, token_budget=None, progress=False
    )


def _show(columns: Sequence[str], rows: Sequence[Sequence[str]], values: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(values))
        return
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    for row in (columns, *rows):
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
