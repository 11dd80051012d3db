"""Model name or folder -> classifier and tokenizer; safetensors only, no remote code."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as hf_logging

from rsmi.data.embedded import encoder_folder
from rsmi.errors import CheckpointError, ConfigError, RsmiError, UnsupportedModelError
from rsmi.method.encoder import Encoder, open_encoder
from rsmi.method.products import choose_products
from rsmi.method.t5 import encoder_only_class
from rsmi.method.untrusted import refuse_untrusted
from rsmi.seeds import derive, generator, global_state_kept

EMBEDDED = "minilm"
"""Name of the encoder that needs no model hub."""

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def as_dtype(name: str) -> torch.dtype:
    """Return the type of weights that `name` names."""
    if name not in _DTYPES:
        raise ConfigError(f"dtype: expected one of {', '.join(_DTYPES)}, got {name!r}")
    return _DTYPES[name]


def as_device(device: str | torch.device | None) -> torch.device:
    """Return a device that works here; by default a GPU if there is one, to each process its own."""
    gpu = f"cuda:{os.environ['LOCAL_RANK']}" if "LOCAL_RANK" in os.environ else "cuda"
    try:
        wanted = torch.device(device or (gpu if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=wanted)
        return wanted
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:  # torch raises all of these
        raise ConfigError(f"device: expected cpu, cuda or another device of this machine, got {device!r}") from error


@dataclass(frozen=True, slots=True)
class Pretrained:
    """A loaded classifier, its tokenizer and whether its head is new."""

    encoder: Encoder
    tokenizer: PreTrainedTokenizerBase
    new_head: bool


def load_pretrained(
    source: str, num_labels: int | None, key: int, device: torch.device, dtype: torch.dtype, trained: bool = False
) -> Pretrained:
    """Load a classifier from "minilm", a folder or a hub id.

    Args:
        source: What to load.
        num_labels: Classes of the head; None for those of the checkpoint.
        key: Seed of the head's weights where the checkpoint has none.
        device: Where to put it.
        dtype: Type of its weights.
        trained: The checkpoint must be complete: a missing head is an error, not a fresh start.
    """
    location = locate(source)
    with plain_errors(source), quiet(), global_state_kept():  # transformers draws a missing head globally
        refuse_untrusted(source, location)
        size = {} if num_labels is None else {"num_labels": num_labels}
        config = AutoConfig.from_pretrained(location, trust_remote_code=False, **size)
        tokenizer = AutoTokenizer.from_pretrained(location, trust_remote_code=False)
        model, missing = _load_model(location, config, dtype)
    if len(tokenizer) - len(set(tokenizer.all_special_ids)) < 2:  # transformers makes one up where files are missing
        raise CheckpointError(f"{source}: expected a tokenizer with a vocabulary (tokenizer.json), found none")
    if tokenizer.pad_token_id is None:
        raise UnsupportedModelError(f"{source}: expected a tokenizer with a padding token, got none")
    choose_products(model)
    encoder = open_encoder(model.to(device).eval())
    _check_missing(source, encoder, missing, trained)
    _draw_head(model, missing, key)
    return Pretrained(encoder, tokenizer, bool(missing))


def locate(source: str) -> str:
    """Return the folder or hub id that a user's name of a model stands for."""
    location = str(encoder_folder()) if source == EMBEDDED else source
    there = os.path.exists(location)  # unlike Path.exists, False for a name too long to exist
    if source.startswith(("/", "./", "../", "~")) and not there:
        raise CheckpointError(f"{source}: expected a model folder, found none; check the path")
    if not source or (there and not (Path(location) / "config.json").is_file()):
        raise CheckpointError(
            f"{source or repr(source)}: expected a model folder with config.json, found none; pass one that rsmi train "
            "or save_pretrained wrote"
        )
    return location


def take_over(fresh: Pretrained, trained: Pretrained, weights: Mapping[str, torch.Tensor]) -> None:
    """Give a freshly loaded model the weights of one that is spread over processes, and what was measured on it."""
    fresh.encoder.model.load_state_dict(weights)
    fresh.encoder.model.config = trained.encoder.model.config


def _load_model(location: str, config: PretrainedConfig, dtype: torch.dtype) -> tuple[PreTrainedModel, list[str]]:
    auto: Any = encoder_only_class(config) or AutoModelForSequenceClassification
    model, info = auto.from_pretrained(
        location,
        config=config,
        dtype=dtype,
        use_safetensors=True,
        ignore_mismatched_sizes=True,  # a head with another number of classes is replaced; see _check_missing
        output_loading_info=True,
        **({} if encoder_only_class(config) else {"trust_remote_code": False}),
    )
    mismatched = [entry[0] if isinstance(entry, tuple) else entry for entry in info["mismatched_keys"]]
    return model, sorted({*info["missing_keys"], *mismatched})


def _check_missing(source: str, encoder: Encoder, missing: list[str], trained: bool) -> None:
    if trained and missing:
        raise CheckpointError(
            f"{source}: expected every weight of a trained classifier, {len(missing)} are missing "
            f"(the first: {missing[0]}); save it again with save_pretrained"
        )
    # everything below the head; BERT's and ALBERT's pooler is part of it, and our T5 encoder is its own base
    named = encoder.model.base_model.named_parameters()
    body = {id(parameter) for name, parameter in named if not name.startswith(("pooler", "classifier"))}
    lost = [name for name in missing if id(encoder.model.get_parameter(name)) in body]
    if lost:
        raise CheckpointError(
            f"{source}: expected a pretrained encoder, {len(lost)} of its weights are missing (the first: {lost[0]}); "
            "check that the checkpoint belongs to the architecture in its config.json"
        )


@torch.no_grad()
def _draw_head(model: PreTrainedModel, missing: list[str], key: int) -> None:
    """Draw the matrices of a new head from `key`: transformers would draw them from the global random state."""
    config = model.config
    width = getattr(config, "d_model", None)
    std = width**-0.5 if width and config.model_type in ("t5", "mt5") else getattr(config, "initializer_range", 0.02)
    for name in missing:
        parameter = model.get_parameter(name)
        if parameter.dim() >= 2:
            drawn = torch.empty(parameter.shape).normal_(0.0, std, generator=generator(derive(key, name)))
            parameter.copy_(drawn)
        elif name.endswith("bias"):
            parameter.zero_()


@contextmanager
def plain_errors(source: str, hint: str = "") -> Iterator[None]:
    """Turn whatever loading a model raises into one `CheckpointError`, with a way out where there is one."""
    try:
        yield
    except RsmiError:
        raise
    except Exception as error:  # transformers, safetensors and the hub client raise a dozen types here
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if os.path.isdir(source):
            expected, found = "a whole model folder with safetensors weights", reason
            way_out = "its files are damaged or incomplete: copy or save it again"
        else:
            expected = f"{EMBEDDED!r}, a model folder with safetensors weights, or a hub id that can be reached"
            found, way_out = f"no such folder, and from the hub {reason}", "check the spelling and the network"
        raise CheckpointError(f"cannot load {source!r}: expected {expected}; got {found}; {hint or way_out}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' reports and bars on loading and saving off the terminal; what matters in them is checked."""
    level, bar = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        hf_logging.set_verbosity(level)
        if bar:
            hf_logging.enable_progress_bar()
