"""`WordSubstitution`: candidates, constraints and a ranking, put together into TextAttack's greedy search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rsmi.attacks.base import Attack
from rsmi.attacks.candidates import Candidates
from rsmi.attacks.constraints import Constraint, Option, as_options
from rsmi.attacks.ranking import Ranking
from rsmi.attacks.steps import Steps
from rsmi.attacks.victim import Array, Game, Scores
from rsmi.attacks.words import Words
from rsmi.records import TextInput


class WordSubstitution(Attack):
    """Replaces one word after another, the most important first, each by what hurts most, until the answer is wrong.

    A subclass chooses the parts. No word is changed twice, and no stopword at all.

    Args:
        candidates: Where replacements come from.
        constraints: What they must satisfy, cheapest first.
        ranking: Which word comes first.
        stopwords: Words never changed, compared as they are written.
        frozen_columns: Pairs whose columns are named like this keep their first text.
        rank_all_words: Ask about every word when ranking, not only about those that may be changed: TextAttack up to
            0.3.5 did, which makes its query counts higher.
        own_settings: See `Attack`.
        **settings: See `Attack`.
    """

    def __init__(
        self,
        *,
        candidates: Candidates,
        constraints: Sequence[Constraint],
        ranking: Ranking,
        stopwords: frozenset[str],
        frozen_columns: tuple[str, str] | None = None,
        rank_all_words: bool = False,
        own_settings: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(own_settings={**(own_settings or {}), "rank_all_words": rank_all_words}, **settings)
        self.candidates = candidates
        self.constraints = tuple(constraints)
        self.ranking = ranking
        self.stopwords = stopwords
        self.frozen_columns = frozen_columns
        self.rank_all_words = rank_all_words

    def search(self, game: Game) -> Steps[TextInput]:
        """Search greedily, as TextAttack's `GreedyWordSwapWIR` does."""
        current, loss = game.original, game.start.loss[0]
        places = range(len(current)) if self.rank_all_words else self.free_places(game, current)
        order = yield from self.ranking(self, game, places)
        for index in order:
            if game.over:
                break
            found = yield from self.replacements(game, current, index)
            scores = yield from game.ask([text for text, _ in found])
            if not len(scores):
                continue
            ranks = np.argsort(-scores.loss, kind="stable")
            if not scores.loss[ranks[0]] > loss:
                continue
            if scores.wrong[ranks[0]]:
                text, _ = found[_most_similar(ranks, scores, [option for _, option in found])]
                return text
            current = current.with_word(index, found[ranks[0]][1].word)
            loss = scores.loss[ranks[0]]
        return current.text

    def replacements(self, game: Game, current: Words, index: int) -> Steps[list[tuple[TextInput, Option]]]:
        """Return the texts that may follow `current` when one word is replaced, sorted, with their replacements."""
        if not self._is_free(game, current, index):
            return []
        word = current.words[index]
        proposed = yield from self.candidates.options(current, index, game.key)
        options = as_options([other for other in proposed if other != word])
        for constraint in self.constraints:
            options = yield from constraint.keep(game.original, current, index, options)
        joined = current.variants(index, [option.word for option in options])
        ordered = sorted(zip(joined, options, strict=True), key=lambda pair: pair[0])
        texts = current.as_inputs(index, [text for text, _ in ordered])
        return [(text, option) for text, (_, option) in zip(texts, ordered, strict=True)]

    def free_places(self, game: Game, current: Words) -> list[int]:
        """Return the places of `current` that may be changed."""
        return [index for index in range(len(current)) if self._is_free(game, current, index)]

    def _is_free(self, game: Game, current: Words, index: int) -> bool:
        if index >= len(current) or index in current.modified or current.words[index] in self.stopwords:
            return False
        return not (game.columns == self.frozen_columns and current.in_first(index))


def _most_similar(ranks: Array, scores: Scores, options: Sequence[Option]) -> int:
    """Among the best options that fool the victim, return the one most like the text it came from.

    Where no constraint measured similarity, that is the best one.
    """
    best, highest = int(ranks[0]), -np.inf
    for rank in ranks:
        measured = options[rank].similarity
        if not scores.wrong[rank] or measured is None:
            break
        if measured > highest:
            best, highest = int(rank), measured
    return best
