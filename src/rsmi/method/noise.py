"""Gaussian noise after chosen layers and, if asked, at the word embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from rsmi.errors import UnsupportedModelError
from rsmi.method.encoder import Encoder, Layer, map_hidden
from rsmi.method.stages import Stages
from rsmi.method.tokens import Batch
from rsmi.seeds import derive, generator

NoiseSource: TypeAlias = Callable[[int, torch.Size], Tensor]
"""(layer number, (batch, tokens, width)) -> standard normal noise of that shape.

A pure function: asked twice for the same layer it answers the same, so that a layer recomputed by gradient
checkpointing sees the noise it saw the first time.
"""

EMBEDDINGS = -1
"""Stands for the word embeddings where a layer number is expected."""


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """Where noise is added, and how much."""

    layers: tuple[int, ...]
    std: float
    embedding_std: float = 0.0
    units: tuple[float, ...] = ()
    """What `std` is a multiple of after each of `layers`; empty: 1 everywhere."""

    @property
    def first_layer(self) -> int | None:
        """The first layer after which noise is added, if there is any."""
        return min(self.layers) if self.std > 0 and self.layers else None

    def std_after(self, layer: int) -> float:
        """Return the standard deviation of the noise after a layer."""
        if layer not in self.layers:
            return 0.0
        return self.std * (self.units[self.layers.index(layer)] if self.units else 1.0)

    @property
    def silent(self) -> bool:
        """Whether no noise is added anywhere."""
        return self.std == 0 and self.embedding_std == 0


def row_noise(keys: Sequence[int], lengths: Sequence[int]) -> NoiseSource:
    """Noise that depends on each row's key alone: not on the batch around it, its padding or the device.

    Padding gets none; nothing reads it.
    """

    def draw(layer: int, shape: torch.Size) -> Tensor:
        noise = torch.zeros(shape)
        for row, key, length in zip(noise, keys, lengths, strict=True):
            row[:length].normal_(generator=generator(derive(key, layer)))
        return noise

    return draw


def batch_noise(key: int, device: torch.device) -> NoiseSource:
    """Noise drawn for the whole batch at once on `device`: faster on a GPU, still independent for every row."""

    def draw(layer: int, shape: torch.Size) -> Tensor:
        return torch.randn(shape, generator=generator(derive(key, layer), device), device=device)

    return draw


@contextmanager
def noisy(layers: Sequence[Layer], plan: NoisePlan, source: NoiseSource) -> Iterator[None]:
    """Add the plan's noise after its layers while the block runs; that at the embeddings is not added here."""
    handles = []
    try:
        for layer in layers:
            if plan.std > 0 and set(layer.numbers) & set(plan.layers):
                handles.append(layer.module.register_forward_hook(_adder(layer, plan, source)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def noisy_logits(
    encoder: Encoder, plan: NoisePlan, batch: Batch, source: NoiseSource, shift: Tensor | None = None
) -> Tensor:
    """Classify a batch once with fresh noise: -> (batch, classes). `shift` as in `Encoder.logits`."""
    if encoder.stages is not None and not encoder.model.training:
        return _in_stages(encoder, encoder.stages, plan, batch, None, source, shift)
    with noisy(encoder.layers, plan, source):
        return encoder.logits(batch, shifted_by_noise(encoder, plan, batch, source, shift))


def noisy_copies(
    encoder: Encoder,
    plan: NoisePlan,
    batch: Batch,
    rows: Sequence[int],
    source: NoiseSource,
    states: Tensor | None = None,
) -> Tensor:
    """Classify copies of the rows of a batch, each with noise of its own: -> (copies, classes).

    Where the model has stages, what comes before the first noise is computed once a row.

    Args:
        encoder: The classifier, in eval mode.
        plan: Where the noise goes.
        batch: Rows that are all different.
        rows: The row that each copy repeats.
        source: Noise for `batch.rows(rows)`.
        states: `state_before_noise` of the batch, where it is known and `has_prefix` holds.
    """
    if encoder.stages is None or plan.embedding_std > 0:  # nothing can be had, or comes, before the first noise
        return noisy_logits(encoder, plan, batch.rows(rows), source)
    return _in_stages(encoder, encoder.stages, plan, batch, rows, source, states=states)


def has_prefix(encoder: Encoder, plan: NoisePlan) -> bool:
    """Whether there is a first noise, and a state before it that all copies of a row share."""
    return encoder.stages is not None and plan.embedding_std == 0 and plan.first_layer is not None


def _in_stages(
    encoder: Encoder,
    stages: Stages,
    plan: NoisePlan,
    batch: Batch,
    rows: Sequence[int] | None,
    source: NoiseSource,
    shift: Tensor | None = None,
    states: Tensor | None = None,
) -> Tensor:
    """Classify layer by layer; rows become copies where the first noise sets these apart."""
    hidden = states
    if hidden is None:
        hidden = _before_noise(stages, plan, batch, shifted_by_noise(encoder, plan, batch, source, shift))
    spread = None if rows is None else torch.tensor(rows, device=hidden.device)
    first, read = plan.first_layer, batch.read
    if first is None:
        logits = stages.head(hidden).float()
        return logits if spread is None else logits[spread]  # without noise copies agree to the last bit
    if spread is not None:
        hidden, read = hidden[spread], None if read is None else read[spread]
    tokens = batch.input_ids.shape[1]
    return _after_noise(stages, plan, _noised(hidden, plan, first, source, tokens), read, source, tokens)


def state_before_noise(encoder: Encoder, plan: NoisePlan, batch: Batch) -> Tensor:
    """Return what the first noise is added to: (batch, tokens, width), or the first token only after the last layer."""
    return _before_noise(_stages(encoder), plan, batch, None)


def logits_after_noise(
    encoder: Encoder, plan: NoisePlan, state: Tensor, read: Tensor | None, source: NoiseSource, tokens: int
) -> Tensor:
    """Classify states with the first noise in them; reads nothing else of a text: -> (batch, classes).

    Args:
        encoder: A classifier with stages, in eval mode.
        plan: Where the noise goes; that after its first layer is in `state` already.
        state: What `state_before_noise` returned, with noise.
        read: Which tokens attention may read; see `Batch.read`.
        source: Noise of the later layers.
        tokens: Of the longest text, padding included.
    """
    return _after_noise(_stages(encoder), plan, state, read, source, tokens)


def _stages(encoder: Encoder) -> Stages:
    if encoder.stages is None:
        raise UnsupportedModelError(
            f"expected a model that can be run layer by layer (BERT, RoBERTa, XLM-RoBERTa, CamemBERT, ELECTRA or "
            f"DistilBERT), got {type(encoder.model).__name__}"
        )
    return encoder.stages


def _before_noise(stages: Stages, plan: NoisePlan, batch: Batch, shift: Tensor | None) -> Tensor:
    hidden = stages.embed(batch, shift)
    last = len(stages.blocks) - 1
    for number in range((last if plan.first_layer is None else plan.first_layer) + 1):
        hidden = stages.blocks[number](hidden, batch.read, number == last)
    return hidden


def _after_noise(
    stages: Stages, plan: NoisePlan, hidden: Tensor, read: Tensor | None, source: NoiseSource, tokens: int
) -> Tensor:
    last = len(stages.blocks) - 1
    for number in range((plan.first_layer or 0) + 1, last + 1):
        hidden = stages.blocks[number](hidden, read, number == last)
        if number in plan.layers:
            hidden = _noised(hidden, plan, number, source, tokens)
    return stages.head(hidden).float()


def _noised(hidden: Tensor, plan: NoisePlan, number: int, source: NoiseSource, tokens: int) -> Tensor:
    shape = torch.Size((hidden.shape[0], tokens, hidden.shape[2]))
    noise = source(number, shape)[:, : hidden.shape[1]]  # the last layer is there for the first token only
    return torch.add(hidden, noise.to(hidden), alpha=plan.std_after(number))


def shifted_by_noise(
    encoder: Encoder, plan: NoisePlan, batch: Batch, source: NoiseSource, shift: Tensor | None = None
) -> Tensor | None:
    """Add the noise at the word embeddings, if the plan has any, to `shift`."""
    if plan.embedding_std == 0:
        return shift
    shape = torch.Size([*batch.input_ids.shape, encoder.embedding_width])
    noise = plan.embedding_std * source(EMBEDDINGS, shape).to(encoder.device)
    return noise if shift is None else shift + noise


def _adder(layer: Layer, plan: NoisePlan, source: NoiseSource) -> Callable[..., Any]:
    calls = 0

    def add_noise(module: nn.Module, _args: object, output: Any) -> Any:
        nonlocal calls
        number = layer.numbers[calls % len(layer.numbers)]
        calls += 1
        if calls > len(layer.numbers) > 1:
            raise UnsupportedModelError(
                f"expected one forward pass of {type(module).__name__}, whose layers share weights, got another; "
                "open a new noisy block for each pass"
            )
        std = plan.std_after(number)
        if std == 0:
            return output
        return map_hidden(output, lambda hidden: hidden + (std * source(number, hidden.shape)).to(hidden))

    return add_noise
