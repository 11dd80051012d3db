"""Seed -> generators: every random draw is a pure function of a key, never of global state."""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_KEY_BITS = 63  # torch generators take a signed 64-bit seed


def fresh_key() -> int:
    """Return a key from the operating system's entropy."""
    return secrets.randbits(_KEY_BITS)


def derive(*parts: int | str) -> int:
    """Hash `parts` into a key: the same parts give the same key on every machine, other parts an unrelated one."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        # surrogatepass: a key must exist for any str, whether or not a tokenizer accepts it
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else str(part).encode()
        kind = b"s" if isinstance(part, str) else b"i"
        digest.update(kind + len(raw).to_bytes(8, "little") + raw)
    return int.from_bytes(digest.digest(), "little") >> (64 - _KEY_BITS)


def drawn(seed: int, draw: int) -> int:
    """Return the seed of another draw; draw 0 is the seed itself."""
    return derive(seed, "draw", draw) if draw else seed


def generator(key: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator on `device` that starts at `key`."""
    rng = torch.Generator(device=device)
    rng.manual_seed(key)
    return rng


@contextmanager
def global_state_kept() -> Iterator[None]:
    """Restore the global Python, NumPy and torch random states on exit.

    transformers' `Trainer` seeds them; a library must not change its caller's randomness.
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
