"""The classifier -> the version of it that answers: votes, and the gradients behind masks."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from rsmi.errors import ConfigError
from rsmi.method.encoder import Encoder, open_encoder
from rsmi.method.rowwise import quantise
from rsmi.method.stages import Block

BACKENDS: Final = ("torch", "int8", "compile")
"""Names of the ways to run it."""


def open_runner(encoder: Encoder, backend: str) -> Encoder:
    """Return what runs texts and their copies: the method around it stays the same, whatever the backend.

    Args:
        encoder: The classifier; it is left as it is.
        backend: "torch" for the classifier itself; "int8" for linear layers in 8 bits, the inputs and gradients of
            each token scaled as they come (on a CPU); "compile" for layers compiled by `torch.compile`, where their
            family has stages.

    Raises:
        ConfigError: If there is no such backend, or none for this model and device.
    """
    if backend == "torch":
        return encoder
    if backend == "int8":
        return _quantised(encoder)
    if backend == "compile":
        return _compiled(encoder)
    raise ConfigError(f"backend: expected one of {', '.join(BACKENDS)}, got {backend!r}")


def _quantised(encoder: Encoder) -> Encoder:
    weights = {parameter.dtype for parameter in encoder.model.parameters()}
    if encoder.device.type != "cpu" or weights != {torch.float32}:
        raise ConfigError(
            f'backend="int8": expected a model on the CPU with dtype="float32", got one on {encoder.device} with '
            f'{", ".join(sorted(map(str, weights)))}; on a GPU use dtype="bfloat16"'
        )
    shared = {id(table): table for table in encoder.embeddings}  # the largest part, and not a linear layer
    model = copy.deepcopy(encoder.model, shared)
    quantise(model)
    return open_encoder(model)


def _compiled(encoder: Encoder) -> Encoder:
    if encoder.stages is None:
        raise ConfigError(
            f'backend="compile": expected a family with a fast path (BERT, RoBERTa, ELECTRA, DistilBERT), got '
            f'{type(encoder.model).__name__}; use backend="torch"'
        )
    blocks = tuple(_Compiled(block, torch.compile(block, dynamic=True)) for block in encoder.stages.blocks)
    return replace(encoder, stages=replace(encoder.stages, blocks=blocks, shared=False))


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A layer that is compiled where no gradient is wanted: torch would compile another version for those."""

    block: Block
    compiled: Block

    def __call__(self, hidden: Tensor, read: Tensor | None, first_only: bool) -> Tensor:
        return (self.block if torch.is_grad_enabled() else self.compiled)(hidden, read, first_only)
