"""A job -> its records from several processes, here or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rsmi.attacks.base import TOGETHER
from rsmi.evaluation.jobs import Job
from rsmi.records import AttackRecord
from rsmi.workers import Tasks, in_processes, on_ray

Found: TypeAlias = list[tuple[int, dict[str, Any]]]
"""Places of the sample and their records, as plain values."""


@dataclass(frozen=True, slots=True)
class _Attacking:
    """Attacks some texts of a job's sample at a time."""

    job: Job

    def open(self) -> Callable[[list[int]], Found]:
        """Load the model and the attack."""
        opened = self.job.open()
        return lambda places: [(place, record.to_dict()) for place, record in opened.run(places)]

    def name(self, task: list[int]) -> str:
        """Name the texts."""
        return f"texts {task[:8]} of the sample"


def run_in_processes(job: Job, places: Sequence[int], workers: int) -> Iterator[tuple[int, AttackRecord]]:
    """Attack the texts at `places` in `workers` processes, which share nothing; yield records as they are done.

    A process that dies is replaced, and what it was at is done again.

    Raises:
        RsmiError: What a worker raised.
        WorkerError: If workers die again and again over the same texts.
    """
    yield from _records(in_processes(_Attacking(job), _cut(places, job.together or TOGETHER), workers))


def run_on_ray(
    job: Job, places: Sequence[int], address: str, workers: int | None = None
) -> Iterator[tuple[int, AttackRecord]]:
    """Attack the texts at `places` on a Ray cluster; an actor loads the model once.

    Args:
        job: What to run; its model and data must be found under the same names on every machine.
        places: Which texts of the sample.
        address: `auto` for the cluster of this machine, or `ray://host:port`.
        workers: Actors; by default as many as the cluster has GPUs, or CPUs where it has none.
    """
    yield from _records(on_ray(_Attacking(job), _cut(places, job.together or TOGETHER), address, workers))


def _cut(places: Sequence[int], together: int) -> Tasks[list[int]]:
    """Cut places into parts that fill a worker's batches, but not so large that some workers go without."""

    def parts(workers: int) -> Iterator[list[int]]:
        size = max(1, min(together, -(-len(places) // workers)))
        return (list(places[start : start + size]) for start in range(0, len(places), size))

    return parts


def _records(done: Iterator[tuple[list[int], Found]]) -> Iterator[tuple[int, AttackRecord]]:
    for _, found in done:
        for place, values in found:
            yield place, AttackRecord.from_dict(values)
