"""Memory between one batch and the next: kept for the next one, and handed back to the system now and then."""

from __future__ import annotations

import ctypes
import os
import sys
import time

_PAUSE = 5.0  # seconds: what was handed back must be fetched again, page by page
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names of its settings, M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
_LARGEST_KEPT = 2**25  # bytes: the most that glibc takes for M_MMAP_THRESHOLD
_OWN_SETTINGS = ("GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_")
_C = ctypes.CDLL(None) if sys.platform == "linux" else None
_malloc_trim, _mallopt = getattr(_C, "malloc_trim", None), getattr(_C, "mallopt", None)


class _Keeper:
    """Knows when memory was handed back last."""

    due = 0.0


def keep_free_memory() -> None:
    """Let the C library (glibc) keep what a batch frees for the next, where nobody has told it otherwise.

    Left alone, it hands the top of its heap back as soon as it is free, and fetches it again page by page a moment
    later (what that costs: benchmarks/heap.py). What is kept goes back where `return_free_memory` is called, or with
    the process. This is a setting of the whole process, and so nothing for a library to touch: commands call it, and
    processes that are our own.
    """
    if _malloc_trim is not None and _mallopt is not None and not any(name in os.environ for name in _OWN_SETTINGS):
        _mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
        _mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def return_free_memory() -> None:
    """Hand freed memory back to the system, where the C library can (glibc) and the last time is a while ago.

    Batches of ever other shapes leave holes in its heap: nothing leaks, yet resident memory would creep up.
    """
    if _malloc_trim is not None and time.monotonic() >= _Keeper.due:
        _malloc_trim(0)
        _Keeper.due = time.monotonic() + _PAUSE
