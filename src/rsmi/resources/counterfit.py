"""Word vectors + synonyms + antonyms -> counter-fitted vectors (Mrksic et al. 2016).

With d(u, w) = 1 - cos(u, w) the vectors V' minimise, starting from V,

    C = k1 * sum over antonyms of max(0, delta - d(u', w'))
      + k2 * sum over synonyms of max(0, d(u', w') - gamma)
      + k3 * sum over pairs with d(u, w) < rho of max(0, d(u', w') - d(u, w)).

As in the authors' code, a step moves every word by the mean, not the sum, of the gradients of its unmet constraints,
the weights k are at the same time the sizes of the step, the vectors are scaled to length 1 after each step, and a pair
of antonyms is in no other sum. Unlike there, neighbours whose distance has not changed are left alone: the authors'
first step pulls all of them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy import sparse

from rsmi.errors import ConfigError
from rsmi.resources.neighbours import Indices, pairs_within
from rsmi.resources.vector_files import Floats

_Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterfitConfig:
    """Settings of counter-fitting; the defaults are the authors'."""

    repel_weight: float = 0.1
    """Weight of the antonyms (paper: k1)."""
    attract_weight: float = 0.1
    """Weight of the synonyms (paper: k2)."""
    preserve_weight: float = 0.1
    """Weight of the old neighbours (paper: k3)."""
    repel_margin: float = 1.0
    """Least distance of antonyms (paper: delta); 1 is a right angle."""
    attract_margin: float = 0.0
    """Largest distance of synonyms (paper: gamma)."""
    radius: float = 0.2
    """Distance within which two words are neighbours to be preserved (paper: rho)."""
    epochs: int = 20
    """Steps, each over all constraints."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) >= 0:
                raise ConfigError(f"{field.name}: expected 0 or more, got {getattr(self, field.name)}")


@dataclass(frozen=True, slots=True)
class Term:
    """One of the three sums: weight * sum of max(0, sign * (d - margin)) over pairs."""

    pairs: Indices
    """(pairs, 2)."""
    weight: float
    sign: int
    """1 where distances are to shrink, -1 where they are to grow."""
    margin: _Array | float
    """The distance from which on a pair is content, for all pairs or for each."""


def counterfit(
    words: Sequence[str],
    vectors: _Array,
    synonyms: Iterable[tuple[str, str]],
    antonyms: Iterable[tuple[str, str]],
    config: CounterfitConfig | None = None,
    progress: bool = False,
) -> Floats:
    """Pull synonyms together and push antonyms apart, keeping what else is near; the result has rows of length 1.

    Args:
        words: The words.
        vectors: (words, width).
        synonyms: Pairs of words, in either order; those without a vector are left out.
        antonyms: Likewise; a pair listed in both counts as antonyms.
        config: The settings; the authors' if None.
        progress: Whether to draw a bar on stderr.
    """
    from tqdm import tqdm

    chosen = config or CounterfitConfig()
    current = _unit(np.asarray(vectors, dtype=np.float64))
    terms = make_terms(words, current, synonyms, antonyms, chosen, progress)
    for _ in tqdm(range(chosen.epochs), desc="counter-fitting", unit="epoch", disable=not progress, leave=False):
        gradient, counts = gradients(current, terms)
        current = _unit(current - gradient / np.maximum(counts, 1)[:, None])
    return current.astype(np.float32)


def make_terms(
    words: Sequence[str],
    unit: _Array,
    synonyms: Iterable[tuple[str, str]],
    antonyms: Iterable[tuple[str, str]],
    config: CounterfitConfig,
    progress: bool = False,
) -> tuple[Term, Term, Term]:
    """Return the sums that repel, attract and preserve; arguments as for `counterfit`, with rows of length 1."""
    index = {word: i for i, word in enumerate(words)}
    apart = _numbered(antonyms, index)
    together = _numbered(synonyms, index) - apart
    old = _without(pairs_within(unit.astype(np.float32), 1 - config.radius, progress), apart)
    return (
        Term(_as_array(apart), config.repel_weight, -1, config.repel_margin),
        Term(_as_array(together), config.attract_weight, 1, config.attract_margin),
        Term(old, config.preserve_weight, 1, _distances(unit, old)),
    )


def objective(unit: _Array, terms: Iterable[Term]) -> float:
    """Return C at vectors of length 1."""
    return sum(
        float(term.weight * np.maximum(0.0, term.sign * (_distances(unit, term.pairs) - term.margin)).sum())
        for term in terms
    )


def gradients(unit: _Array, terms: Iterable[Term]) -> tuple[_Array, _Array]:
    """Return the gradient of C at vectors of length 1, (words, width), and how many unmet constraints each word has.

    For such vectors the gradient of d(u, w) by u is cos(u, w) * u - w.
    """
    total = np.zeros_like(unit)
    counts = np.zeros(len(unit))
    for term in terms:
        distances = _distances(unit, term.pairs)
        unmet = term.sign * (distances - term.margin) > 0
        first, second = term.pairs[unmet].T
        ends = np.concatenate((first, second))
        others = np.concatenate((second, first))
        cosines = np.tile(1 - distances[unmet], 2)
        links = sparse.csr_array((np.ones(len(ends)), (ends, others)), shape=(len(unit), len(unit)))
        own = np.bincount(ends, cosines, len(unit))
        total += term.sign * term.weight * (own[:, None] * unit - links @ unit)
        counts += np.bincount(ends, minlength=len(unit))
    return total, counts


def _distances(unit: _Array, pairs: Indices) -> _Array:
    cosines: _Array = np.einsum("pw,pw->p", unit[pairs[:, 0]], unit[pairs[:, 1]])
    return 1 - cosines


def _unit(vectors: _Array) -> _Array:
    scaled: _Array = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def _numbered(pairs: Iterable[tuple[str, str]], index: dict[str, int]) -> set[tuple[int, int]]:
    numbered = ((index.get(first, -1), index.get(second, -1)) for first, second in pairs)
    return {(min(pair), max(pair)) for pair in numbered if min(pair) >= 0 and pair[0] != pair[1]}


def _without(pairs: Indices, others: set[tuple[int, int]]) -> Indices:
    return pairs[[tuple(pair) not in others for pair in pairs.tolist()]] if others and len(pairs) else pairs


def _as_array(pairs: set[tuple[int, int]]) -> Indices:
    return np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2)
