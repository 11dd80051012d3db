"""A job -> its records from several processes, here or on a Ray cluster; another worker does what a lost one left."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeAlias

from rsmi.errors import MissingResourceError, RsmiError, WorkerError
from rsmi.evaluation.jobs import Job, OpenJob
from rsmi.records import AttackRecord

Found: TypeAlias = list[tuple[int, dict[str, Any]]]
"""Places of the sample and their records, as plain values."""

_PATIENCE = 10  # seconds
_LOSSES = 5  # workers that may be lost over the same texts before these are held to be the cause


def run_in_processes(job: Job, places: Sequence[int], workers: int) -> Iterator[tuple[int, AttackRecord]]:
    """Attack the texts at `places` in `workers` processes, which share nothing; yield records as they are done.

    A process that dies is replaced, and what it was at is done again.

    Raises:
        RsmiError: What a worker raised.
        WorkerError: If workers die again and again over the same texts.
    """
    waiting, losses = deque(_chunks(places, job.together, workers)), 0
    while waiting:
        threads = max(1, (os.cpu_count() or 1) // workers)
        with ProcessPoolExecutor(
            workers, multiprocessing.get_context("spawn"), initializer=_open_here, initargs=(job, threads)
        ) as pool:
            running: dict[Future[Found], list[int]] = {}
            try:
                while waiting or running:
                    while waiting and len(running) < workers:
                        chunk = waiting.popleft()
                        running[pool.submit(_run_here, chunk)] = chunk
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        found = future.result()
                        del running[future]
                        losses = 0
                        yield from _records(found)
            except BrokenProcessPool:
                losses += 1
                waiting.extendleft(running.values())
                if losses == _LOSSES:
                    raise _lost(list(running.values())) from None


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
    ray = _import_ray()
    started = not ray.is_initialized()
    if started:
        try:
            _check_reachable(address)
            ray.init(address=address, log_to_driver=False, logging_level="error")
        except Exception as error:  # ray raises a dozen types
            raise WorkerError(
                f"expected a Ray cluster at {address!r}, got {type(error).__name__}: {error}; start one with "
                "`ray start --head`"
            ) from error
    try:
        yield from _on_actors(ray, job, places, workers)
    finally:
        if started:
            ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise an OSError if nothing listens at an address: ray itself would try again for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _on_actors(ray: Any, job: Job, places: Sequence[int], workers: int | None) -> Iterator[tuple[int, AttackRecord]]:
    resources = ray.cluster_resources()
    gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
    count = workers or gpus or cpus
    threads = max(1, cpus // count)
    actor = ray.remote(num_cpus=1, num_gpus=1 if gpus else 0, max_restarts=0)(_Actor)
    waiting, losses = deque(_chunks(places, job.together, count)), 0
    idle = [actor.remote(job, threads) for _ in range(min(count, len(waiting)))]
    running: dict[Any, tuple[Any, list[int]]] = {}
    while waiting or running:
        while waiting and idle:
            worker, chunk = idle.pop(), waiting.popleft()
            running[worker.run.remote(chunk)] = (worker, chunk)
        (done, *_), _ = ray.wait(list(running), num_returns=1)
        worker, chunk = running.pop(done)
        try:
            found = ray.get(done)
        except ray.exceptions.RayActorError:  # the worker or its machine is gone
            losses += 1
            if losses == _LOSSES:
                raise _lost([chunk]) from None
            waiting.appendleft(chunk)
            idle.append(actor.remote(job, threads))
            continue
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, RsmiError) else error from None
        losses = 0
        idle.append(worker)
        yield from _records(found)


class _Actor:
    """A worker of a cluster."""

    def __init__(self, job: Job, threads: int) -> None:
        _open_here(job, threads)

    def run(self, places: list[int]) -> Found:
        """Attack some texts."""
        return _run_here(places)


def _chunks(places: Sequence[int], together: int, workers: int) -> list[list[int]]:
    """Cut places into parts that fill a worker's batches, but not so large that some workers go without."""
    size = max(1, min(together, -(-len(places) // workers)))
    return [list(places[start : start + size]) for start in range(0, len(places), size)]


class _Opened:
    """The job that this process works on."""

    job: OpenJob | None = None


def _open_here(job: Job, threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    _Opened.job = job.open()


def _run_here(places: list[int]) -> Found:
    if _Opened.job is None:
        raise RuntimeError("expected an opened job in this process, got none")
    return [(place, record.to_dict()) for place, record in _Opened.job.run(places)]


def _records(found: Found) -> Iterator[tuple[int, AttackRecord]]:
    for place, values in found:
        yield place, AttackRecord.from_dict(values)


def _lost(chunks: Sequence[Sequence[int]]) -> WorkerError:
    places = sorted(place for chunk in chunks for place in chunk)
    return WorkerError(
        f"expected workers to finish, {_LOSSES} in a row were lost over texts {places[:8]} of the sample; look for a "
        "worker that is killed for want of memory, and lower --workers or --token-budget"
    )


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingResourceError(
            "a cluster needs Ray, which is not installed; pip install 'rsmi[cluster]'"
        ) from error
    return ray
