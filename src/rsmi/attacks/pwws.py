"""PWWS (Ren et al. 2019), as TextAttack 0.3.11 runs it: WordNet synonyms, words ranked by saliency x best replacement.

Unlike the paper: no named entities are swapped, and the ranking multiplies scores, not drops of scores. Unlike
TextAttack: ties in the ranking go from left to right.
"""

from __future__ import annotations

from typing import Any

from rsmi.attacks.candidates import Synonyms
from rsmi.attacks.ranking import by_weighted_saliency
from rsmi.attacks.substitution import WordSubstitution
from rsmi.resources.stopwords import NLTK_ENGLISH
from rsmi.resources.wordnet import WordNet


class PWWS(WordSubstitution):
    """Replaces words by synonyms of WordNet, where the victim looks and where it helps most.

    Args:
        wordnet: WordNet; by default the one at hand.
        **settings: See `WordSubstitution` and `Attack`.
    """

    name = "pwws"

    def __init__(self, *, wordnet: WordNet | None = None, **settings: Any) -> None:
        wordnet = wordnet or WordNet.open()
        super().__init__(
            candidates=Synonyms(wordnet),
            constraints=(),
            ranking=by_weighted_saliency,
            stopwords=NLTK_ENGLISH,
            resources={"wordnet": wordnet.source},
            **settings,
        )
