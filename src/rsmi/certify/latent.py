"""Gaussian noise on embeddings or on a hidden state -> votes and L2 radii.

The classifier behind the noise is handed the noisy state and a frame (how many tokens, which of them are special) and
never a token of the text: what it answers is a function of the noisy state and of further, independent draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import comb
from typing import TypeAlias

import torch
from torch import Tensor

from rsmi.certify.alignment import count_substitutions
from rsmi.certify.certificate import Certificate, Substitutions
from rsmi.certify.gaussian import l2_radius, level_for
from rsmi.certify.sampling import Array, Bounds, Cell, Tally
from rsmi.certify.smoothing import Smoothing
from rsmi.errors import NotCertifiable
from rsmi.method.encoder import Encoder
from rsmi.method.masking import hide, top_positions
from rsmi.method.memory import return_free_memory
from rsmi.method.noise import (
    EMBEDDINGS,
    NoisePlan,
    NoiseSource,
    logits_after_noise,
    noisy_logits,
    state_before_noise,
)
from rsmi.method.saliency import evaluating
from rsmi.method.substitution import SynonymTable
from rsmi.method.tokens import Batch, Encoded, by_length, distinct
from rsmi.records import TextInput
from rsmi.seeds import derive

_BACKWARD_COST = 3  # tokens of a pass with gradients weigh as much as so many without
_MOST_MASKS = 2000

_Salient: TypeAlias = Callable[[Tensor, Tensor, Callable[[Tensor], Tensor]], list[tuple[int, ...]]]
"""(noisy states, which tokens may be hidden, states -> logits) -> positions to hide in each row."""


@dataclass(frozen=True)
class LatentSmoothing(Smoothing):
    """What both places of noise share."""

    def strata(self, text: TextInput) -> int:
        """Return one classifier, or one for every set of masks."""
        return len(self._masks(self.engine.encode([text])[0]))

    def votes(self, texts: Sequence[TextInput], asked: Mapping[Cell, Sequence[int]]) -> dict[Cell, Array]:
        """Classify noisy copies, those of all texts batched together."""
        places = sorted({place for place, _ in asked})
        encoded = dict(zip(places, self.engine.encode([texts[place] for place in places]), strict=True))
        rows: list[Encoded] = []
        keys: list[int] = []
        for (place, stratum), own in asked.items():
            row = self._masked(encoded[place], stratum)
            rows += [row] * len(own)
            keys += own
        chosen = self._classify(rows, keys)
        found, start = {}, 0
        for cell, own in asked.items():
            found[cell] = chosen[start : start + len(own)]
            start += len(own)
        return found

    def level(self, text: TextInput, radius: float) -> float:
        """Return Phi(radius / std)."""
        return level_for(radius, self.noise_std)

    def radius(self, text: TextInput, bounds: Bounds, tally: Tally, failure_prob: float) -> float:
        """Return the L2 radius."""
        return l2_radius(bounds.p_lower, bounds.p_upper_other, self.noise_std)

    def covers(self, certificate: Certificate, other: TextInput) -> bool | None:
        """Whether the states of both texts are nearer than the radius; None for another number of tokens."""
        distance = self.distance(certificate.text, other)
        return None if distance is None else distance < certificate.radius

    def distance(self, text: TextInput, other: TextInput) -> float | None:
        """Return the distance of two texts in `space`, the largest over all masks; None where they are not aligned."""
        one, two = self.engine.encode([text, other])
        if not _aligned(one, two):
            return None
        with self.engine.lock, torch.no_grad(), evaluating(self._encoder.model):
            gaps = [
                float((self._states([self._masked(one, s)]) - self._states([self._masked(two, s)])).double().norm())
                for s in range(len(self._masks(one)))
            ]
        return max(gaps)

    @property
    def _encoder(self) -> Encoder:
        return self.engine.loaded.encoder

    @cached_property
    def _plan(self) -> NoisePlan:
        return self.engine.plan

    def _states(self, rows: Sequence[Encoded]) -> Tensor:
        """Return what the noise is added to: (rows, tokens, width)."""
        raise NotImplementedError

    def _noisy_logits(self, states: Tensor, frame: Batch, hide_at: _Salient | None, keys: Sequence[int]) -> Tensor:
        raise NotImplementedError

    def _masks(self, row: Encoded) -> list[tuple[int, ...]]:
        """Return the masks that a text must be certified under: one empty one, or all of `num_masks` tokens."""
        if self.settings.masking != "all-masks":
            return [()]
        free, size = row.maskable_positions, min(self.engine.config.num_masks, sum(row.maskable))
        if comb(len(free), size) > _MOST_MASKS:
            raise NotCertifiable(
                f"masking='all-masks': {comb(len(free), size)} masks of {size} among {len(free)} tokens are too many "
                f"(at most {_MOST_MASKS}); certify with num_masks=1 or a shorter max_length"
            )
        return list(combinations(free, size))

    def _masked(self, row: Encoded, stratum: int) -> Encoded:
        mask = self._masks(row)[stratum]
        return replace(row, ids=hide(row.ids, mask, self.smoothed.mask_token_id)) if mask else row

    def _classify(self, rows: Sequence[Encoded], keys: Sequence[int]) -> Array:
        smoothed, inside = self.smoothed, self.settings.masking == "in-noise"
        budget = max(1, smoothed.token_budget // (_BACKWARD_COST if inside else 1))
        alike = sorted(range(len(rows)), key=lambda i: rows[i].ids)  # copies of a text side by side
        groups = [[alike[i] for i in group] for group in by_length([len(rows[i]) for i in alike], budget)]
        chosen = torch.empty(len(rows), dtype=torch.long)
        with self.engine.lock, torch.no_grad(), evaluating(smoothed.encoder.model):
            for group in groups:
                chosen[group] = self._classify_group([rows[i] for i in group], [keys[i] for i in group]).cpu()
                return_free_memory()
        return chosen.numpy()

    def _classify_group(self, rows: Sequence[Encoded], keys: Sequence[int]) -> Tensor:
        places, which = distinct(row.identity for row in rows)
        states = self._states([rows[i] for i in places])[torch.tensor(which, device=self._encoder.device)]
        frame = self.smoothed.batch([self._framed(row) for row in rows])
        hide_at = self._salient if self.settings.masking == "in-noise" else None
        logits = self._noisy_logits(states, frame, hide_at, keys)
        if not torch.isfinite(logits).all():
            raise NotCertifiable("expected finite logits, got some that are not finite; lower the noise or train again")
        return logits.argmax(-1)

    def _framed(self, row: Encoded) -> Encoded:
        """Return a row of the same length and special tokens with every word token replaced by one and the same."""
        tokenizer = self.engine.loaded.tokenizer
        blank = self.smoothed.mask_token_id if tokenizer.unk_token_id is None else int(tokenizer.unk_token_id)
        ids = tuple(blank if free else token for token, free in zip(row.ids, row.maskable, strict=True))
        return replace(row, ids=ids)

    def _salient(self, noisy: Tensor, maskable: Tensor, logits_of: Callable[[Tensor], Tensor]) -> list[tuple[int, ...]]:
        """Return the most salient positions, found from the noisy states alone."""
        with torch.enable_grad():
            point = noisy.detach().requires_grad_()
            loss = -logits_of(point).log_softmax(-1).max(-1).values.sum()
            (gradient,) = torch.autograd.grad(loss, point)
        saliency = gradient.norm(dim=-1).masked_fill(~maskable, 0.0)
        return top_positions(saliency, maskable, self.engine.config.num_masks)

    def _source(self, keys: Sequence[int], what: str, lengths: Sequence[int]) -> NoiseSource:
        return self.smoothed.source([derive(key, what) for key in keys], lengths)


def _aligned(one: Encoded, two: Encoded) -> bool:
    return (len(one), one.maskable, one.type_ids) == (len(two), two.maskable, two.type_ids)


@dataclass(frozen=True)
class EmbeddingSmoothing(LatentSmoothing):
    """Noise on the word embeddings."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine.config.embedding_noise_std == 0:
            raise NotCertifiable(
                "kind='l2-embedding': the model has no noise at its word embeddings; train it with "
                "embedding_noise_std above 0 (rsmi train --set embedding_noise_std=0.1)"
            )

    @property
    def space(self) -> str:
        """Word embeddings of all tokens together."""
        return "word embeddings, L2 over all tokens"

    @property
    def noise_std(self) -> float:
        """Of the noise at the embeddings."""
        return self.engine.config.embedding_noise_std

    def substitutions(self, certificate: Certificate, table: SynonymTable) -> Substitutions:
        """Count the words that may be replaced by synonyms of as many tokens."""
        return count_substitutions(self, certificate, table)

    def distance(self, text: TextInput, other: TextInput) -> float | None:
        """Return the distance of the unmasked embeddings, which masks can only make smaller."""
        moved = self.moved(text, other)
        return None if moved is None else moved[0]

    def moved(self, text: TextInput, other: TextInput) -> tuple[float, frozenset[int]] | None:
        """Return the distance and the tokens that differ; None for another number of tokens."""
        one, two = self.engine.encode([text, other])
        if not _aligned(one, two):
            return None
        places = [i for i, (a, b) in enumerate(zip(one.ids, two.ids, strict=True)) if a != b]
        ids = torch.tensor([[row.ids[i] for i in places] for row in (one, two)], device=self._encoder.device)
        with torch.no_grad():
            first, second = self._table(ids.long()).double()
        return float((first - second).norm()), frozenset(places)

    def _table(self, ids: Tensor) -> Tensor:
        embedded: Tensor = self._encoder.model.get_input_embeddings()(ids)
        return embedded

    def _states(self, rows: Sequence[Encoded]) -> Tensor:
        return self._table(self.smoothed.batch(rows).input_ids)

    def _noisy_logits(self, states: Tensor, frame: Batch, hide_at: _Salient | None, keys: Sequence[int]) -> Tensor:
        encoder, lengths, std = self._encoder, frame.lengths, self.noise_std
        later = replace(self._plan, embedding_std=0.0)
        blank = self._table(frame.input_ids)

        def drawn(what: str) -> Tensor:
            return self._source(keys, what, lengths)(EMBEDDINGS, states.shape).to(states)

        noisy = states + std * drawn("state")
        if hide_at is not None:
            source = self._source(keys, "saliency", lengths)
            positions = hide_at(noisy, frame.maskable, lambda z: noisy_logits(encoder, later, frame, source, z - blank))
            mask = self._table(torch.tensor(self.smoothed.mask_token_id, device=states.device))
            fresh = mask + std * drawn("mask")
            for row, own in enumerate(positions):
                noisy[row, list(own)] = fresh[row, list(own)]
        return noisy_logits(encoder, later, frame, self._source(keys, "later", lengths), noisy - blank)


@dataclass(frozen=True)
class HiddenSmoothing(LatentSmoothing):
    """Noise on the state after the first noise layer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        config = self.engine.config
        if config.embedding_noise_std > 0:
            raise NotCertifiable(
                "kind='l2-hidden': the model has noise at its word embeddings, so that its first state is random; "
                "certify with kind='l2-embedding'"
            )
        if config.noise_std == 0:
            raise NotCertifiable("kind='l2-hidden': the model has no noise; train it with noise_std above 0")
        if self._encoder.stages is None:
            raise NotCertifiable(
                f"kind='l2-hidden': {type(self._encoder.model).__name__} cannot be run from a layer on; certify with "
                "kind='l2-embedding', or with a BERT, RoBERTa, ELECTRA or DistilBERT"
            )
        last = len(self._encoder.stages.blocks) - 1
        if self.settings.masking == "in-noise" and self._plan.first_layer == last:
            raise NotCertifiable(
                "masking='in-noise': the only noise is after the last layer, where no token is read any more; "
                "certify with masking='none', or add noise to an earlier layer"
            )

    @property
    def space(self) -> str:
        """The state after a layer."""
        return f"hidden state after layer {self._plan.first_layer}, L2 over all tokens"

    @property
    def noise_std(self) -> float:
        """Of the noise after the first noise layer; what comes later buys no radius."""
        return self.engine.config.noise_std

    def substitutions(self, certificate: Certificate, table: SynonymTable) -> Substitutions:
        """Refuse: how far a synonym moves a hidden state depends on all other words."""
        raise NotCertifiable(
            "kind='l2-hidden': the distance of hidden states is known for one text at a time (covers), not for all "
            "ways to replace words; certify with l2-embedding, l0-mask or synonym"
        )

    def _states(self, rows: Sequence[Encoded]) -> Tensor:
        return state_before_noise(self._encoder, self._plan, self.smoothed.batch(rows))

    def _noisy_logits(self, states: Tensor, frame: Batch, hide_at: _Salient | None, keys: Sequence[int]) -> Tensor:
        encoder, plan, lengths = self._encoder, self._plan, frame.lengths
        tokens, first = frame.input_ids.shape[1], plan.first_layer or 0
        shape = torch.Size((states.shape[0], tokens, states.shape[2]))
        drawn = self._source(keys, "state", lengths)(first, shape)[:, : states.shape[1]]
        noisy, read = states + self.noise_std * drawn.to(states), frame.read
        if hide_at is not None:
            source = self._source(keys, "saliency", lengths)
            positions = hide_at(
                noisy, frame.maskable, lambda z: logits_after_noise(encoder, plan, z, read, source, tokens)
            )
            seen = frame.attention_mask.bool()
            for row, own in enumerate(positions):
                seen[row, list(own)] = False  # hidden from all other tokens from here on
            read = seen[:, None, None, :]
        return logits_after_noise(encoder, plan, noisy, read, self._source(keys, "later", lengths), tokens)
