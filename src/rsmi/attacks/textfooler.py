"""TextFooler (Jin et al. 2020) as TextAttack 0.3.11 runs it: neighbours in counter-fitted vectors, ranked by deletion.

Unlike the paper: cosine 0.5 instead of 0.7, and TextAttack's correction of the sentence threshold. Unlike TextAttack:
the sentence encoder is MiniLM with a threshold calibrated to the Universal Sentence Encoder's acceptance rate; ties in
the ranking go from left to right; candidates without a letter or digit are dropped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rsmi.attacks.candidates import Neighbours
from rsmi.attacks.constraints import NearWords, SamePartOfSpeech, SimilarSentence
from rsmi.attacks.ranking import by_deletion
from rsmi.attacks.substitution import WordSubstitution
from rsmi.resources.sentence import TEXTFOOLER_THRESHOLD, SentenceEncoder
from rsmi.resources.stopwords import TEXTFOOLER
from rsmi.resources.tagger import Tagger
from rsmi.resources.vectors import WordVectors


class TextFooler(WordSubstitution):
    """Replaces words by near synonyms of the same part of speech that keep the sentence's meaning.

    Args:
        vectors: Counter-fitted vectors: opened, or a file of them; by default the best ones at hand.
        encoder: Sentence encoder; by default MiniLM.
        tagger: Part-of-speech tagger; by default NLTK's averaged perceptron.
        max_candidates: Neighbours tried for a word.
        min_cosine: Least similarity of a neighbour.
        min_similarity: Least angular similarity of 15-word windows; by default what fits `encoder`.
        **settings: See `WordSubstitution` and `Attack`.
    """

    name = "textfooler"

    def __init__(
        self,
        *,
        vectors: WordVectors | str | Path | None = None,
        encoder: SentenceEncoder | None = None,
        tagger: Tagger | None = None,
        max_candidates: int = 50,
        min_cosine: float = 0.5,
        min_similarity: float = TEXTFOOLER_THRESHOLD,
        **settings: Any,
    ) -> None:
        vectors = WordVectors.open(vectors) if vectors is None or isinstance(vectors, (str, Path)) else vectors
        encoder = encoder or SentenceEncoder.open()
        tagger = tagger or Tagger.open()
        super().__init__(
            candidates=Neighbours(vectors, max_candidates),
            constraints=[
                NearWords(vectors, min_cosine),
                SamePartOfSpeech(tagger),
                SimilarSentence(encoder, min_similarity, "angular", window=15, against="current"),
            ],
            ranking=by_deletion,
            stopwords=TEXTFOOLER,
            frozen_columns=("premise", "hypothesis"),
            own_settings={"max_candidates": max_candidates, "min_cosine": min_cosine, "min_similarity": min_similarity},
            resources={"vectors": vectors.name, "sentence encoder": encoder.name, "tagger": tagger.source},
            **settings,
        )
