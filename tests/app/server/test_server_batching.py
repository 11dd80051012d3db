"""The queue in front of the model, with a model that only counts."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from rsmi.app.server.batching import Batcher
from rsmi.app.server.failures import Overloaded, TooLate


class Watcher:
    """Remembers what a batcher reports."""

    def __init__(self):
        self.waiting, self.refusals, self.sizes = [0], 0, []

    def queued(self, waiting):
        self.waiting.append(waiting)

    def refused(self):
        self.refusals += 1

    def ran(self, waited, seconds):
        assert len(waited) >= 1
        assert all(each >= 0 for each in waited)
        self.sizes.append(len(waited))


class Model:
    """Doubles numbers; can be held up, and fails on negative ones."""

    def __init__(self):
        self.calls, self.free = [], threading.Event()
        self.free.set()

    def __call__(self, key, items, wanted):
        self.calls.append((key, list(items)))
        assert self.free.wait(10)
        if any(item < 0 for item in items):
            raise ValueError("negative")
        return [2 * item for item in items]


def batched(test, **settings):
    """Run a coroutine function with a batcher, its model and its watcher."""

    async def run():
        model, watcher = Model(), Watcher()
        own = {"max_batch": 8, "latency_budget": 0.02, "max_queue": 100, **settings}
        batcher = Batcher(model, observer=watcher, name="test", **own)
        batcher.start()
        try:
            await test(batcher, model, watcher)
        finally:
            model.free.set()
            await batcher.close()

    asyncio.run(run())


async def until(condition):
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.001)


def test_requests_that_come_together_share_a_batch():
    async def test(batcher, model, watcher):
        results = await asyncio.gather(*(batcher.submit("k", [i], 5) for i in range(8)))
        assert results == [[2 * i] for i in range(8)]
        assert model.calls == [("k", list(range(8)))]
        assert watcher.sizes == [8]
        assert max(watcher.waiting) == 8
        assert batcher.waiting == watcher.waiting[-1] == 0

    batched(test)


def test_a_full_batch_does_not_wait_and_a_lone_request_waits_no_longer_than_the_budget():
    async def test(batcher, model, watcher):
        start = time.monotonic()
        await asyncio.gather(*(batcher.submit("k", [i], 5) for i in range(4)))
        assert time.monotonic() - start < 0.25
        start = time.monotonic()
        await batcher.submit("k", [1], 5)
        assert 0.29 < time.monotonic() - start < 0.6
        assert watcher.sizes == [4, 1]

    batched(test, max_batch=4, latency_budget=0.3)


def test_what_comes_while_the_model_is_busy_is_the_next_batch():
    async def test(batcher, model, watcher):
        model.free.clear()
        first = asyncio.create_task(batcher.submit("k", [0], 5))
        await until(lambda: model.calls)
        others = [asyncio.create_task(batcher.submit("k", [i], 5)) for i in range(1, 6)]
        await until(lambda: batcher.waiting == 5)
        model.free.set()
        await asyncio.gather(first, *others)
        assert watcher.sizes == [1, 5]

    batched(test, latency_budget=0.0)


def test_keys_do_not_share_a_batch_and_the_oldest_goes_first():
    async def test(batcher, model, watcher):
        await asyncio.gather(*(batcher.submit(key, [1, 2], 5) for key in "abab"))
        assert [call[0] for call in model.calls] == ["a", "b"]
        assert watcher.sizes == [4, 4]

    batched(test)


def test_a_large_request_does_not_hold_up_small_ones():
    async def test(batcher, model, watcher):
        model.free.clear()
        blocker = asyncio.create_task(batcher.submit("k", [0], 5))
        await until(lambda: model.calls)
        large = asyncio.create_task(batcher.submit("k", list(range(100, 120)), 5))
        await until(lambda: batcher.waiting == 20)
        small = asyncio.create_task(batcher.submit("k", [7], 5))
        await until(lambda: batcher.waiting == 21)
        model.free.set()
        assert await small == [14]
        assert not large.done()
        assert await large == [2 * i for i in range(100, 120)]
        assert 7 in model.calls[1][1]
        await blocker

    batched(test, latency_budget=0.0)


def test_a_full_queue_refuses_all_or_nothing_and_says_when_to_come_again():
    async def test(batcher, model, watcher):
        model.free.clear()
        running = [asyncio.create_task(batcher.submit("k", [0], 5))]
        await until(lambda: model.calls)
        running.append(asyncio.create_task(batcher.submit("k", [1, 2, 3], 5)))
        await until(lambda: batcher.waiting == 3)
        with pytest.raises(Overloaded) as refused:
            await batcher.submit("k", [4, 5], 5)
        assert int(refused.value.headers["Retry-After"]) >= 1
        assert batcher.waiting == 3
        assert watcher.refusals == 1
        running.append(asyncio.create_task(batcher.submit("k", [4], 5)))
        await until(lambda: batcher.waiting == 4)
        model.free.set()
        assert await asyncio.gather(*running) == [[0], [2, 4, 6], [8]]

    batched(test, max_queue=4, latency_budget=0.0)


def test_retry_after_follows_the_speed_of_the_model():
    async def test(batcher, model, watcher):
        batcher._seconds_an_item, batcher.waiting = 0.5, 21
        assert batcher.retry_after == 11
        batcher.waiting = 100_000
        assert batcher.retry_after == 60
        batcher.waiting = 0

    batched(test)


def test_a_request_that_takes_too_long_leaves_the_queue():
    async def test(batcher, model, watcher):
        model.free.clear()
        blocker = asyncio.create_task(batcher.submit("k", [0], 5))
        await until(lambda: model.calls)
        with pytest.raises(TooLate):
            await batcher.submit("k", [1, 2], 0.05)
        assert batcher.waiting == 0
        model.free.set()
        assert await blocker == [0]
        await asyncio.sleep(0.02)
        assert model.calls == [("k", [0])]

    batched(test, latency_budget=0.0)


def test_a_request_whose_client_hung_up_leaves_the_queue():
    async def test(batcher, model, watcher):
        model.free.clear()
        blocker = asyncio.create_task(batcher.submit("k", [0], 5))
        await until(lambda: model.calls)
        gone = asyncio.create_task(batcher.submit("k", [1, 2], 5))
        await until(lambda: batcher.waiting == 2)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert batcher.waiting == 0
        model.free.set()
        assert await blocker == [0]
        assert await batcher.submit("k", [3], 5) == [6]
        assert model.calls == [("k", [0]), ("k", [3])]

    batched(test, latency_budget=0.0)


def test_work_learns_that_nobody_waits_for_it():
    async def test(batcher, model, watcher):
        asked = []

        def run(key, items, wanted):
            asked.append(wanted())
            deadline = time.monotonic() + 5
            while wanted() and time.monotonic() < deadline:
                time.sleep(0.002)
            asked.append(wanted())
            return items

        batcher._run = run
        with pytest.raises(TooLate):
            await batcher.submit("k", [1], 0.05)
        await until(lambda: len(asked) == 2)
        assert asked == [True, False]

    batched(test, latency_budget=0.0)


def test_a_failure_hits_its_own_request_only():
    async def test(batcher, model, watcher):
        good, bad, other = await asyncio.gather(
            batcher.submit("k", [1, 2], 5),
            batcher.submit("k", [3, -1], 5),
            batcher.submit("k", [4], 5),
            return_exceptions=True,
        )
        assert (good, other) == ([2, 4], [8])
        assert isinstance(bad, ValueError)
        assert await batcher.submit("k", [5], 5) == [10]
        assert batcher.alive

    batched(test)
