"""A job -> its records in a file: run here, in several processes or on a cluster, with everything they depend on."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rsmi.classifier import RsmiClassifier
from rsmi.defense import Target
from rsmi.evaluation.attacking import describe_run
from rsmi.evaluation.jobs import OpenJob
from rsmi.evaluation.recordfile import records_to_file
from rsmi.evaluation.workers import run_in_processes, run_on_ray
from rsmi.records import AttackRecord
from rsmi.targets import ForeignTarget

_ASKED_TWICE = 8  # texts that a model that is not ours is asked about twice before a run
_PACKAGES = ("rsmi", "torch", "transformers", "accelerate", "datasets", "tokenizers", "safetensors", "scikit-learn")


def run_job(opened: OpenJob, out: Path, workers: int = 1, cluster: str | None = None) -> Iterator[AttackRecord]:
    """Run a job into a file, going on with what the file holds of it already; yield each record.

    Args:
        opened: The job.
        out: The JSONL file of the records.
        workers: Processes on this machine, or actors on the cluster.
        cluster: Address of a Ray cluster; None runs here.
    """
    job, setup, sample = opened.job, opened.setup, opened.sample
    run = opened.run
    if cluster is not None:
        run = partial(run_on_ray, job, address=cluster, workers=workers if workers > 1 else None)
    elif workers > 1:
        run = partial(run_in_processes, replace(job, together=opened.together), workers=workers)
    if isinstance(opened.classifier, ForeignTarget):  # before a file is begun
        opened.classifier.check_steady(sample.texts[:_ASKED_TWICE])
    about = {**describe_model(job.model, opened.classifier), "protocol": setup.about}
    header = describe_run(setup.target, setup.attack, sample, job.seed, about)
    yield from records_to_file(header, len(sample), out, run, AttackRecord.from_dict)


def describe_model(model: str, classifier: Target) -> dict[str, Any]:
    """Return what identifies a model and the software in the records; a model that is not ours says so itself."""
    if isinstance(classifier, RsmiClassifier):
        return {
            "model": {"name": model, "fingerprint": classifier.fingerprint, "config": classifier.config_.to_dict()},
            "backend": classifier.backend,
            "model_seed": classifier.seed,
            "versions": versions(),
        }
    about = classifier.about if isinstance(classifier, ForeignTarget) else {"name": model}
    return {"model": about, "backend": None, "model_seed": None, "versions": versions()}


def versions() -> dict[str, str | None]:
    """Return the versions that a result depends on, None for a package that is missing."""
    return {"python": platform.python_version(), **{name: version_of(name) for name in _PACKAGES}}


def version_of(package: str) -> str | None:
    """Return the version of a package, None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
