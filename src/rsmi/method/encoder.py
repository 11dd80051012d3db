"""Where transformers keeps embeddings and layers in each family of models: known here and in `stages.py` only."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from rsmi.errors import UnsupportedModelError
from rsmi.method.stages import Stages, open_stages
from rsmi.method.tokens import Batch

# Where the list of layers stands below `model.base_model`: BERT, RoBERTa, ELECTRA, DeBERTa, MPNet; DistilBERT;
# ModernBERT; T5 and mT5. ALBERT, whose layers share weights, is handled apart.
_LAYER_LISTS = ("encoder.layer", "transformer.layer", "encoder.block", "layers")
_SUPPORTED = "BERT, RoBERTa, DistilBERT, ELECTRA, DeBERTa-v2/v3, ALBERT, ModernBERT, MPNet, T5 or mT5"


@dataclass(frozen=True, slots=True)
class Layer:
    """A module of the encoder, and the layer numbers it computes in the order in which it is called.

    An ordinary layer computes one number. ALBERT calls one module for several layers: noise after layer 3 is then noise
    after the fourth call, so that a noise layer means the same depth in every family.
    """

    module: nn.Module
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Encoder:
    """A sequence classifier seen as word embeddings, a stack of layers and a head."""

    model: PreTrainedModel
    layers: tuple[Layer, ...]
    num_layers: int
    embeddings: tuple[nn.Module, ...]
    """Modules that turn ids into word embeddings: one, or two that share weights in an encoder-decoder."""
    uses_segments: bool
    max_tokens: int | None
    """Longest sequence it has positions for; None where positions are relative."""
    stages: Stages | None = None
    """The same model layer by layer, for inference; None where its family has no fast path, and in training."""

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        device: torch.device = self.model.device
        return device

    @property
    def token_budget(self) -> int:
        """Tokens of a forward pass that suit the device: a CPU loses by batches that leave the caches of its cores.

        A GPU loses by small ones: it gets what its free memory holds of a pass with gradients of a third of the tokens.
        """
        if self.device.type == "cpu":
            return min(2048, 1024 * torch.get_num_threads())
        if self.device.type != "cuda":
            return 8192
        free, _ = torch.cuda.mem_get_info(self.device)
        cached = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return tokens_that_fit(free + cached, self.model.config.hidden_size, self.num_layers, self.model.dtype.itemsize)

    @property
    def embedding_width(self) -> int:
        """Width of a word embedding, which ALBERT and ELECTRA choose smaller than that of a layer."""
        width: int = self.model.get_input_embeddings().embedding_dim
        return width

    def logits(self, batch: Batch, shift: Tensor | None = None, model: nn.Module | None = None) -> Tensor:
        """Classify a batch: -> (batch, classes), in float32.

        Args:
            batch: What to classify.
            shift: Added to the word embeddings, (batch, tokens, width).
            model: What to call instead of `self.model`: the same model wrapped for distributed training.
        """
        inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if self.uses_segments and batch.token_type_ids is not None:
            inputs["token_type_ids"] = batch.token_type_ids
        call = self.model if model is None else model
        with self.shifted(batch, shift):
            logits: Tensor = call(**inputs).logits
        return logits.float()

    def shifted(self, batch: Batch, shift: Tensor | None) -> AbstractContextManager[None]:
        """Add `shift`, if any, to the word embeddings of `batch` while the block runs."""
        return nullcontext() if shift is None else _embeddings_shifted(self.embeddings, batch.input_ids, shift)


def open_encoder(model: PreTrainedModel) -> Encoder:
    """Find the parts of `model`, or say that its family is not supported."""
    layers, num_layers = _layers(model)
    parameters = inspect.signature(model.forward).parameters
    segments = "token_type_ids" in parameters and getattr(model.config, "type_vocab_size", 0) > 1
    stages = open_stages(model, segments)
    return Encoder(model, layers, num_layers, _embedding_modules(model), segments, max_tokens(model), stages)


def tokens_that_fit(free: int, width: int, num_layers: int, itemsize: int) -> int:
    """Return the token budget for so many bytes of free memory, half of which are left for other things.

    A layer keeps about 17 numbers of its width a token for its gradient (Korthikanti et al. 2022: 34 bytes in 16 bits),
    of a third of the tokens (`saliency.BACKWARD_COST`). Beyond 64 Ki tokens a pass gains nothing more.
    """
    a_token = 17 * width * num_layers * itemsize / 3
    return int(min(max(free / 2 // a_token, 1024), 65536))


def spread(count: int, num_layers: int) -> tuple[int, ...]:
    """Place `count` noise layers evenly from layer 0 on: 3 of 12 -> 0, 4, 8 (the paper's first, fifth and ninth)."""
    if not 1 <= count <= num_layers:
        raise UnsupportedModelError(f"noise_layers: expected a count from 1 to {num_layers}, got {count}")
    return tuple(j * num_layers // count for j in range(count))


def noise_positions(noise_layers: int | tuple[int, ...], num_layers: int) -> tuple[int, ...]:
    """Turn a count or explicit indices into layer numbers, checked against the model's depth."""
    if isinstance(noise_layers, int):
        return spread(noise_layers, num_layers)
    outside = [i for i in noise_layers if i >= num_layers]
    if outside:
        raise UnsupportedModelError(f"noise_layers: expected indices below {num_layers}, got {outside}")
    return tuple(sorted(noise_layers))


def map_hidden(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Apply `change` to the hidden states in a layer's output, which is a tensor or a tuple starting with it."""
    hidden = output[0] if isinstance(output, tuple) else output
    if not isinstance(hidden, Tensor) or hidden.dim() != 3:
        got = tuple(hidden.shape) if isinstance(hidden, Tensor) else type(hidden).__name__
        raise UnsupportedModelError(
            f"expected a layer output of shape (batch, tokens, width), got {got}; "
            'load the model with attn_implementation="sdpa" (unpadded attention is not supported)'
        )
    return (change(hidden), *output[1:]) if isinstance(output, tuple) else change(hidden)


def _layers(model: PreTrainedModel) -> tuple[tuple[Layer, ...], int]:
    base = model.base_model
    groups = getattr(getattr(base, "encoder", None), "albert_layer_groups", None)
    if groups is not None:
        depth = int(model.config.num_hidden_layers)
        numbers: list[list[int]] = [[] for _ in groups]
        for number in range(depth):
            numbers[int(number / (depth / len(groups)))].append(number)  # as in AlbertTransformer.forward
        return tuple(Layer(group, tuple(own)) for group, own in zip(groups, numbers, strict=True)), depth
    for path in _LAYER_LISTS:
        try:
            modules = attrgetter(path)(base)
        except AttributeError:
            continue
        if isinstance(modules, nn.ModuleList) and len(modules) > 0:
            return tuple(Layer(module, (i,)) for i, module in enumerate(modules)), len(modules)
    raise UnsupportedModelError(
        f"expected an encoder of a known family ({_SUPPORTED}), got {type(model).__name__}, "
        "whose transformer layers were not found; choose a model of one of these families"
    )


def _embedding_modules(model: PreTrainedModel) -> tuple[nn.Module, ...]:
    stacks = [getattr(model.base_model, name, None) for name in ("encoder", "decoder")]
    # T5 keeps one table a stack, tied to `shared`, which itself is never called
    tables = [stack.embed_tokens for stack in stacks if stack is not None and hasattr(stack, "embed_tokens")]
    unique = list(dict.fromkeys(tables or [model.get_input_embeddings()]))
    return tuple(unique)


def max_tokens(model: PreTrainedModel) -> int | None:
    """Return the longest sequence a model has positions for; None where positions are relative."""
    limit = getattr(model.config, "max_position_embeddings", None)
    if limit is None or model.config.model_type in ("t5", "mt5"):
        return None
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    offset = getattr(table, "padding_idx", None)  # RoBERTa and MPNet count positions from padding_idx + 1
    return int(limit) if offset is None else int(limit) - offset - 1


@contextmanager
def _embeddings_shifted(tables: tuple[nn.Module, ...], input_ids: Tensor, shift: Tensor) -> Iterator[None]:
    """Add `shift` to the word embeddings of `input_ids` while the block runs.

    A hook instead of `inputs_embeds`: T5's classifier refuses that argument, RoBERTa would count positions without
    knowing the padding, and sharded weights can only be looked up inside the model. T5's decoder reads the same words
    moved one place to the right, so it must see the same shift moved likewise.
    """

    def add_shift(_table: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        ids = args[0]
        if torch.equal(ids, input_ids):
            return output + shift.to(output.dtype)
        if ids.shape == input_ids.shape and torch.equal(ids[:, 1:], input_ids[:, :-1]):
            return output + nn.functional.pad(shift[:, :-1], (0, 0, 1, 0)).to(output.dtype)
        raise UnsupportedModelError("expected the model to look up its input ids, or those moved right, and no other")

    handles = [table.register_forward_hook(add_shift) for table in tables]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout off while the block runs; every module gets its own mode back."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
