"""`l2-hidden`: noise on the state after a layer -> how far that state may move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rsmi.certify.certificate import Certificate, Substitutions
from rsmi.certify.latent import LatentSmoothing
from rsmi.errors import NotCertifiable
from rsmi.method.noise import logits_after_noise, state_before_noise
from rsmi.method.substitution import SynonymTable
from rsmi.method.tokens import Batch, Encoded


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
        return self._plan.std_after(self._plan.first_layer or 0)

    def substitutions(self, certificate: Certificate, table: SynonymTable) -> Substitutions:
        """Refuse: how far a synonym moves a hidden state depends on all other words."""
        raise NotCertifiable(
            "kind='l2-hidden': the distance of hidden states is known for one text at a time (covers), not for all "
            "ways to replace words; certify with l2-embedding, l0-mask or synonym"
        )

    def _states(self, rows: Sequence[Encoded]) -> Tensor:
        return state_before_noise(self._encoder, self._plan, self.smoothed.batch(rows))

    def _noisy_logits(self, states: Tensor, frame: Batch, keys: Sequence[int]) -> Tensor:
        encoder, plan, lengths = self._encoder, self._plan, frame.lengths
        tokens, first = frame.input_ids.shape[1], plan.first_layer or 0
        shape = torch.Size((states.shape[0], tokens, states.shape[2]))
        drawn = self._source(keys, "state", lengths)(first, shape)[:, : states.shape[1]]
        noisy, read = states + self.noise_std * drawn.to(states), frame.read
        if self._hides:
            source = self._source(keys, "saliency", lengths)
            positions = self._salient(
                noisy, frame.maskable, lambda z: logits_after_noise(encoder, plan, z, read, source, tokens)
            )
            seen = frame.attention_mask.bool()
            for row, own in enumerate(positions):
                seen[row, list(own)] = False  # hidden from all other tokens from here on
            read = seen[:, None, None, :]
        return logits_after_noise(encoder, plan, noisy, read, self._source(keys, "later", lengths), tokens)
