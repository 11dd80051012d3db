"""An attacker who knows which words the defense will hide, and spends his changes on the others first."""

from __future__ import annotations

from collections.abc import Sequence

from rsmi.attacks.ranking import Ranking
from rsmi.attacks.steps import Steps, ask
from rsmi.attacks.substitution import WordSubstitution
from rsmi.attacks.victim import Game
from rsmi.attacks.whitebox import engine_of
from rsmi.attacks.words import Words
from rsmi.defense import Target
from rsmi.records import TextInput


class BelowSaliency:
    """A ranking that puts words the defense may hide behind all others; otherwise that of an attack.

    The defense hides the tokens with the largest gradient: replacing those is undone by the mask, so changes are spread
    below them. Which they are is read off the target's own saliency of the original.
    """

    def __init__(self, inner: Ranking, target: Target) -> None:
        self.inner, self._engine = inner, engine_of(target)

    def __call__(self, attack: WordSubstitution, game: Game, places: Sequence[int]) -> Steps[list[int]]:
        """Return `places`, those that will not be hidden first."""
        order = yield from self.inner(attack, game, places)
        (hidden,) = yield from ask(self.hidden_words, [game.original.text])
        return [place for place in order if place not in hidden] + [place for place in order if place in hidden]

    def hidden_words(self, texts: Sequence[TextInput]) -> list[frozenset[int]]:
        """Return, for each text, the places of the words of which a token is among those that may be hidden."""
        found = []
        for text, row, outcome in self._engine.outcomes(texts, "label"):
            words = Words.of(text)
            shift = 0 if words.boundary is None else words.boundary + 1
            spans = [
                (row.offsets[i][0] + shift * row.sequence[i], row.offsets[i][1] + shift * row.sequence[i])
                for i in outcome.masks.pool
            ]
            own = {
                index
                for index in range(len(words))
                for start, end in spans
                if start < words.span(index)[1] and words.span(index)[0] < end
            }
            found.append(frozenset(own))
        return found
