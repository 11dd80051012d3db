"""Tasks -> results from several processes, here or on a Ray cluster; another worker does what a lost one left."""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from rsmi.errors import MissingResourceError, RsmiError, WorkerError
from rsmi.memory import keep_free_memory

T = TypeVar("T")
R = TypeVar("R")
Given = TypeVar("Given", contravariant=True)
Made = TypeVar("Made", covariant=True)

_PATIENCE = 10  # seconds
_LOSSES = 5  # workers that may be lost over the same tasks before these are held to be the cause


class Work(Protocol[Given, Made]):
    """What every worker does. Holds names and numbers only, so that it can be sent anywhere."""

    def open(self) -> Callable[[Given], Made]:
        """Load what the work needs, once a worker, and return what does a task; results must not depend on others."""
        ...

    def name(self, task: Given) -> str:
        """Return what to call a task in messages."""
        ...


Tasks: TypeAlias = Callable[[int], Iterable[T]]
"""Number of workers -> what they shall do, cut so that each has enough of it."""


def in_processes(work: Work[T, R], tasks: Tasks[T], workers: int) -> Generator[tuple[T, R], None, None]:
    """Do tasks in `workers` processes, which share nothing; yield each with its result as it is done.

    A process that dies is replaced, and what it was at is done again. Tasks are taken from their iterable as workers
    become free: no more than one for each, and the next one, are in memory.

    Raises:
        RsmiError: What a worker raised.
        WorkerError: If workers die again and again over the same tasks.
    """
    waiting, losses = _Waiting(tasks(workers)), 0
    while not waiting.empty:
        threads = max(1, (os.cpu_count() or 1) // workers)
        with ProcessPoolExecutor(
            workers, multiprocessing.get_context("spawn"), initializer=_open_here, initargs=(work, threads)
        ) as pool:
            running: dict[Future[R], T] = {}
            try:
                while running or not waiting.empty:
                    while len(running) < workers and not waiting.empty:
                        task = waiting.take()
                        try:
                            running[pool.submit(_run_here, task)] = task
                        except BrokenProcessPool:  # noticed only now
                            waiting.put_back([task])
                            raise
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        result = future.result()
                        losses = 0
                        yield running.pop(future), result
            except BrokenProcessPool:
                losses += 1
                left = list(running.values())
                waiting.put_back(left)
                if losses == _LOSSES:
                    raise _lost(work, left) from None


def on_ray(
    work: Work[T, R], tasks: Tasks[T], address: str, workers: int | None = None
) -> Generator[tuple[T, R], None, None]:
    """Do tasks on a Ray cluster; an actor opens the work once. Otherwise as `in_processes`.

    Args:
        work: What to do; what it names must be found under the same names on every machine.
        tasks: To what.
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
        yield from _on_actors(ray, work, tasks, workers)
    finally:
        if started:
            ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise an OSError if nothing listens at an address: ray itself would try again for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _on_actors(ray: Any, work: Work[T, R], tasks: Tasks[T], workers: int | None) -> Generator[tuple[T, R], None, None]:
    resources = ray.cluster_resources()
    gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
    count = workers or gpus or cpus
    threads = max(1, cpus // count)
    actor = ray.remote(num_cpus=1, num_gpus=1 if gpus else 0, max_restarts=0)(_Actor)
    waiting, losses = _Waiting(tasks(count)), 0
    idle: list[Any] = []
    running: dict[Any, tuple[Any, T]] = {}
    while running or not waiting.empty:
        while len(running) < count and not waiting.empty:  # no more actors than there are tasks for
            worker = idle.pop() if idle else actor.remote(work, threads)
            task = waiting.take()
            running[worker.run.remote(task)] = (worker, task)
        (done, *_), _ = ray.wait(list(running), num_returns=1)
        worker, task = running.pop(done)
        try:
            result = ray.get(done)
        except ray.exceptions.RayActorError:  # the worker or its machine is gone
            losses += 1
            if losses == _LOSSES:
                raise _lost(work, [task]) from None
            waiting.put_back([task])
            continue
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, RsmiError) else error from None
        losses = 0
        idle.append(worker)
        yield task, result


class _Actor:
    """A worker of a cluster."""

    def __init__(self, work: Work[Any, Any], threads: int) -> None:
        _open_here(work, threads)

    def run(self, task: Any) -> Any:
        """Do one task."""
        return _run_here(task)


class _Waiting(Generic[T]):
    """Tasks still to do: those given back first, then the next new ones."""

    def __init__(self, tasks: Iterable[T]) -> None:
        self._again: deque[T] = deque()
        self._new = iter(tasks)

    @property
    def empty(self) -> bool:
        """Whether nothing is left to do."""
        if not self._again:
            self._again.extend(islice(self._new, 1))
        return not self._again

    def take(self) -> T:
        """Return the next task."""
        return self._again.popleft()

    def put_back(self, tasks: Sequence[T]) -> None:
        """Give back tasks that were not done."""
        self._again.extendleft(reversed(tasks))


class _Opened:
    """What this process works on, or why it cannot."""

    run: Callable[[Any], Any] | None = None
    error: Exception | None = None


def _open_here(work: Work[Any, Any], threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    keep_free_memory()
    _end_with_parent()
    try:
        _Opened.run = work.open()
    except Exception as error:  # raised by the first task: a worker that fails to start only says that it is gone
        _Opened.error = error


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: killed, it could not tell its pool to stop."""
    parent = multiprocessing.parent_process()

    def watch(parent: Any) -> None:
        parent.join()
        os._exit(1)

    if parent is not None:
        threading.Thread(target=watch, args=(parent,), daemon=True).start()


def _run_here(task: Any) -> Any:
    if _Opened.error is not None:
        raise _Opened.error
    if _Opened.run is None:
        raise RuntimeError("expected opened work in this process, got none")
    return _Opened.run(task)


def _lost(work: Work[T, Any], tasks: Sequence[T]) -> WorkerError:
    named = "; ".join(work.name(task) for task in tasks[:3])
    return WorkerError(
        f"expected workers to finish, {_LOSSES} in a row were lost over {named}; look for a worker that is killed for "
        "want of memory, and lower --workers or --token-budget"
    )


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingResourceError(
            "a cluster needs Ray, which is not installed; pip install 'rsmi[cluster]'"
        ) from error
    return ray
