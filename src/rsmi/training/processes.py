"""One process among several: who writes, and what all must agree in (accelerate, launched or not)."""

from __future__ import annotations

import os
from typing import TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

from rsmi.seeds import fresh_key

Value = TypeVar("Value")


def count() -> int:
    """Return the number of processes of this run; 1 unless it was launched by torchrun or accelerate."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this is the process that writes files and talks to the user."""
    return int(os.environ.get("RANK", "0")) == 0


def wait_for_all() -> None:
    """Wait until every process has come here."""
    if count() > 1:
        _joined().wait_for_everyone()


def from_first(value: Value) -> Value:
    """Return the first process's value in all of them."""
    held = [value]
    if count() > 1:
        _joined()
        broadcast_object_list(held)
    return held[0]


def shared_key() -> int:
    """Return a fresh key, the same in all processes."""
    return from_first(fresh_key())


def shards() -> bool:
    """Whether weights or optimizer states are spread over the processes (FSDP, DeepSpeed), not copied to each."""
    return any(os.environ.get(f"ACCELERATE_USE_{kind}", "").lower() == "true" for kind in ("FSDP", "DEEPSPEED"))


def whole_weights(model: nn.Module) -> dict[str, Tensor]:
    """Collect weights that are spread over the processes; every process must call this and gets all of them."""
    options = StateDictOptions(full_state_dict=True)
    weights = get_model_state_dict(model, options=options)
    return {name: value.detach().cpu().clone() for name, value in weights.items() if isinstance(value, Tensor)}


def _joined() -> PartialState:
    """Join the other processes, unless done already."""
    return PartialState(cpu=not torch.cuda.is_available() and not shards())
