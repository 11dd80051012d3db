"""In the style of BERT-Attack (Li et al. 2020): a masked language model reads the whole text and proposes other words.

The parts are TextAttack's (8 candidates, at most 40 % of the words, whole texts compared, words ranked by hiding them).
A word of several tokens is replaced by the likeliest combinations of what is proposed for each, which TextAttack means
to do but leaves unsorted; words of more than three tokens stay. The sentence encoder is MiniLM, at the same threshold.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from rsmi.attacks.constraints import FewWordsChanged, SimilarSentence
from rsmi.attacks.ranking import by_hiding
from rsmi.attacks.steps import Steps, ask
from rsmi.attacks.substitution import WordSubstitution
from rsmi.attacks.words import Words, is_one_word
from rsmi.resources.masked_lm import MaskedLM, Reading
from rsmi.resources.sentence import SentenceEncoder
from rsmi.resources.stopwords import NLTK_ENGLISH

_MAX_TOKENS = 3  # of a word: 8 proposals a token make 512 combinations


class Readings:
    """What a masked language model expects in the place of the word when it can see it."""

    def __init__(self, model: MaskedLM, count: int) -> None:
        self.model, self.count = model, count

    def options(self, current: Words, index: int, key: int) -> Steps[list[str]]:
        """Return the likeliest words, or combinations of tokens."""
        (reading,) = yield from ask(self._read, [current.joined])
        start, end = current.span(index)
        places = [place for place, (first, last) in enumerate(reading.offsets) if start <= first < last <= end]
        if not 1 <= len(places) <= _MAX_TOKENS:
            return []
        ranked = sorted(
            product(*(range(self.count) for _ in places)),
            key=lambda ranks: -sum(reading.log_probs[place][rank] for place, rank in zip(places, ranks, strict=True)),
        )
        found = []
        for ranks in ranked:
            tokens = [self.model.tokens[reading.top[place][rank]] for place, rank in zip(places, ranks, strict=True)]
            whole = len(tokens) > 1 or not tokens[0].startswith("##")
            word = "".join(token.replace("##", "").strip("\u0120") for token in tokens)
            if whole and is_one_word(word) and word not in found:
                found.append(word)
        return found[: self.count]

    def _read(self, texts: list[str]) -> list[Reading]:
        return self.model.predict(texts, self.count)


class BertAttack(WordSubstitution):
    """Replaces words by what a masked language model expects there.

    Args:
        masked_lm: Masked language model: opened, a folder or a hub id; by default the embedded one.
        encoder: Sentence encoder; by default MiniLM.
        max_candidates: Words tried in a place.
        max_share: Most words changed, of all.
        min_similarity: Least cosine of the whole text to the original.
        **settings: See `WordSubstitution` and `Attack`.
    """

    name = "bertattack"

    def __init__(
        self,
        *,
        masked_lm: MaskedLM | str | None = None,
        encoder: SentenceEncoder | None = None,
        max_candidates: int = 8,
        max_share: float = 0.4,
        min_similarity: float = 0.2,
        **settings: Any,
    ) -> None:
        masked_lm = MaskedLM.open(masked_lm) if masked_lm is None or isinstance(masked_lm, str) else masked_lm
        encoder = encoder or SentenceEncoder.open()
        super().__init__(
            candidates=Readings(masked_lm, max_candidates),
            constraints=[
                FewWordsChanged(max_share),
                SimilarSentence(encoder, min_similarity, "cosine", window=None, against="original"),
            ],
            ranking=by_hiding,
            stopwords=NLTK_ENGLISH,
            own_settings={"max_candidates": max_candidates, "max_share": max_share, "min_similarity": min_similarity},
            resources={"masked lm": masked_lm.name, "sentence encoder": encoder.name},
            **settings,
        )
