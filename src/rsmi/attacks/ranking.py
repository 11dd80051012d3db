"""Which word to try first: places ordered by what the victim says when a word is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from rsmi.attacks.steps import Steps
from rsmi.attacks.victim import Array, Game
from rsmi.records import TextInput

if TYPE_CHECKING:
    from rsmi.attacks.substitution import WordSubstitution

UNKNOWN = "[UNK]"
"""What hides a word where it is not deleted; the same for every victim, as in TextAttack."""


class Ranking(Protocol):
    """Orders the places of the original that may be changed."""

    def __call__(self, attack: WordSubstitution, game: Game, places: Sequence[int]) -> Steps[list[int]]:
        """Return `places`, the most promising first."""
        ...


def by_deletion(attack: WordSubstitution, game: Game, places: Sequence[int]) -> Steps[list[int]]:
    """Order by the loss without the word (TextFooler, BAE)."""
    scores = yield from game.ask([game.original.without(place) for place in places])
    return _descending(places, scores.loss)


def by_hiding(attack: WordSubstitution, game: Game, places: Sequence[int]) -> Steps[list[int]]:
    """Order by the loss with an unknown word in its place (DeepWordBug, BERT-Attack)."""
    scores = yield from game.ask(_hidden(game, places))
    return _descending(places, scores.loss)


def by_weighted_saliency(attack: WordSubstitution, game: Game, places: Sequence[int]) -> Steps[list[int]]:
    """Order by softmax(loss with an unknown word) x loss of the best replacement, 0 where there is none (PWWS)."""
    hidden = yield from game.ask(_hidden(game, places))
    # torch's softmax: TextAttack's, to the last bit
    weights = torch.softmax(torch.from_numpy(_padded(hidden.loss, len(places))), 0).numpy()
    counts: list[int] = []
    texts: list[TextInput] = []
    for place in places:
        options = yield from attack.replacements(game, game.original, place)
        counts.append(len(options))
        texts += [text for text, _ in options]
    scores = yield from game.ask(texts)
    best, start = np.zeros(len(places)), 0
    for row, count in enumerate(counts):
        own = scores.loss[start : start + count]
        best[row] = own.max() if len(own) else 0.0
        start += count
    return _descending(places, weights * best)


def _hidden(game: Game, places: Sequence[int]) -> list[TextInput]:
    words = game.original
    return [words.as_inputs(place, words.variants(place, [UNKNOWN]))[0] for place in places]


def _descending(places: Sequence[int], scores: Array) -> list[int]:
    """Order places by falling score; equal ones from left to right.

    TextAttack sorts with NumPy's unstable sort, whose order of equal scores differs between processors. What the
    budget left unscored comes last.
    """
    order = np.argsort(-_padded(scores, len(places)), kind="stable")
    return [places[place] for place in order]


def _padded(scores: Array, count: int) -> Array:
    return np.concatenate([scores, np.full(count - len(scores), -np.inf, dtype=scores.dtype)])
