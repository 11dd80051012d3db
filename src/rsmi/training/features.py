"""Encoded texts and class numbers -> tensors for `Trainer`, and back to a `Batch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset

from rsmi.method.tokens import Batch, Encoded, collate


@dataclass(frozen=True, slots=True)
class Example:
    """One training text."""

    row: Encoded
    label: int


class Examples(Dataset[Example]):
    """Training texts as torch's data loaders expect them."""

    def __init__(self, rows: Sequence[Encoded], labels: Sequence[int]) -> None:
        self._examples = [Example(row, label) for row, label in zip(rows, labels, strict=True)]

    def __len__(self) -> int:
        return len(self._examples)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each text."""
        return [len(example.row) for example in self._examples]

    def __getitem__(self, index: int) -> Example:
        return self._examples[index]


@dataclass(frozen=True, slots=True)
class Collator:
    """Pads a list of examples to the longest of them."""

    pad_token_id: int

    def __call__(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """Return tensors by name; `labels` is (batch,), the others (batch, tokens)."""
        batch = collate([example.row for example in examples], self.pad_token_id)
        tensors = {
            "input_ids": batch.input_ids,
            "attention_mask": batch.attention_mask,
            "maskable": batch.maskable,
            "labels": torch.tensor([example.label for example in examples]),
        }
        if batch.token_type_ids is not None:
            tensors["token_type_ids"] = batch.token_type_ids
        return tensors


def as_batch(tensors: Mapping[str, Tensor]) -> Batch:
    """Undo the naming of `Collator`."""
    attention = tensors["attention_mask"]
    lengths = tuple(int(length) for length in attention.sum(1).tolist())
    return Batch(tensors["input_ids"], attention, tensors.get("token_type_ids"), tensors["maskable"], lengths)
