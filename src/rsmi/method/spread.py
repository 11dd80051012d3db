"""An encoder -> how far its hidden states spread after each layer: the unit that noise can be measured in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from rsmi.errors import UnsupportedModelError
from rsmi.method.encoder import Encoder, Layer, evaluating, map_hidden
from rsmi.method.tokens import collate, encode

ATTRIBUTE: Final = "rsmi_spread"
"""Where a model's configuration keeps the measurement, so that it is saved and loaded with the weights."""
_TEXTS: Final = (
    "The first half of the film is slow, but the last hour more than makes up for it.",
    "Shares fell for a third day as investors weighed new figures on prices and wages.",
    "I ordered two of these in March; one arrived broken and nobody answered my letters.",
    "What is the name of the river that runs through the old town?",
    "The team won at home on Saturday and now leads the table by four points.",
    "Please send the signed form back by Friday, or call us if anything is unclear.",
    "She had never liked the house, and yet she was sorry to see it go.",
    "Researchers say the new method finds faults in half the time, at a tenth of the cost.",
)
_MAX_TOKENS: Final = 64


def hidden_spread(encoder: Encoder, tokenizer: PreTrainedTokenizerBase) -> tuple[float, ...]:
    """Return the spread of the hidden states after each layer, measured once and kept with the model.

    The spread is the median over the coordinates of their standard deviation over tokens of ordinary English sentences:
    unlike the root mean square it is not carried away by the few huge coordinates that T5 has.

    Raises:
        UnsupportedModelError: If hidden states do not vary, so that there is nothing to measure noise by.
    """
    known = getattr(encoder.model.config, ATTRIBUTE, None)
    if isinstance(known, (list, tuple)) and len(known) == encoder.num_layers:
        return tuple(float(value) for value in known)
    measured = _measure(encoder, tokenizer)
    if min(measured) <= 0:
        raise UnsupportedModelError(
            f"noise_unit='spread': expected hidden states that vary, got spreads {measured}; use noise_unit='absolute'"
        )
    setattr(encoder.model.config, ATTRIBUTE, list(measured))
    return measured


def _measure(encoder: Encoder, tokenizer: PreTrainedTokenizerBase) -> tuple[float, ...]:
    limit = min(_MAX_TOKENS, encoder.max_tokens or _MAX_TOKENS)
    batch = collate(encode(tokenizer, list(_TEXTS), limit), tokenizer.pad_token_id).to(encoder.device)
    with torch.no_grad(), evaluating(encoder.model), watched(encoder.layers) as seen:
        encoder.logits(batch)
    own = batch.maskable
    return tuple(float(seen[number].float()[own].std(dim=0).median()) for number in range(encoder.num_layers))


@contextmanager
def watched(layers: Sequence[Layer]) -> Iterator[dict[int, Tensor]]:
    """Collect what comes out of every layer, noise included, while the block runs."""
    seen: dict[int, Tensor] = {}

    def collector(numbers: Sequence[int]) -> Callable[..., None]:
        left = list(numbers)

        def collect(_module: nn.Module, _args: object, output: Any) -> None:
            number = left.pop(0)
            map_hidden(output, lambda hidden: seen.setdefault(number, hidden))

        return collect

    handles = [layer.module.register_forward_hook(collector(layer.numbers)) for layer in layers]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
