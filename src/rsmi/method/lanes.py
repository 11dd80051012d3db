"""Groups of texts -> the cores: several groups at a time, each on its share of the threads.

Two threads that work on one layer wait for each other after every operation; two that work on a group each do not.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import torch

_LEAST_TOKENS = 128  # a lane reads all weights: with fewer tokens that costs more than the waiting

Group = TypeVar("Group")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Lanes:
    """How groups are run."""

    token_budget: int
    """Tokens of one group, padding included."""
    count: int = 1
    """Groups at a time."""
    threads: int = 1
    """Threads of each, where there are several at a time."""


def open_lanes(lengths: Sequence[int], token_budget: int) -> Lanes:
    """Return lanes for rows of these lengths on the threads that torch has here.

    Groups are made small enough to keep all lanes busy to the end, and hold at most `token_budget` tokens in all lanes
    together.
    """
    threads, tokens, longest = torch.get_num_threads(), sum(lengths), max(lengths, default=0)
    count = min(threads, min(tokens, token_budget) // max(_LEAST_TOKENS, longest))
    if count < 2:
        return Lanes(token_budget)
    most = token_budget // count
    groups = count * -(-tokens // (most * count))
    even = -(-tokens // groups) + longest - 1  # a row that stands out at the end of a group does not open another one
    return Lanes(min(most, even), count, threads // count)


def each(function: Callable[[Group], Result], groups: Sequence[Group], lanes: Lanes) -> list[Result]:
    """Return `function` of every group, in their order. Nothing is left running when it returns or raises."""
    if min(lanes.count, len(groups)) <= 1:
        return [function(group) for group in groups]
    pool = _pool(lanes.count, lanes.threads)
    running = [pool.submit(function, group) for group in groups]
    try:
        return [own.result() for own in running]
    finally:
        for own in running:
            own.cancel()
        wait(running)


@lru_cache(maxsize=8)
def _pool(count: int, threads: int) -> ThreadPoolExecutor:
    """Return threads that run torch's operations on `threads` threads each, whatever the rest of the process does."""
    ready = threading.Barrier(count + 1)

    def start() -> None:
        torch.get_num_threads()  # torch sets up a thread on its first question, and would undo what was set before
        torch.set_num_threads(threads)

    own = torch.get_num_threads()
    pool = ThreadPoolExecutor(count, thread_name_prefix="rsmi-lane", initializer=start)
    for _ in range(count):
        pool.submit(ready.wait)
    ready.wait()
    torch.set_num_threads(own)  # what threads to come start with
    return pool


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads
