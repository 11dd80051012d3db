"""Concurrent requests -> batches: a bounded queue, one thread that runs the model, a budget for waiting."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from rsmi.app.server.failures import Overloaded, TooLate

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")

Run: TypeAlias = Callable[[Key, Sequence[Item], Callable[[], bool]], Sequence[Result]]
"""(key, items, whether anybody still waits) -> one result an item; runs in the batcher's own thread."""
_MEMORY = 0.8  # weight of the past in the mean time an item takes


class Observer(Protocol):
    """Is told how a queue is doing."""

    def queued(self, waiting: int) -> None:
        """So many items wait now."""
        ...

    def refused(self) -> None:
        """A request found the queue full."""
        ...

    def ran(self, waited: Sequence[float], seconds: float) -> None:
        """A batch was run: how long each of its items had waited, and how long the batch took."""
        ...


@dataclass(eq=False)
class _Job(Generic[Key, Item, Result]):
    """The items of one request."""

    key: Key
    items: Sequence[Item]
    future: asyncio.Future[list[Result]]
    arrived: float
    taken: int = 0
    results: dict[int, Result] = field(default_factory=dict)

    @property
    def untaken(self) -> int:
        return len(self.items) - self.taken

    @property
    def wanted(self) -> bool:
        return not self.future.done()


class Batcher(Generic[Key, Item, Result]):
    """Collects items of the same key from all requests and runs them together.

    A batch starts when it is full, or when the oldest request has waited for `latency_budget` seconds; while the model
    is busy nothing is lost by waiting, so the next batch takes all that has come. Of several waiting requests each
    gives one item in turn: a request of a hundred texts does not hold up those of one.

    Args:
        run: Runs one batch.
        max_batch: Most items of a batch.
        latency_budget: Seconds that a request waits for company.
        max_queue: Most items waiting.
        observer: Is told about all of it.
        name: Of the thread.
    """

    def __init__(
        self,
        run: Run[Key, Item, Result],
        *,
        max_batch: int,
        latency_budget: float,
        max_queue: int,
        observer: Observer,
        name: str,
    ) -> None:
        self._run, self._observer = run, observer
        self.max_batch, self.latency_budget, self.max_queue = max_batch, latency_budget, max_queue
        self.waiting = 0
        self._jobs: dict[Key, deque[_Job[Key, Item, Result]]] = {}
        self._changed = asyncio.Event()
        self._seconds_an_item = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._worker: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to run what is submitted."""
        self._worker = asyncio.create_task(self._work())

    @property
    def alive(self) -> bool:
        """Whether somebody is there to run what is submitted."""
        return self._worker is not None and not self._worker.done()

    async def close(self) -> None:
        """Stop; whatever still waits is cancelled, so let the requests end first."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        for job in [job for jobs in self._jobs.values() for job in jobs]:
            job.future.cancel()
        await asyncio.to_thread(self._thread.shutdown, True)

    async def submit(self, key: Key, items: Sequence[Item], timeout: float) -> list[Result]:
        """Return one result an item.

        Raises:
            Overloaded: If the queue has no room for all of them.
            TooLate: If they are not done in time; those not yet begun leave the queue.
        """
        if self.waiting + len(items) > self.max_queue:
            self._observer.refused()
            raise Overloaded(self.retry_after)
        loop = asyncio.get_running_loop()
        job = _Job(key, items, loop.create_future(), time.monotonic())
        self._jobs.setdefault(key, deque()).append(job)
        self._count(len(items))
        try:
            return await asyncio.wait_for(job.future, timeout)
        except asyncio.TimeoutError:
            raise TooLate(timeout) from None
        finally:  # also where the client has hung up
            self._forget(job)

    @property
    def retry_after(self) -> int:
        """Seconds until the queue, at its present speed, is empty; at least 1."""
        return max(1, min(60, math.ceil(self.waiting * self._seconds_an_item)))

    def _count(self, more: int) -> None:
        self.waiting += more
        self._observer.queued(self.waiting)
        self._changed.set()

    def _forget(self, job: _Job[Key, Item, Result]) -> None:
        jobs = self._jobs.get(job.key, deque())
        if job in jobs:
            jobs.remove(job)
            if not jobs:
                del self._jobs[job.key]
            self._count(-job.untaken)

    async def _work(self) -> None:
        while True:
            self._changed.clear()
            due = self._due()
            if due is not None and due[1] <= 0:
                await self._run_batch(due[0], self._take(due[0]))
                continue
            try:
                await asyncio.wait_for(self._changed.wait(), None if due is None else due[1])
            except asyncio.TimeoutError:
                continue

    def _due(self) -> tuple[Key, float] | None:
        """Return whose turn it is and in how many seconds: the key of the request that came first."""
        if not self._jobs:
            return None
        key, arrived = min(
            ((key, min(job.arrived for job in jobs)) for key, jobs in self._jobs.items()), key=lambda pair: pair[1]
        )
        full = sum(job.untaken for job in self._jobs[key]) >= self.max_batch
        return key, 0.0 if full else arrived + self.latency_budget - time.monotonic()

    def _take(self, key: Key) -> list[tuple[_Job[Key, Item, Result], int]]:
        """Take one item of each request in turn until the batch is full."""
        jobs = self._jobs[key]
        batch: list[tuple[_Job[Key, Item, Result], int]] = []
        while jobs and len(batch) < self.max_batch:
            job = jobs.popleft()
            batch.append((job, job.taken))
            job.taken += 1
            if job.untaken:
                jobs.append(job)
        if not jobs:
            del self._jobs[key]
        self._count(-len(batch))
        return batch

    async def _run_batch(self, key: Key, batch: list[tuple[_Job[Key, Item, Result], int]]) -> None:
        start = time.monotonic()
        results = await self._results(key, batch)
        seconds = time.monotonic() - start
        past = self._seconds_an_item or seconds / len(batch)
        self._seconds_an_item = _MEMORY * past + (1 - _MEMORY) * seconds / len(batch)
        self._observer.ran([start - job.arrived for job, _ in batch], seconds)
        for (job, place), result in zip(batch, results, strict=True):
            if not job.wanted:
                continue
            if isinstance(result, BaseException):
                job.future.set_exception(result)
                continue
            job.results[place] = result
            if len(job.results) == len(job.items):
                job.future.set_result([job.results[place] for place in range(len(job.items))])

    async def _results(self, key: Key, batch: list[tuple[_Job[Key, Item, Result], int]]) -> list[Any]:
        """Run a batch; if it fails, each item alone, so that one of them does not fail the others."""
        loop = asyncio.get_running_loop()
        items = [job.items[place] for job, place in batch]

        def wanted() -> bool:
            return any(job.wanted for job, _ in batch)

        try:
            return list(await loop.run_in_executor(self._thread, self._run, key, items, wanted))
        except Exception as error:  # whatever it is, those who wait are told
            if len(batch) == 1:
                return [error]
            return [result for one in batch for result in await self._results(key, [one])]
