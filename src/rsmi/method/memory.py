"""Freed memory -> the system, between one batch and the next."""

from __future__ import annotations

import ctypes
import sys

_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def return_free_memory() -> None:
    """Hand freed memory back to the system, where the C library can (glibc).

    Batches of ever other shapes leave holes in its heap: nothing leaks, yet resident memory would creep up.
    """
    if _malloc_trim is not None:
        _malloc_trim(0)
