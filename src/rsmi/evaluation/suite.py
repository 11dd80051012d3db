"""Names of suites -> the jobs that a model goes through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from rsmi.defense import Target
from rsmi.errors import ConfigError
from rsmi.evaluation.jobs import Job
from rsmi.evaluation.protocols import WHITE_BOX, protocols_for
from rsmi.settings import nearest

PAPER_ATTACKS: Final = ("textfooler", "pwws", "bae")
"""The attacks of the paper's tables."""
EOT_DRAWS: Final = (1, 5, 20, 50)
"""How many draws an answer averages over in the full suite."""
SUITES: Final[Mapping[str, str]] = {
    "standard": "the paper's three attacks under its own protocol; TextFooler under those that random models need; "
    "HotFlip",
    "full": "the paper's three attacks under every protocol that says something about the model; HotFlip and GBDA",
}
"""Name of each suite and what is in it."""


def jobs_of(suite: str, job: Job, target: Target) -> list[Job]:
    """Return the jobs of a suite.

    Args:
        suite: One of `SUITES`.
        job: Model, data and settings that all of them share.
        target: The model, loaded: what it is decides which protocols mean anything.

    Raises:
        ConfigError: If there is no such suite.
    """
    if suite not in SUITES:
        raise ConfigError(f"suite: expected one of {', '.join(SUITES)}; got {suite!r}{nearest(suite, SUITES)}")
    if suite == "standard":
        plain = [replace(job, attack=attack, protocol="paper") for attack in PAPER_ATTACKS]
        wanted = ("eot", "fixed-noise", "transfer", "persistent")
        more = [name for name in protocols_for(target, "textfooler") if name in wanted]
        others = [replace(job, attack="textfooler", protocol=name) for name in more]
        return [*plain, *others, replace(job, attack="hotflip", protocol="white-box")]
    jobs = []
    for attack in (*PAPER_ATTACKS, *WHITE_BOX):
        for protocol in protocols_for(target, attack):
            draws = EOT_DRAWS if protocol == "eot" else (job.draws,)
            jobs += [replace(job, attack=attack, protocol=protocol, draws=count) for count in draws]
    return jobs


def file_name(job: Job) -> str:
    """Return the name of the file that a job's records go to."""
    protocol = f"eot-{job.draws}" if job.protocol == "eot" else job.protocol
    return f"{job.attack}.{protocol}.jsonl".replace(":", "-")
