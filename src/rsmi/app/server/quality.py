"""How much a request wants to spend -> settings of the method."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from rsmi.config import RsmiConfig

Quality = Literal["fast", "standard", "certified"]
"""`fast`: a few copies, no saliency, one step. `standard`: the model's settings. `certified`: a certificate, too."""

FAST_VOTES = 3


def fast(config: RsmiConfig) -> RsmiConfig:
    """Return settings for a cheap answer: no gradient, three copies at most, one step, no abstention.

    Noise, random masks and random words stay: they cost nothing. It is the weakest of the three against an attacker.
    """
    masking = "none" if config.masking == "gradient" else config.masking
    votes = min(FAST_VOTES, config.first_votes)
    return replace(config, masking=masking, first_votes=votes, two_step=False, stop="paper")
