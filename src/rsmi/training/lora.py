"""Low-rank adapters (LoRA, through peft) in place of all weights: for models too large to train whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from transformers import PreTrainedModel

from rsmi.errors import MissingResourceError, UnsupportedModelError
from rsmi.seeds import generator
from rsmi.settings import require

_HEADS = ("classifier", "classification_head", "score", "pooler", "pre_classifier", "head")


@contextmanager
def adapters(model: PreTrainedModel, rank: int, key: int) -> Iterator[None]:
    """Train adapters of `rank` and the head while the block runs; at its end they are part of the weights.

    The model stays the same object throughout, so noise and embeddings are found where they were, and a saved
    classifier is an ordinary checkpoint that needs no peft. Rank 0 trains all weights.
    """
    if rank == 0:
        yield
        return
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise MissingResourceError("lora_rank: expected the package peft; pip install 'rsmi[lora]'") from None
    # LoRA's matrices are drawn from the global generator, which `run_training` gives back as it was
    torch.set_rng_state(generator(key).get_state())
    heads = [name for name, _ in model.named_children() if name in _HEADS]
    inside = _linear_names(model, outside=heads)
    if not heads or not inside:
        raise UnsupportedModelError(
            f"lora_rank: expected a model with a head beside its encoder, got {type(model).__name__}; use lora_rank=0"
        )
    modules = dict(model.named_modules())
    most = min(min(modules[name].weight.shape) for name in inside)
    require(rank <= most, "lora_rank", f"at most {most}, where adapters are as large as the weights", rank)
    config = LoraConfig(
        r=rank, lora_alpha=2 * rank, lora_dropout=0.05, target_modules=inside, modules_to_save=heads, bias="none"
    )
    wrapped = get_peft_model(model, config)
    try:
        yield
    finally:
        wrapped.merge_and_unload()
        model.requires_grad_(True)


def _linear_names(model: nn.Module, outside: list[str]) -> list[str]:
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.split(".")[0] not in outside
    ]
