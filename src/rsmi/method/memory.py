"""Freed memory -> the system, between one batch and the next."""

from __future__ import annotations

import ctypes
import sys
import time

_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


_PAUSE = 5.0  # seconds: what was handed back must be fetched again, page by page


class _Keeper:
    """Knows when memory was handed back last."""

    due = 0.0


def return_free_memory() -> None:
    """Hand freed memory back to the system, where the C library can (glibc) and the last time is a while ago.

    Batches of ever other shapes leave holes in its heap: nothing leaks, yet resident memory would creep up.
    """
    if _malloc_trim is not None and time.monotonic() >= _Keeper.due:
        _malloc_trim(0)
        _Keeper.due = time.monotonic() + _PAUSE
