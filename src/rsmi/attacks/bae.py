"""BAE-R (Garg & Ramakrishnan 2020), as TextAttack 0.3.11 runs it: a masked language model fills the place of the word.

Unlike TextAttack: the sentence encoder is MiniLM with a threshold calibrated to the Universal Sentence Encoder's
acceptance rate, the masked language model is the one at hand (`resources` names it), and ties in the ranking go from
left to right.
"""

from __future__ import annotations

from typing import Any

from rsmi.attacks.candidates import MaskFills
from rsmi.attacks.constraints import SamePartOfSpeech, SimilarSentence
from rsmi.attacks.ranking import by_deletion
from rsmi.attacks.substitution import WordSubstitution
from rsmi.resources.masked_lm import MaskedLM
from rsmi.resources.sentence import BAE_THRESHOLD, SentenceEncoder
from rsmi.resources.stopwords import NLTK_ENGLISH
from rsmi.resources.tagger import Tagger


class BAE(WordSubstitution):
    """Replaces words by what a masked language model expects there, of the same part of speech.

    Args:
        masked_lm: Masked language model: opened, a folder or a hub id; by default the embedded one.
        encoder: Sentence encoder; by default MiniLM.
        tagger: Part-of-speech tagger; by default NLTK's averaged perceptron.
        max_candidates: Words tried in a place.
        min_similarity: Least cosine of 15-word windows to the original's; by default what fits `encoder`.
        **settings: See `WordSubstitution` and `Attack`.
    """

    name = "bae"

    def __init__(
        self,
        *,
        masked_lm: MaskedLM | str | None = None,
        encoder: SentenceEncoder | None = None,
        tagger: Tagger | None = None,
        max_candidates: int = 50,
        min_similarity: float = BAE_THRESHOLD,
        **settings: Any,
    ) -> None:
        masked_lm = MaskedLM.open(masked_lm) if masked_lm is None or isinstance(masked_lm, str) else masked_lm
        encoder = encoder or SentenceEncoder.open()
        tagger = tagger or Tagger.open()
        super().__init__(
            candidates=MaskFills(masked_lm, max_candidates),
            constraints=[
                SamePartOfSpeech(tagger),
                SimilarSentence(encoder, min_similarity, "cosine", window=15, against="original"),
            ],
            ranking=by_deletion,
            stopwords=NLTK_ENGLISH,
            own_settings={"max_candidates": max_candidates, "min_similarity": min_similarity},
            resources={"masked lm": masked_lm.name, "sentence encoder": encoder.name, "tagger": tagger.source},
            **settings,
        )
