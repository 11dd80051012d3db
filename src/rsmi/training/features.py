"""Encoded texts and class numbers -> tensors for `Trainer`, and back to a `Batch`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler
from transformers.trainer_pt_utils import LengthGroupedSampler

from rsmi.method.tokens import Batch, Encoded, collate
from rsmi.seeds import derive, generator

NO_LABEL = -100  # torch's cross-entropy ignores it
"""Stands for the class of a text that only fills up a batch."""


@dataclass(frozen=True, slots=True)
class Example:
    """One training text."""

    row: Encoded
    label: int
    place: int = 0
    """Which of the training texts it is, counted from 0."""


class Examples(Dataset[Example]):
    """Training texts as torch's data loaders expect them.

    Args:
        rows: The encoded texts.
        labels: Their class numbers.
        redraw: (place, epoch) -> the row to train on instead, for methods that change the texts in every epoch.
    """

    def __init__(
        self,
        rows: Sequence[Encoded],
        labels: Sequence[int],
        redraw: Callable[[int, int], Encoded] | None = None,
    ) -> None:
        self._rows, self._labels, self._redraw = rows, labels, redraw
        self._epoch = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each text."""
        return [len(row) for row in self._rows]

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch begins, counted from 0."""
        self._epoch = epoch

    def __getitem__(self, index: int) -> Example:
        if index >= len(self):  # asked for by `EpochOrder`: takes a place and counts for nothing
            return Example(self._rows[index % len(self)], NO_LABEL, index)
        row = self._rows[index] if self._redraw is None else self._redraw(index, self._epoch)
        return Example(row, self._labels[index], index)


class EpochOrder(Sampler[int]):
    """The order of the texts, a pure function of key and epoch: a run resumed in any epoch sees the same one.

    Args:
        lengths: Tokens of each text.
        key: Seed of the order.
        grouped: Put this many texts of similar length next to each other; 0 shuffles freely.
        multiple: Fill up to a multiple of this with places beyond the texts. Processes that train together need as many
            texts each; accelerate would give them some texts twice, and the last update another gradient.
    """

    def __init__(self, lengths: Sequence[int], key: int, grouped: int = 0, multiple: int = 1) -> None:
        self._lengths, self._key, self._grouped, self._multiple = list(lengths), key, grouped, multiple
        self._epoch = 0

    def __len__(self) -> int:
        return -(-len(self._lengths) // self._multiple) * self._multiple

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch begins, counted from 0."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        rng = generator(derive(self._key, "order", self._epoch))
        order: Iterable[int] = torch.randperm(len(self._lengths), generator=rng).tolist()
        if self._grouped:
            order = LengthGroupedSampler(self._grouped, lengths=self._lengths, generator=rng)
        yield from order
        yield from range(len(self._lengths), len(self))


@dataclass(frozen=True, slots=True)
class Collator:
    """Pads a list of examples to the longest of them."""

    pad_token_id: int

    def __call__(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """Return tensors by name; `labels` and `places` are (batch,), the others (batch, tokens)."""
        batch = collate([example.row for example in examples], self.pad_token_id)
        tensors = {
            "input_ids": batch.input_ids,
            "attention_mask": batch.attention_mask,
            "maskable": batch.maskable,
            "labels": torch.tensor([example.label for example in examples]),
            "places": torch.tensor([example.place for example in examples]),
        }
        if batch.token_type_ids is not None:
            tensors["token_type_ids"] = batch.token_type_ids
        return tensors


def as_batch(tensors: Mapping[str, Tensor]) -> Batch:
    """Undo the naming of `Collator`."""
    attention = tensors["attention_mask"]
    lengths = tuple(int(length) for length in attention.sum(1).tolist())
    return Batch(tensors["input_ids"], attention, tensors.get("token_type_ids"), tensors["maskable"], lengths)
