"""Gaussian noise on embeddings or on a hidden state -> votes and L2 radii.

The classifier behind the noise is handed the noisy state and a frame (how many tokens, which of them are special) and
never a token of the text: what it answers is a function of the noisy state and of further, independent draws.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import comb

import torch
from torch import Tensor

from rsmi.certify.certificate import Certificate
from rsmi.certify.gaussian import l2_radius, level_for
from rsmi.certify.sampling import Array, Bounds, Cell, Tally
from rsmi.certify.smoothing import Smoothing
from rsmi.errors import NotCertifiable
from rsmi.memory import return_free_memory
from rsmi.method.encoder import Encoder, evaluating
from rsmi.method.lanes import each
from rsmi.method.masking import hide, top_positions
from rsmi.method.noise import NoisePlan, NoiseSource
from rsmi.method.saliency import BACKWARD_COST
from rsmi.method.tokens import Batch, Encoded, distinct, side_by_side
from rsmi.records import TextInput
from rsmi.seeds import derive

_MOST_MASKS = 2000


@dataclass(frozen=True)
class LatentSmoothing(Smoothing):
    """What both places of noise share."""

    def strata(self, text: TextInput) -> int:
        """Return one classifier, or one for every set of masks."""
        return len(self._masks(self.engine.encode([text])[0]))

    def votes(self, texts: Sequence[TextInput], asked: Mapping[Cell, Sequence[int]]) -> dict[Cell, Array]:
        """Classify noisy copies, those of all texts batched together."""
        places = sorted({place for place, _ in asked})
        plain = self.engine.encode([texts[place] for place in places])
        encoded = {place: self._masked(row) for place, row in zip(places, plain, strict=True)}
        rows: list[Encoded] = []
        keys: list[int] = []
        for (place, stratum), own in asked.items():
            rows += [encoded[place][stratum]] * len(own)
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
        if not aligned(one, two):
            return None
        with self.engine.lock, torch.no_grad(), evaluating(self._encoder.model):
            gaps = [
                float((self._states([first]) - self._states([second])).double().norm())
                for first, second in zip(self._masked(one), self._masked(two), strict=True)
            ]
        return max(gaps)

    def slope(self, text: TextInput, label: int, shift: Tensor | None, keys: Sequence[int]) -> Tensor:
        """Return the gradient of the mean loss of `label` at a moved state: (tokens, width)."""
        row = self._masked(self.engine.encode([text])[0])[0]
        frame = self.smoothed.batch([self._framed(row)] * len(keys))
        with self.engine.lock, evaluating(self._encoder.model):
            with torch.no_grad():
                state = self._states([row])
            with torch.enable_grad():
                moved = torch.zeros_like(state[0]) if shift is None else shift.detach().clone()
                moved.requires_grad_()
                logits = self._noisy_logits((state + moved).expand(len(keys), -1, -1), frame, keys)
                loss = -logits.log_softmax(-1)[:, label].mean()
                (gradient,) = torch.autograd.grad(loss, moved)
        return gradient

    def votes_moved(self, text: TextInput, shift: Tensor, keys: Sequence[int]) -> Array:
        """Return what copies of a moved state choose."""
        row = self._masked(self.engine.encode([text])[0])[0]
        together = max(1, self.smoothed.token_budget // len(row))
        chosen = []
        with self.engine.lock, torch.no_grad(), evaluating(self._encoder.model):
            state = self._states([row]) + shift
            for start in range(0, len(keys), together):
                own = keys[start : start + together]
                frame = self.smoothed.batch([self._framed(row)] * len(own))
                logits = self._noisy_logits(state.expand(len(own), -1, -1), frame, own)
                chosen.append(logits.argmax(-1).cpu())
        return torch.cat(chosen).numpy()

    @property
    def _hides(self) -> bool:
        """Whether the most salient tokens of a noisy state are hidden."""
        return self.settings.masking == "in-noise"

    @property
    def _encoder(self) -> Encoder:
        return self.engine.loaded.encoder

    @cached_property
    def _plan(self) -> NoisePlan:
        return self.engine.plan

    @abstractmethod
    def _states(self, rows: Sequence[Encoded]) -> Tensor:
        """Return what the noise is added to: (rows, tokens, width)."""

    @abstractmethod
    def _noisy_logits(self, states: Tensor, frame: Batch, keys: Sequence[int]) -> Tensor:
        """Add noise to states and classify them, one draw a key: -> (rows, classes)."""

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

    def _masked(self, row: Encoded) -> list[Encoded]:
        """Return the row under every mask that it must be certified under."""
        token = self.smoothed.mask_token_id
        return [replace(row, ids=hide(row.ids, mask, token)) for mask in self._masks(row)]

    def _classify(self, rows: Sequence[Encoded], keys: Sequence[int]) -> Array:
        smoothed = self.smoothed
        budget = max(1, smoothed.token_budget // (BACKWARD_COST if self._hides else 1))
        lanes = smoothed.lanes(smoothed.encoder, [len(row) for row in rows], budget)
        groups = side_by_side(rows, lanes.token_budget)
        chosen = torch.empty(len(rows), dtype=torch.long)

        def classify(group: Sequence[int]) -> None:
            with torch.no_grad():
                chosen[group] = self._classify_group([rows[i] for i in group], [keys[i] for i in group]).cpu()
            return_free_memory()

        with self.engine.lock, evaluating(smoothed.encoder.model):
            each(classify, groups, lanes)
        return chosen.numpy()

    def _classify_group(self, rows: Sequence[Encoded], keys: Sequence[int]) -> Tensor:
        places, which = distinct(row.identity for row in rows)
        states = self._states([rows[i] for i in places])[torch.tensor(which, device=self._encoder.device)]
        frame = self.smoothed.batch([self._framed(row) for row in rows])
        logits = self._noisy_logits(states, frame, keys)
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


def aligned(one: Encoded, two: Encoded) -> bool:
    """Whether two rows have tokens of the same kind at every place."""
    return (len(one), one.maskable, one.type_ids) == (len(two), two.maskable, two.type_ids)
