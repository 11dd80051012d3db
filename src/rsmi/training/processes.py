"""One process among several: who writes, and what all must agree in (accelerate, launched or not)."""

from __future__ import annotations

from typing import TypeVar

from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from rsmi.seeds import fresh_key

Value = TypeVar("Value")


def count() -> int:
    """Return the number of processes of this run; 1 unless it was launched by torchrun or accelerate."""
    number: int = PartialState().num_processes
    return number


def is_first() -> bool:
    """Whether this is the process that writes files and talks to the user."""
    first: bool = PartialState().is_main_process
    return first


def wait_for_all() -> None:
    """Wait until every process has come here."""
    PartialState().wait_for_everyone()


def from_first(value: Value) -> Value:
    """Return the first process's value in all of them."""
    held = [value]
    if count() > 1:
        broadcast_object_list(held)
    return held[0]


def shared_key() -> int:
    """Return a fresh key, the same in all processes."""
    return from_first(fresh_key())
