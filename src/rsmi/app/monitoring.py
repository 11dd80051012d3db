"""`rsmi analyse monitoring`: attack records and the model -> how well it tells attacked texts from clean ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsmi.app.options import Backend, Device, Dtype, Json, TokenBudget, Variant

if TYPE_CHECKING:
    from rsmi.evaluation.monitoring import Positives, Seen
    from rsmi.evaluation.runs import Run
    from rsmi.method.monitoring import Weights


def monitoring(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model that was attacked.")],
    records: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Records written by rsmi attack.")],
    out: Annotated[Path | None, typer.Option("--out", help="Write OUT.json, OUT.md and OUT.svg.")] = None,
    fit: Annotated[
        Path | None,
        typer.Option("--fit", metavar="FILE", help="Fit weights on these runs and write them, instead of judging."),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option("--weights", metavar="FILE", help="Judge weights that --fit wrote.")
    ] = None,
    attempted: Annotated[
        bool, typer.Option("--attempted", help="Count the last text of failed attacks as attacked, too.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="Of the model's noise; the attacker saw that of his run.")] = 1,
    draws: Annotated[
        int, typer.Option("--draws", min=1, help="Classify every text so often, under this seed and the next ones.")
    ] = 1,
    variant: Variant = None,
    device: Device = None,
    dtype: Dtype = "float32",
    backend: Backend = "torch",
    token_budget: TokenBudget = None,
    as_json: Json = False,
) -> None:
    """Tell attacked texts from clean ones by votes, escalation and saliency: ROC of `under_attack` and of its parts.

    Originals that were answered right and the texts that fooled the model are classified anew, on other draws than the
    attacker saw. Weights are refused on texts they were fitted on: fit them on a dev split or on another model.
    """
    from rsmi.errors import ConfigError
    from rsmi.evaluation.monitoring import check_unseen, judge, look_again
    from rsmi.evaluation.monitoring import fit as fitted
    from rsmi.evaluation.running import describe_model
    from rsmi.evaluation.runs import Run
    from rsmi.opening import open_classifier
    from rsmi.report.monitoring import Watched, to_dict, write_monitoring

    if fit is not None and (weights is not None or out is not None):
        raise ConfigError("--fit: expected neither --weights nor --out beside it, since it judges nothing")
    runs = [Run.read(path) for path in records]
    own, known = _weights(weights)
    if fit is None:
        check_unseen(runs, known)
    classifier = open_classifier(
        model, variant, seed=seed, device=device, dtype=dtype, backend=backend, token_budget=token_budget, progress=True
    )
    positives: Positives = "attempted" if attempted else "succeeded"
    seen: list[list[Seen]] = [[] for _ in runs]
    for classifier.seed in range(seed, seed + draws):
        for texts, run in zip(seen, runs, strict=True):
            texts += look_again(classifier, run, positives)
    about = {**describe_model(model, classifier), "seeds": [seed, seed + draws - 1], "attacked_are": positives}
    if fit is not None:
        found = fitted([text for texts in seen for text in texts])
        _write_weights(fit, found, runs, about)
        typer.echo(json.dumps(found.to_dict()) if as_json else f"saved {fit}: {_listed(found)}")
        return
    watched = [
        Watched(
            _name(run),
            run.source,
            run.header.get("model_seed") not in range(seed, seed + draws),
            tuple(judge(texts, own)),
        )
        for run, texts in zip(runs, seen, strict=True)
    ]
    about |= {"weights": own.to_dict(), "fitted_on": known}
    for file in write_monitoring(out, watched, about) if out is not None else ():
        typer.echo(f"saved {file}", err=True)
    if as_json:
        typer.echo(json.dumps(to_dict(watched, about)))
        return
    typer.echo(f"{'attack':<36} {'signal':<14} {'AUC':<22} caught at 5 % false alarms")
    for each in watched:
        for roc in each.curves:
            auc = f"{roc.auc:.3f} [{roc.low:.3f}, {roc.high:.3f}]"
            counts = f"{100 * roc.caught:.1f} %  (n = {roc.attacked} attacked, {roc.clean} clean)"
            typer.echo(f"{each.attack:<36} {roc.score:<14} {auc:<22} {counts}")


def _name(run: Run) -> str:
    return f"{run.attack}, {run.protocol}, {run.data} {run.header['data'].get('split', '')}".strip()


def _weights(file: Path | None) -> tuple[Weights, list[dict[str, str]]]:
    """Return weights and what they were fitted on: those in use, or those of a file."""
    from rsmi.errors import DataError
    from rsmi.method.monitoring import FITTED_ON, WEIGHTS, Weights

    if file is None:
        return WEIGHTS, [dict(own) for own in FITTED_ON]
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        return Weights(**values["weights"]), list(values["fitted_on"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{file}: expected weights as --fit writes them, got {type(error).__name__}: {error}"
        ) from error


def _write_weights(file: Path, found: Weights, runs: Sequence[Run], about: dict[str, Any]) -> None:
    from rsmi.evaluation.monitoring import fitted_on
    from rsmi.writing import write_text

    file.parent.mkdir(parents=True, exist_ok=True)
    sources = [{"source": run.source, "name": _name(run), "n": len(run.records)} for run in runs]
    values = {"weights": found.to_dict(), "fitted_on": fitted_on(runs), "runs": sources, **about}
    write_text(file, json.dumps(values, indent=1) + "\n")


def _listed(weights: Weights) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in weights.to_dict().items())
