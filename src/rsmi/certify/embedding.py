"""`l2-embedding`: noise on the word embeddings -> how far they may move together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rsmi.certify.alignment import count_substitutions
from rsmi.certify.certificate import Certificate, Substitutions
from rsmi.certify.latent import LatentSmoothing, aligned
from rsmi.errors import NotCertifiable
from rsmi.method.noise import EMBEDDINGS, noisy_logits
from rsmi.method.substitution import SynonymTable
from rsmi.method.tokens import Batch, Encoded
from rsmi.records import TextInput


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
        (moved,) = self.moved(text, [other])
        return None if moved is None else moved[0]

    def moved(self, text: TextInput, others: Sequence[TextInput]) -> list[tuple[float, frozenset[int]] | None]:
        """Return the distance to each other text and the tokens that differ; None for another number of tokens."""
        row, *rows = self.engine.encode([text, *others])
        return [self._moved(row, other) if aligned(row, other) else None for other in rows]

    def _moved(self, one: Encoded, two: Encoded) -> tuple[float, frozenset[int]]:
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

    def _noisy_logits(self, states: Tensor, frame: Batch, keys: Sequence[int]) -> Tensor:
        encoder, lengths, std = self._encoder, frame.lengths, self.noise_std
        later = replace(self._plan, embedding_std=0.0)
        blank = self._table(frame.input_ids)

        def drawn(what: str) -> Tensor:
            return self._source(keys, what, lengths)(EMBEDDINGS, states.shape).to(states)

        noisy = states + std * drawn("state")
        if self._hides:
            source = self._source(keys, "saliency", lengths)
            positions = self._salient(
                noisy, frame.maskable, lambda z: noisy_logits(encoder, later, frame, source, z - blank)
            )
            mask = self._table(torch.tensor(self.smoothed.mask_token_id, device=states.device))
            fresh = mask + std * drawn("mask")
            for row, own in enumerate(positions):
                noisy[row, list(own)] = fresh[row, list(own)]
        return noisy_logits(encoder, later, frame, self._source(keys, "later", lengths), noisy - blank)
