"""A word in its text -> words that may take its place."""

from __future__ import annotations

import random
import re
import string
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rsmi.attacks.steps import Steps, ask
from rsmi.attacks.victim import Array
from rsmi.attacks.words import Words, is_one_word
from rsmi.seeds import derive

if TYPE_CHECKING:
    from rsmi.resources.masked_lm import MaskedLM
    from rsmi.resources.vectors import WordVectors
    from rsmi.resources.wordnet import WordNet

_LETTER = re.compile("[A-Za-z]")


class Candidates(Protocol):
    """A source of replacements."""

    def options(self, current: Words, index: int, key: int) -> Steps[list[str]]:
        """Return what may stand at a place of `current`; random sources draw from `key`."""
        ...


class Neighbours:
    """The nearest words in a space of word vectors, in the case of the word they replace (TextFooler)."""

    def __init__(self, vectors: WordVectors, count: int) -> None:
        self.vectors, self.count = vectors, count
        self._lists: dict[str, list[str]] = {}

    def options(self, current: Words, index: int, key: int) -> Steps[list[str]]:
        """Return the neighbours, nearest first."""
        yield from ()
        word = current.words[index]
        if word not in self._lists:
            found = self.vectors.neighbours(word.lower(), self.count)
            self._lists[word] = [cased_like(word, other) for other, _ in found]
        return self._lists[word]


class Synonyms:
    """The lemmas that share a synset of WordNet with the word, whatever their part of speech (PWWS)."""

    def __init__(self, wordnet: WordNet) -> None:
        self.wordnet = wordnet

    def options(self, current: Words, index: int, key: int) -> Steps[list[str]]:
        """Return the synonyms; their case stays as WordNet has it."""
        yield from ()
        return list(self.wordnet.synonyms(current.words[index]))


class MaskFills:
    """What a masked language model puts in the place of the word (BAE)."""

    def __init__(self, model: MaskedLM, count: int) -> None:
        self.model, self.count = model, count
        self._words = [_plain(token) for token in model.tokens]
        self._allowed: Array = np.array([is_one_word(word) and not _is_punctuation(word) for word in self._words])

    def options(self, current: Words, index: int, key: int) -> Steps[list[str]]:
        """Return the likeliest single tokens that hold a letter; their case is the model's."""
        masked = current.variants(index, [self.model.mask_token])
        (ids,) = yield from ask(self._fill, masked)
        return [word for word in (self._words[token] for token in ids) if _LETTER.search(word)]

    def _fill(self, texts: list[str]) -> list[list[int]]:
        return self.model.fill(texts, self._allowed, self.count)


class CharacterEdits:
    """The word with one slip of the keyboard: two letters swapped, one replaced, dropped or added (DeepWordBug)."""

    def options(self, current: Words, index: int, key: int) -> Steps[list[str]]:
        """Return one edit of each kind, at a place drawn from `key`."""
        yield from ()
        word = current.words[index]
        if len(word) < 2:
            return []
        rng = random.Random(derive(key, index, word))
        swapped, replaced, dropped, added = (
            rng.randrange(len(word) - 1),
            rng.randrange(len(word)),
            rng.randrange(len(word)),
            rng.randrange(len(word)),
        )
        return [
            word[:swapped] + word[swapped + 1] + word[swapped] + word[swapped + 2 :],
            word[:replaced] + rng.choice(string.ascii_letters) + word[replaced + 1 :],
            word[:dropped] + word[dropped + 1 :],
            word[:added] + rng.choice(string.ascii_letters) + word[added:],
        ]


def cased_like(model: str, word: str) -> str:
    """Return `word` in the case of `model`: lower, UPPER or Capitalised; mixed case leaves it as it is."""
    if model.islower():
        return word.lower()
    if model.isupper() and len(model) > 1:
        return word.upper()
    return word.capitalize() if model[0].isupper() and model[1:].islower() else word


def _plain(token: str) -> str:
    """Return a token of the model without the marks of its tokenizer."""
    return token.replace("##", "").strip("\u0120")


def _is_punctuation(word: str) -> bool:
    return all(character in string.punctuation for character in word)
