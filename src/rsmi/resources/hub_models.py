"""Folder or hub id -> a model of transformers and its tokenizer; safetensors only, no remote code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from rsmi.errors import CheckpointError, UnsupportedModelError
from rsmi.method.encoder import Encoder, open_encoder
from rsmi.method.pretrained import plain_errors, quiet
from rsmi.method.products import choose_products
from rsmi.method.untrusted import refuse_untrusted
from rsmi.seeds import global_state_kept


@dataclass(frozen=True, slots=True)
class Opened:
    """A model in eval mode and what came with it."""

    encoder: Encoder
    tokenizer: PreTrainedTokenizerBase
    missing: tuple[str, ...]
    """Parameters the checkpoint does not hold, drawn at random."""

    def max_length(self, wanted: int) -> int:
        """Return `wanted`, or as many tokens as the model has positions for."""
        limit = self.encoder.max_tokens
        return wanted if limit is None else min(wanted, limit)


def open_model(auto: Any, source: str | Path, device: torch.device, hint: str) -> Opened:
    """Load a model with one of transformers' Auto classes.

    Args:
        auto: Such as `AutoModel`.
        source: Folder or hub id.
        device: Where to put it.
        hint: What to do if it cannot be loaded, for messages.
    """
    location = str(source)
    if location.startswith(("/", "./", "../", "~")) and not Path(location).is_dir():
        raise CheckpointError(f"{source}: expected a model folder, found none; {hint}")
    if Path(location).exists() and not (Path(location) / "config.json").is_file():
        raise CheckpointError(f"{source}: expected a model folder with config.json, found none; {hint}")
    with plain_errors(location, hint), quiet(), global_state_kept():  # missing weights are drawn from the global state
        refuse_untrusted(location, location)
        tokenizer = AutoTokenizer.from_pretrained(location, trust_remote_code=False)
        model, info = auto.from_pretrained(
            location, trust_remote_code=False, use_safetensors=True, dtype=torch.float32, output_loading_info=True
        )
    if not tokenizer.is_fast or tokenizer.pad_token_id is None:
        raise UnsupportedModelError(
            f"{source}: expected a fast tokenizer (tokenizer.json) with a padding token, got "
            f"{type(tokenizer).__name__}; {hint}"
        )
    choose_products(model)
    return Opened(open_encoder(model.to(device).eval()), tokenizer, tuple(sorted(info["missing_keys"])))
