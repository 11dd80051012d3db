"""Bounds on probabilities -> radii within which Gaussian noise keeps the answer (Cohen et al. 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from scipy.stats import norm

from rsmi.errors import ConfigError


def l2_radius(p_lower: float, p_upper_other: float, noise_std: float) -> float:
    """Return the radius around an input within which the top class stays on top; 0 where nothing is certified.

    For noise N(0, s^2 I) on z and any random function behind it, P(class | z') is at least
    Phi(Phi^-1(P(class | z)) - |z' - z| / s). So the class stays ahead within s / 2 (Phi^-1(p_lower) -
    Phi^-1(p_upper_other)), which is s Phi^-1(p_lower) where nothing is known of the others but p_upper_other = 1 -
    p_lower. Noise that comes later in the network enters through the probabilities only: it buys no radius.
    """
    if not p_lower > p_upper_other:
        return 0.0
    return max(0.0, noise_std / 2 * float(norm.ppf(p_lower) - norm.ppf(p_upper_other)))


def level_for(radius: float, noise_std: float) -> float:
    """Return the probability that must be exceeded for this radius, with nothing known of the other classes."""
    return float(norm.cdf(radius / noise_std))


def combined_std(*stds: float) -> float:
    """Return the noise level that counts where an answer reads several independent noisy copies of one input.

    1 / s^2 = 1 / s_1^2 + 1 / s_2^2 + ...: saliency from one draw and classification from another tell more about the
    input than either alone, so two draws of level s certify like one of s / sqrt(2).
    """
    if not stds or min(stds) <= 0:
        raise ConfigError(f"expected noise levels above 0, got {stds}")
    return math.sqrt(1 / sum(1 / std**2 for std in stds))


def effective_std(stds: Sequence[float], lipschitz: Sequence[float]) -> float:
    """Return the noise level that a stack of noisy layers amounts to at its input: the repaired Theorem 1.

    With y_0 = x, y_j = f_j(y_(j-1) + N(0, s_j^2)) and f_j K_j-Lipschitz for all but the last, the sampled network
    certifies as one with s^2 = s_1^2 + (s_2 / K_1)^2 + (s_3 / (K_1 K_2))^2 + ... at the input. Dot-product attention
    is not Lipschitz (Kim et al. 2021), so that for an ordinary transformer only s_1 is left.

    Args:
        stds: Noise before each layer.
        lipschitz: K_1, ..., one fewer than `stds`; infinite where a layer has none.
    """
    if len(lipschitz) != len(stds) - 1 or min((*stds, *lipschitz), default=0) <= 0:
        raise ConfigError(
            f"expected noise levels and one Lipschitz constant fewer, all above 0; got {stds}, {lipschitz}"
        )
    total, product = stds[0] ** 2, 1.0
    for std, constant in zip(stds[1:], lipschitz, strict=True):
        product *= constant
        total += (std / product) ** 2
    return math.sqrt(total)


def joint_radius(p_lower: float, touched: Fraction, noise_std: float) -> float:
    """Return how far all other words may move, in embedding space, when a few words change in any way; 0 where not.

    With uniform word masks outside and Gaussian noise inside, p(x') >= (1 - D) Phi(Phi^-1((p - D) / (1 - D)) - r / s),
    where D is the chance that a mask leaves a changed word to be seen. Certified while that exceeds 1/2.

    Args:
        p_lower: Bound on the class's probability.
        touched: D: see `masked.chance_seen`.
        noise_std: Of the noise at the embeddings.
    """
    free = 1 - touched
    if Fraction(p_lower) - touched <= Fraction(1, 2):  # also where free <= 1/2
        return 0.0
    inside = float((Fraction(p_lower) - touched) / free)
    return max(0.0, noise_std * float(norm.ppf(inside) - norm.ppf(float(1 / (2 * free)))))
