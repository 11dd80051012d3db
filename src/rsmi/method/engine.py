"""A loaded model and the settings in force -> a stream of outcomes, a chunk of texts at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from rsmi.config import RsmiConfig
from rsmi.errors import ConfigError
from rsmi.method.decision import Array
from rsmi.method.encoder import Encoder, noise_positions
from rsmi.method.inference import Detail, Outcome, Redraw, infer
from rsmi.method.inputs import check_each
from rsmi.method.noise import NoisePlan
from rsmi.method.pretrained import Pretrained
from rsmi.method.spread import hidden_spread
from rsmi.method.substitution import SynonymTable
from rsmi.method.tokens import Encoded, encode, mask_token_id
from rsmi.method.voting import Smoothed
from rsmi.method.words import WordEncoder, draw_deleted, draw_hidden, split_words
from rsmi.records import TextInput
from rsmi.seeds import derive, drawn, fresh_key

_CHUNK = 256  # texts in flight at a time: enough to fill batches, few enough to keep memory flat


@dataclass(frozen=True, slots=True)
class Engine:
    """Everything a call needs, fixed for that call."""

    loaded: Pretrained
    runner: Encoder
    """The version of the model that answers; see `backends`."""
    config: RsmiConfig
    seed: int | None
    token_budget: int
    synonyms: SynonymTable | None
    """What `config.substitution` draws from."""
    lock: AbstractContextManager[Any]
    """Noise is hooked into the model, so only one thread at a time may run it or its tokenizer; its holder may take it
    again."""
    frozen: bool = False
    """All texts share one draw: the noise of a token follows its place alone, and masks are drawn alike."""

    @property
    def plan(self) -> NoisePlan:
        """Where the noise goes in this model."""
        silent = self.config.noise_std == 0  # then a model with fewer layers than `noise_layers` is fine
        layers = () if silent else noise_positions(self.config.noise_layers, self.loaded.encoder.num_layers)
        units: tuple[float, ...] = ()
        if layers and self.config.noise_unit == "spread":
            spread = hidden_spread(self.loaded.encoder, self.loaded.tokenizer)
            units = tuple(spread[layer] for layer in layers)
        return NoisePlan(layers, self.config.noise_std, self.config.embedding_noise_std, units)

    @property
    def mask_token_id(self) -> int:
        """The token that hides others."""
        if self.config.masking == "none":  # nothing will be masked, so a model without a mask token is fine
            return int(self.loaded.tokenizer.pad_token_id)
        return mask_token_id(self.loaded.tokenizer, self.config.mask_token)

    def encode(self, texts: Sequence[TextInput]) -> list[Encoded]:
        """Tokenize up to the length that both the settings and the model allow."""
        with self.lock:  # a fast tokenizer holds the truncation of its latest call, so threads would disturb each other
            return encode(self.loaded.tokenizer, texts, self.max_tokens)

    @property
    def max_tokens(self) -> int:
        """Tokens read of a text, special ones included."""
        return min(self.config.max_length, self.loaded.encoder.max_tokens or self.config.max_length)

    @property
    def words(self) -> WordEncoder:
        """What encodes copies with words hidden or left out."""
        return WordEncoder(
            self.loaded.tokenizer, self.max_tokens, mask_token_id(self.loaded.tokenizer, self.config.mask_token)
        )

    def redrawn(self, text: TextInput, keys: Sequence[int], words: WordEncoder | None = None) -> list[Encoded]:
        """Encode a text once a key, each time with its words drawn anew: replaced, hidden or left out.

        `words` is what the property of that name returned, which remembers the words it has seen.
        """
        own, config = [derive(key, "words") for key in keys], self.config
        if config.word_mask_rate == config.word_deletion_rate == 0:
            return self.encode([self._synonyms.substitute(text, key) for key in own])
        words, split = words or self.words, split_words(text)
        num = sum(map(len, split))
        with self.lock:  # as in `encode`
            if config.word_mask_rate > 0:
                return [words.row(split, hidden=draw_hidden(num, config.word_mask_rate, key)) for key in own]
            return [words.row(split, deleted=draw_deleted(num, config.word_deletion_rate, key)) for key in own]

    @property
    def _synonyms(self) -> SynonymTable:
        if self.synonyms is None:
            raise ConfigError(
                "substitution: expected a table of synonyms to draw from, got none; "
                "pass RsmiClassifier(synonyms=...) or rsmi train --synonyms FILE"
            )
        return self.synonyms

    def _redraw(self, texts: Sequence[TextInput]) -> Redraw | None:
        if not self.config.draws_words:
            return None
        words = None if self.config.substitution else self.words
        return lambda place, keys: self.redrawn(texts[place], keys, words)

    def outcomes(
        self, texts: Iterable[TextInput], detail: Detail = "votes"
    ) -> Iterator[tuple[TextInput, Encoded, Outcome]]:
        """Decide about texts as they come, in constant memory."""
        root, done = fresh_key(), 0
        for chunk in _chunks(texts):
            rows, outcomes = self._decide(chunk, root, done, detail)
            done += len(chunk)
            yield from zip(chunk, rows, outcomes, strict=True)

    def probabilities(self, texts: Sequence[TextInput], draws: Sequence[int] | None = None) -> Array:
        """Return probabilities, (texts, classes), of texts that are taken as they are, blank ones too.

        Args:
            texts: Texts or pairs.
            draws: Each text's draw, counted from that of `seed`; by default that one for all.
        """
        draws = [0] * len(texts) if draws is None else draws
        if len(draws) != len(texts):
            raise ConfigError(f"draws: expected one for each of {len(texts)} texts, got {len(draws)}")
        root, rows = fresh_key(), []
        for start in range(0, len(texts), _CHUNK):
            part = slice(start, start + _CHUNK)
            outcomes = self._decide(texts[part], root, start, "probabilities", draws[part])[1]
            rows += [outcome.decision.probabilities for outcome in outcomes]
        return np.stack(rows) if rows else np.empty((0, int(self.loaded.encoder.model.config.num_labels)))

    def _decide(
        self, texts: Sequence[TextInput], root: int, done: int, detail: Detail, draws: Sequence[int] = ()
    ) -> tuple[list[Encoded], list[Outcome]]:
        own = draws or [0] * len(texts)
        keys = [self.key(text, root, done + i, draw) for i, (text, draw) in enumerate(zip(texts, own, strict=True))]
        with self.lock:
            rows = self.encode(texts)
            return rows, infer(self.smoothed, self.config, rows, keys, self._redraw(texts), detail)

    def key(self, text: TextInput, root: int, place: int, draw: int = 0) -> int:
        """With a seed the key follows the text, so that neither its neighbours nor its place in a call matter."""
        start = drawn(root if self.seed is None else self.seed, draw)
        if self.frozen:
            return derive(start, "frozen")
        if self.seed is None:
            return derive(start, place)
        return derive(start, text) if isinstance(text, str) else derive(start, *text)

    @property
    def smoothed(self) -> Smoothed:
        """The model with its noise."""
        return Smoothed(
            encoder=self.runner,
            plan=self.plan,
            mask_token_id=self.mask_token_id,
            pad_token_id=self.loaded.tokenizer.pad_token_id,
            token_budget=self.token_budget,
            per_row=self.seed is not None or self.loaded.encoder.device.type == "cpu",
        )


def _chunks(texts: Iterable[TextInput]) -> Iterator[list[TextInput]]:
    """Check texts and hand them on in chunks; those before a broken one are handed on before its error is raised."""
    pending = check_each(texts)
    broken: Exception | None = None
    while broken is None:
        chunk: list[TextInput] = []
        try:
            for text in islice(pending, _CHUNK):
                chunk.append(text)  # not list(): it would lose what came before an error
        except Exception as error:  # whatever the caller's iterable raises is raised again below
            broken = error
        if chunk:
            yield chunk
        elif broken is None:
            return
    raise broken
