"""The paper's Theorem 1, for comparison with the paper only. It is not a guarantee."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.stats import norm

from rsmi.errors import ConfigError


def paper_radius(noise_stds: Sequence[float], p_top: float, p_other: float) -> float:
    """Return the radius of the paper's Theorem 1, which is false. Never call it a certificate.

    R = 1 / (2 s_1) prod_(l >= 2) (1 + s_l^2) (Phi^-1(p_top) - Phi^-1(p_other)).

    Counterexample: s_1 = s_2 = 0.4, the second map x -> x, the first x -> sign(x). At x = 0.1 the probability of + is
    0.5702, and R = 0.5127 with p_other = 1 - p_top. At x' = -0.4, at distance 0.5 < R, the probability of + is 0.2398:
    the answer has changed inside the "radius". (Noise is added before each map, so the sign is taken of
    x + N(0, 2 * 0.4^2).) The proof takes Phi^-1 of a smoothed function to be s-Lipschitz where it is 1/s-Lipschitz, and
    smoothing to divide a layer's Lipschitz constant by 1 + s^2, which it does not. docs/certificates.md has the rest.

    Args:
        noise_stds: Noise of the layers, first to last.
        p_top: Probability of the top class.
        p_other: Probability of the runner-up.
    """
    if not noise_stds or min(noise_stds) <= 0:
        raise ConfigError(f"expected noise levels above 0, got {list(noise_stds)}")
    growth = math.prod(1 + std**2 for std in noise_stds[1:])
    return float(growth / (2 * noise_stds[0]) * (norm.ppf(p_top) - norm.ppf(p_other)))
