"""The fast path of the families whose layers are known: a classifier run layer by layer instead of all at once.

Run so, the layers before the first noise are computed once for all copies of a text, and the last layer only at the one
token that the head reads. `encoder.py` opens it; a family that is not here takes the ordinary forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from transformers import DistilBertModel, PreTrainedModel

from rsmi.method.tokens import Batch

Block: TypeAlias = Callable[[Tensor, Tensor | None, bool], Tensor]
"""(hidden (batch, tokens, width), which tokens are read (batch, 1, 1, tokens) or None for all, whether the output is
wanted at the first token only) -> hidden (batch, tokens or 1, width)."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The parts of a classifier in eval mode, in the order in which they run. All of it is differentiable."""

    embed: Callable[[Batch, Tensor | None], Tensor]
    """(batch, what is added to its word embeddings, (batch, tokens, embedding width)) -> (batch, tokens, width)."""
    blocks: tuple[Block, ...]
    head: Callable[[Tensor], Tensor]
    """(batch, 1 or more tokens, width) -> logits (batch, classes), read off the first token."""
    shared: bool = True
    """Whether several threads may run it at the same time."""


def open_stages(model: PreTrainedModel, uses_segments: bool) -> Stages | None:
    """Take a model apart, or return None for a family, or a variant of one, that is not known here."""
    config, base = model.config, model.base_model
    if getattr(config, "is_decoder", False) or getattr(config, "position_embedding_type", "absolute") != "absolute":
        return None
    head = _HEADS.get(type(model).__name__)
    if head is None:
        return None
    distil = head is _distil_head
    layers = base.transformer.layer if distil else base.encoder.layer
    blocks = tuple(_DistilBlock(layer) if distil else _BertBlock(layer) for layer in layers)
    return Stages(_Embedding(base, uses_segments), blocks, partial(head, model))


def _pooled(model: Any, hidden: Tensor) -> Tensor:
    logits: Tensor = model.classifier(model.base_model.pooler(hidden))
    return logits


def _classified(model: Any, hidden: Tensor) -> Tensor:
    logits: Tensor = model.classifier(hidden)
    return logits


def _distil_head(model: Any, hidden: Tensor) -> Tensor:
    logits: Tensor = model.classifier(model.pre_classifier(hidden[:, 0]).relu())
    return logits


_HEADS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "BertForSequenceClassification": _pooled,
    "RobertaForSequenceClassification": _classified,
    "XLMRobertaForSequenceClassification": _classified,
    "CamembertForSequenceClassification": _classified,
    "ElectraForSequenceClassification": _classified,
    "DistilBertForSequenceClassification": _distil_head,
}


# classes and not closures: a classifier with stages can be pickled for worker processes
@dataclass(frozen=True, slots=True)
class _Embedding:
    """Word, position and segment embeddings."""

    base: Any
    uses_segments: bool

    def __call__(self, batch: Batch, shift: Tensor | None) -> Tensor:
        words = self.base.get_input_embeddings()(batch.input_ids)
        inputs = {"inputs_embeds": words if shift is None else words + shift.to(words.dtype)}
        # DistilBERT would look ids up once more; the others count positions by them
        inputs["input_ids"] = None if isinstance(self.base, DistilBertModel) else batch.input_ids
        if self.uses_segments:
            inputs["token_type_ids"] = batch.token_type_ids
        hidden: Tensor = self.base.embeddings(**inputs)
        return self.base.embeddings_project(hidden) if hasattr(self.base, "embeddings_project") else hidden


@dataclass(frozen=True, slots=True)
class _BertBlock:
    """A layer of BERT, RoBERTa or ELECTRA."""

    layer: Any

    def __call__(self, hidden: Tensor, read: Tensor | None, first_only: bool) -> Tensor:
        layer, own = self.layer, self.layer.attention.self
        asking = hidden[:, :1] if first_only else hidden
        width = int(own.attention_head_size)
        mixed = _attend(own.query(asking), own.key(hidden), own.value(hidden), width, read)
        attended = layer.attention.output(mixed, asking)
        output: Tensor = layer.output(layer.intermediate(attended), attended)
        return output


@dataclass(frozen=True, slots=True)
class _DistilBlock:
    """A layer of DistilBERT."""

    layer: Any

    def __call__(self, hidden: Tensor, read: Tensor | None, first_only: bool) -> Tensor:
        layer, own = self.layer, self.layer.attention
        asking = hidden[:, :1] if first_only else hidden
        width = int(own.dim) // int(own.n_heads)
        mixed = _attend(own.q_lin(asking), own.k_lin(hidden), own.v_lin(hidden), width, read)
        attended = layer.sa_layer_norm(own.out_lin(mixed) + asking)
        output: Tensor = layer.output_layer_norm(layer.ffn(attended) + attended)
        return output


def _attend(query: Tensor, key: Tensor, value: Tensor, head_width: int, read: Tensor | None) -> Tensor:
    """Mix values by attention: (batch, asking, width), twice (batch, tokens, width) -> (batch, asking, width)."""
    query, key, value = (part.view(*part.shape[:2], -1, head_width).transpose(1, 2) for part in (query, key, value))
    mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=read)
    return torch.flatten(mixed.transpose(1, 2), 2)
