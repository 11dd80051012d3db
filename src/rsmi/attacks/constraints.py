"""Replacements of a word -> those that keep grammar and meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from rsmi.attacks.steps import Steps, ask
from rsmi.attacks.words import Words, split_words
from rsmi.errors import ConfigError
from rsmi.method.words import edit_distance
from rsmi.resources.sentence import Metric, similarity

if TYPE_CHECKING:
    from rsmi.resources.sentence import SentenceEncoder
    from rsmi.resources.tagger import Tagger
    from rsmi.resources.vectors import WordVectors

_BEFORE, _AFTER = 4, 3  # words of context that TextAttack gives the tagger


@dataclass(frozen=True, slots=True)
class Option:
    """One replacement."""

    word: str
    """What is put in."""
    pieces: tuple[str, ...]
    """The words it is cut into: nearly always itself."""
    similarity: float | None = None
    """Of the text to the one it came from, where a constraint measured it."""


class Constraint(Protocol):
    """Keeps some of the replacements."""

    def keep(self, original: Words, current: Words, index: int, options: Sequence[Option]) -> Steps[list[Option]]:
        """Return the options that may stand at a place of `current`."""
        ...


def as_options(words: Sequence[str]) -> list[Option]:
    """Cut replacements into words; those without any are dropped (TextAttack stops with an error there)."""
    return [Option(word, pieces) for word in words if (pieces := tuple(split_words(word)))]


class NearWords:
    """Each word put in is near the one that stood there in a space of word vectors; unknown words pass."""

    def __init__(self, vectors: WordVectors, min_cosine: float) -> None:
        self.vectors, self.min_cosine = vectors, min_cosine
        self._cosines: dict[str, dict[str, float | None]] = {}

    def keep(self, original: Words, current: Words, index: int, options: Sequence[Option]) -> Steps[list[Option]]:
        """Compare with the words of the original."""
        yield from ()
        return [option for option in options if self._near(original.words[index:], option.pieces)]

    def _near(self, before: Sequence[str], pieces: Sequence[str]) -> bool:
        if len(before) < len(pieces):
            return False
        cosines = [self._cosine(old.lower(), new.lower()) for old, new in zip(before, pieces, strict=False)]
        return all(cosine is None or cosine >= self.min_cosine for cosine in cosines)

    def _cosine(self, word: str, other: str) -> float | None:
        known = self._cosines.get(word)
        if known is None:
            known = self._cosines[word] = dict(self.vectors.neighbours(word))
        if other not in known:
            known[other] = self.vectors.cosine(word, other)
        return known[other]


class SamePartOfSpeech:
    """The new word has the part of speech of the old one; nouns and verbs may take each other's place."""

    def __init__(self, tagger: Tagger) -> None:
        self.tagger = tagger

    def keep(self, original: Words, current: Words, index: int, options: Sequence[Option]) -> Steps[list[Option]]:
        """Compare tags within the words around the place in the original."""
        yield from ()
        words = original.words
        # a replacement of several words is compared word by word with what stood there; TextAttack stops with an
        # error where the original has no more words
        fits = [option for option in options if index + len(option.pieces) <= len(words)]
        for place in range(max((len(option.pieces) for option in fits), default=0)):
            concerned = [option for option in fits if len(option.pieces) > place]
            at = index + place
            before, after = words[max(at - _BEFORE, 0) : at], words[at + 1 : at + 1 + _AFTER]
            pieces = [option.pieces[place] for option in concerned]
            tag, *tags = self.tagger.alternatives(before, [words[at], *pieces], after)
            bad = {
                id(option) for option, other in zip(concerned, tags, strict=True) if not _interchangeable(tag, other)
            }
            fits = [option for option in fits if id(option) not in bad]
        return fits


class SimilarSentence:
    """A sentence encoder finds the words around the place much the same.

    Args:
        encoder: Texts -> unit vectors.
        threshold: Least similarity.
        metric: `angular` (1 - angle / pi) or `cosine`.
        window: Words compared, an odd number; texts with fewer words pass. None compares whole texts.
        against: The text before this replacement (`current`) or the `original`.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        threshold: float,
        metric: Metric,
        window: int | None,
        against: Literal["current", "original"],
    ) -> None:
        if window is not None and (window < 1 or window % 2 == 0):
            raise ConfigError(f"window: expected an odd number of words, or None, got {window}")
        self.encoder, self.threshold, self.metric, self.window, self.against = (
            encoder,
            threshold,
            metric,
            window,
            against,
        )

    def keep(self, original: Words, current: Words, index: int, options: Sequence[Option]) -> Steps[list[Option]]:
        """Encode each window once and compare."""
        reference = current if self.against == "current" else original
        around = current.around(index, self.window)
        measured = [self._long_enough(len(current) - 1 + len(option.pieces)) for option in options]
        compared = [option for option, needed in zip(options, measured, strict=True) if needed]
        windows = [self._window(current, index, option, around) for option in compared]
        centres = [_centre(index, option) for option in compared]
        places = {centre: number for number, centre in enumerate(dict.fromkeys(centres))}
        references = [reference.window(centre, self.window) for centre in places]
        vectors = yield from ask(self.encoder, references + windows)
        scores = np.ones(len(options), dtype=np.float32)
        if compared:
            rows = vectors[[places[centre] for centre in centres]]
            scores[measured] = similarity(rows, vectors[len(references) :], self.metric)
        return [
            replace(option, similarity=float(score))
            for option, score in zip(options, scores, strict=True)
            if score >= self.threshold
        ]

    def _long_enough(self, num_words: int) -> bool:
        return self.window is None or num_words >= self.window

    def _window(self, current: Words, index: int, option: Option, around: tuple[str, str]) -> str:
        if option.pieces == (option.word,):
            return option.word.join(around)
        return current.with_word(index, option.word).window(_centre(index, option), self.window)


class FewWordsChanged:
    """At most a share of the words is changed."""

    def __init__(self, max_share: float) -> None:
        self.max_share = max_share

    def keep(self, original: Words, current: Words, index: int, options: Sequence[Option]) -> Steps[list[Option]]:
        """Keep all options or none."""
        yield from ()
        changed = len(current.modified | {index})
        return list(options) if changed <= self.max_share * len(original) else []


class FewEdits:
    """At most so many letters are changed, counted word by word (TextAttack: over the whole text, which is less)."""

    def __init__(self, max_edits: int) -> None:
        self.max_edits = max_edits

    def keep(self, original: Words, current: Words, index: int, options: Sequence[Option]) -> Steps[list[Option]]:
        """Keep the options that the edits so far leave room for."""
        yield from ()
        before, now = original.words, current.words
        spent = sum(edit_distance(before[place], now[place]) for place in current.modified)
        return [option for option in options if spent + edit_distance(before[index], option.word) <= self.max_edits]


def _centre(index: int, option: Option) -> int:
    """Return the word a window is laid around.

    Of a replacement of several words TextAttack takes the one that a set yields first, which is not always the first.
    """
    return next(iter(set(range(index, index + len(option.pieces)))))


def _interchangeable(tag: str, other: str) -> bool:
    return tag == other or {tag, other} <= {"NOUN", "VERB"}
