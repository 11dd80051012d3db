"""Text with a hidden word -> the tokens a masked language model would put there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, PreTrainedTokenizerBase

from rsmi.data.embedded import encoder_folder
from rsmi.errors import CheckpointError, ConfigError, InputError, UnsupportedModelError
from rsmi.method.pretrained import EMBEDDED, as_device
from rsmi.method.tokens import Encoded, by_length, collate
from rsmi.resources.hub_models import Opened, open_model
from rsmi.resources.masked_lm_weights import BUILD, SHIPPED, apply_head, is_head_folder, read_head, read_record

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float32]

_MAX_LENGTH: Final = 512  # as in TextAttack
_READING_TOKENS: Final = 512  # of a batch in `predict`, where every token gets a row over the whole vocabulary
_HINT: Final = f"run: {BUILD}, or pass a hub id such as bert-base-uncased"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a masked language model expects at each token of a text that it sees whole."""

    ids: tuple[int, ...]
    """The tokens, special ones included."""
    offsets: tuple[tuple[int, int], ...]
    """Characters each token covers; (0, 0) for special tokens that are not in the text."""
    top: Integers
    """Likeliest tokens, best first: (tokens, count)."""
    log_probs: Floats
    """Logarithms of their probabilities: (tokens, count)."""


class MaskedLM:
    """A masked language model that computes its output only where it is read."""

    def __init__(self, opened: Opened, name: str) -> None:
        tokenizer, model = opened.tokenizer, opened.encoder.model
        if tokenizer.mask_token is None:
            raise UnsupportedModelError(f"{name}: expected a tokenizer with a mask token, got none; {_HINT}")
        size = min(len(tokenizer), int(model.config.vocab_size))
        self.name = name
        """What it is, for reports."""
        self.model_type: str = model.config.model_type
        """Family of the model, such as `bert`."""
        self.mask_token: str = tokenizer.mask_token
        """What hides a word."""
        self.tokens: tuple[str, ...] = tuple(token or "" for token in tokenizer.convert_ids_to_tokens(range(size)))
        """The vocabulary as the tokenizer writes it, by id."""
        self._opened = opened
        self._max_length = opened.max_length(_MAX_LENGTH)
        self._at_one_place = False
        self._at_one_place = self._can_read_one_place()

    @classmethod
    def open(cls, source: str | Path | None = None, device: str | torch.device | None = None) -> MaskedLM:
        """Load the embedded model, a folder or a hub id.

        Args:
            source: What to load; None or "minilm" for the embedded encoder with the head that comes with the library.
                A folder written by `rsmi resources build mlm` will do, too.
            device: Where to put it; by default a GPU if there is one.

        Raises:
            MissingResourceError: If the embedded encoder is not installed.
            CheckpointError: If there is no complete masked language model.
            UnsupportedModelError: If its tokenizer has no mask token.
        """
        target = as_device(device)
        own = SHIPPED if source is None or source == EMBEDDED else Path(source)
        if own is SHIPPED or is_head_folder(own):
            tensors, record = read_head(own), read_record(own)
            opened = open_model(AutoModelForMaskedLM, encoder_folder(), target, _HINT)
            apply_head(opened.encoder.model, tensors)
            return cls(opened, f"all-MiniLM-L6-v2 with rsmi's masked-LM head {str(record['sha256'])[:8]}")
        opened = open_model(AutoModelForMaskedLM, str(source), target, _HINT)
        if opened.missing:
            raise CheckpointError(
                f"{source}: expected a masked language model, {len(opened.missing)} of its weights are missing (the "
                f"first: {opened.missing[0]}), as in a checkpoint without a masked-LM head; {_HINT}"
            )
        return cls(opened, str(source))

    @property
    def model(self) -> nn.Module:
        """The model itself, of transformers."""
        model: nn.Module = self._opened.encoder.model
        return model

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Its tokenizer."""
        return self._opened.tokenizer

    def fill(self, texts: Sequence[str], allowed: NDArray[np.bool_], count: int) -> list[list[int]]:
        """Return the likeliest tokens in the place of each text's first mask token.

        Args:
            texts: Each holds `mask_token`, which is read as such.
            allowed: Which tokens may be returned: (vocabulary,).
            count: How many at most.

        Returns:
            Ids for each text, best first; none where the mask lies beyond what the model can read.
        """
        rows = self._rows(texts, count)
        if allowed.shape != (len(self.tokens),):
            raise InputError(f"allowed: expected shape ({len(self.tokens)},), got {allowed.shape}")
        forbidden = torch.from_numpy(~allowed).to(self._opened.encoder.device)
        count = min(count, int(allowed.sum()))
        mask = self._opened.tokenizer.mask_token_id
        found: dict[tuple[int, ...], list[int]] = {row.ids: [] for row in rows}
        distinct = [row for row in {row.ids: row for row in rows}.values() if mask in row.ids]
        for group in by_length([len(row) for row in distinct], self._opened.encoder.token_budget):
            chosen = [distinct[i] for i in group]
            logits = self._at(chosen, [row.ids.index(mask) for row in chosen])
            top = logits.masked_fill(forbidden, -torch.inf).topk(count, dim=-1).indices.tolist()
            found |= {row.ids: ids for row, ids in zip(chosen, top, strict=True)}
        return [found[row.ids] for row in rows]

    def predict(self, texts: Sequence[str], count: int) -> list[Reading]:
        """Return the `count` likeliest tokens at every place of each text, which is not masked."""
        rows = self._rows(texts, count)
        count = min(count, len(self.tokens))
        found: dict[tuple[int, ...], tuple[Integers, Floats]] = {}
        distinct = list({row.ids: row for row in rows}.values())
        for group in by_length([len(row) for row in distinct], _READING_TOKENS):
            chosen = [distinct[i] for i in group]
            log_probs = self._logits(chosen).log_softmax(-1)
            values, ids = (part.cpu().numpy() for part in log_probs[..., : len(self.tokens)].topk(count, dim=-1))
            for place, row in enumerate(chosen):
                # copies: views would keep the whole padded batch alive
                found[row.ids] = ids[place, : len(row)].copy(), values[place, : len(row)].copy()
        return [Reading(row.ids, row.offsets, *found[row.ids]) for row in rows]

    def _rows(self, texts: Sequence[str], count: int) -> list[Encoded]:
        """Tokenize; unlike what a classifier reads, the mask token in these texts is meant as one."""
        if isinstance(texts, str):
            raise InputError("expected a sequence of texts, got one str; put it in a list")
        if count < 1:
            raise ConfigError(f"count: expected 1 or more, got {count}")
        if not texts:
            return []
        output = self._opened.tokenizer(list(texts), truncation=True, max_length=self._max_length)
        types = output.get("token_type_ids") or [() for _ in texts]
        return [
            Encoded(
                tuple(encoding.ids),
                tuple(segments),
                tuple(flag == 0 for flag in encoding.special_tokens_mask),
                tuple(encoding.offsets),
                (),
                truncated=bool(encoding.overflowing),
            )
            for encoding, segments in zip(output.encodings, types, strict=True)
        ]

    @torch.inference_mode()
    def _logits(self, rows: Sequence[Encoded], places: Tensor | None = None) -> Tensor:
        """Return logits at every token, (rows, tokens, vocabulary), or with `places` at one: (rows, 1, vocabulary)."""
        encoder = self._opened.encoder
        batch = collate(rows, int(self._opened.tokenizer.pad_token_id)).to(encoder.device)
        with nullcontext() if places is None else _only_at(encoder.model.base_model, places):
            return encoder.logits(batch)

    def _at(self, rows: Sequence[Encoded], places: Sequence[int]) -> Tensor:
        """Return logits at one place of each row: (rows, vocabulary)."""
        wanted = torch.tensor(places, device=self._opened.encoder.device)
        if self._at_one_place:
            logits = self._logits(rows, wanted)[:, 0]
        else:
            logits = self._logits(rows)[torch.arange(len(rows), device=wanted.device), wanted]
        return logits[:, : len(self.tokens)]

    def _can_read_one_place(self) -> bool:
        """Whether the head gives the same at one place as at all of them: so in every family known to transformers."""
        rows = self._rows([f"{self.mask_token} is a word", self.mask_token], 1)
        places = torch.tensor([row.ids.index(self._opened.tokenizer.mask_token_id) for row in rows])
        whole = self._logits(rows)[torch.arange(len(rows)), places]
        try:
            one = self._logits(rows, places.to(whole.device))
        except (RuntimeError, AttributeError, IndexError, TypeError, ValueError):
            return False
        return one.shape == (*whole[:, None].shape,) and torch.allclose(one[:, 0], whole, atol=1e-3, rtol=1e-3)


@contextmanager
def _only_at(base: nn.Module, places: Tensor) -> Iterator[None]:
    """Hand the head of a model only the token at one place of each row, (rows,), while the block runs.

    A row over the vocabulary for every token is most of the work: 30,522 numbers where the last layer has 384.
    """

    def pick(_base: nn.Module, _args: Any, output: Any) -> Any:
        hidden: Tensor = output[0]
        chosen = hidden[torch.arange(len(hidden), device=hidden.device), places].unsqueeze(1)
        if isinstance(output, tuple):
            return (chosen, *output[1:])
        output.last_hidden_state = chosen
        return output

    handle = base.register_forward_hook(pick)
    try:
        yield
    finally:
        handle.remove()
