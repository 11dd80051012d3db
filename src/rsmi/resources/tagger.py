"""Words -> parts of speech by NLTK's greedy averaged perceptron, for many variants of one word at once.

The answers are NLTK's, to the last bit: fast sums decide only where one tag wins clearly, and a close race is run again
by adding the weights in NLTK's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from rsmi.resources.tagger_files import TaggerData, load_tagger
from rsmi.resources.tagset import universal_tag

_START: Final = ("-START-", "-START2-")
_END: Final = ("-END-", "-END2-")
_CLEAR: Final = 1e-6  # sums of weights differ by some 1e-13 from one order of addition to another
_MAX_KNOWN: Final = 2**17  # options whose features are kept: attacks meet the same words again and again
_OF_OPTION: Final = {0: (1, 2, 6, 7), 1: (11, 12), 2: (13,)}
"""Words before the option -> which of a word's features (see `_features`) the option changes; tags aside."""

_Array = np.ndarray[Any, Any]


class Tagger:
    """Tags English words; built by `open`."""

    def __init__(self, data: TaggerData, source: str) -> None:
        """Lay the weights out as one row per feature."""
        self.source = source
        """Where the weights come from, for reports."""
        self._classes = data.classes
        self._tagdict = data.tagdict
        self._universal = {tag: universal_tag(tag) for tag in {*data.classes, *data.tagdict.values()}}
        self._ids: dict[str, int] = {feature: row for row, feature in enumerate(data.weights, 1)}
        self._rows: _Array = np.zeros((len(self._ids) + 1, len(data.classes)))  # row 0: features without weights
        self._known: dict[str, tuple[str, tuple[int, ...]]] = {}
        column = {tag: i for i, tag in enumerate(data.classes)}
        for row, weights in enumerate(data.weights.values(), 1):
            self._rows[row, [column[tag] for tag in weights]] = list(weights.values())

    @classmethod
    def open(cls, folder: str | Path | None = None) -> Tagger:
        """Open the tagger of `folder`, of the user's NLTK data or of the cache, which is filled on the first call.

        Raises:
            MissingResourceError: If there is none and the package it can be converted from is not installed.
            DataError: If its files are damaged; the message names the file and what to run.
        """
        return cls(*load_tagger(folder))

    def tags(self, words: Sequence[str]) -> list[str]:
        """Return the universal tag of each word of a text, as `nltk.pos_tag(words, tagset="universal")` does."""
        return [self._universal[tag] for tag in self.penn_tags(words)]

    def penn_tags(self, words: Sequence[str]) -> list[str]:
        """Return the Penn Treebank tag of each word of a text, as `nltk.pos_tag(words)` does."""
        return self._tag_first(len(words), words, _context(words))

    def alternatives(self, before: Sequence[str], options: Sequence[str], after: Sequence[str]) -> list[str]:
        """Return the universal tag each option has where it stands between `before` and `after`.

        As in TextAttack's `PartOfSpeech`, it is the tag of the first word of the window that equals the option: an
        option that also occurs in `before` gets the tag of that occurrence.
        """
        if not options:
            return []
        place = len(before)
        context = _context([*before, "", *after])
        normal, rows = self._looked_up(options)
        # a tag depends on the two words after it: all but the last two of `before` are the same for every option
        shared = self._tag_first(max(0, place - 2), before, context)
        tags = [[tag] * len(options) for tag in (*reversed(_START), *shared)]  # tags[i + 2][k]: word i, option k
        for i in range(len(shared), place):
            known = self._tagdict.get(before[i])
            if known:
                tags.append([known] * len(options))
            else:
                changed = rows[:, 3:5] if i == place - 1 else rows[:, 5:]
                tags.append(self._predict_each([before[i]] * len(options), context, i, tags, changed, normal, place))
        tagged = [self._ids.get(f"i-1 tag+i word {tags[-1][k]} {word}", 0) for k, word in enumerate(normal)]
        changed = np.column_stack((rows[:, :3], tagged))
        found = self._predict_each(options, context, place, tags, changed, normal, place)
        tags.append([self._tagdict.get(option) or tag for option, tag in zip(options, found, strict=True)])
        first = {word: i for i, word in reversed(list(enumerate(before)))}
        return [self._universal[tags[first.get(option, place) + 2][k]] for k, option in enumerate(options)]

    def _looked_up(self, options: Sequence[str]) -> tuple[list[str], _Array]:
        """Return the options normalised, and the rows of the features that depend on them alone: (options, 6)."""
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        for option in options:
            if option not in self._known:
                normal = _normal(option)
                features = (
                    f"i suffix {option[-3:]}",
                    f"i pref1 {option[:1]}",
                    f"i word {normal}",
                    f"i+1 word {normal}",
                    f"i+1 suffix {normal[-3:]}",
                    f"i+2 word {normal}",
                )
                self._known[option] = (normal, tuple(self._ids.get(feature, 0) for feature in features))
        known = [self._known[option] for option in options]
        return [normal for normal, _ in known], np.array([rows for _, rows in known])

    def _tag_first(self, count: int, words: Sequence[str], context: list[str]) -> list[str]:
        """Tag the first `count` words, one after the other."""
        previous, earlier = _START
        found: list[str] = []
        for i in range(count):
            tag = self._tagdict.get(words[i]) or self._predict(words[i], context[i : i + 5], previous, earlier)
            found.append(tag)
            previous, earlier = tag, previous
        return found

    def _predict(self, word: str, around: Sequence[str], previous: str, earlier: str) -> str:
        """Tag one word by adding the weights in NLTK's order; of equals the last in the alphabet wins, as there."""
        scores = np.zeros(len(self._classes))
        for feature in _features(word, around, previous, earlier):
            row = self._ids.get(feature)
            if row is not None:
                scores += self._rows[row]
        return self._classes[len(scores) - 1 - int(scores[::-1].argmax())]

    def _predict_each(
        self,
        words: Sequence[str],
        context: list[str],
        i: int,
        tags: Sequence[Sequence[str]],
        changed: _Array,
        normal: Sequence[str],
        place: int,
    ) -> list[str]:
        """Tag word `i` of the window once for each option.

        Args:
            words: What stands at `i`, for each option.
            context: The window, normalised, with nothing at `place`.
            i: The word.
            tags: Tags of the words before it, for each option.
            changed: Rows of the features that the option changes: (options, features).
            normal: The options, normalised.
            place: Where they stand.
        """
        pairs = list(zip(tags[i + 1], tags[i], strict=True))  # what stands before: often the same for all options
        number = {pair: k for k, pair in enumerate(dict.fromkeys(pairs))}
        dropped = _OF_OPTION[place - i]
        kept = np.stack([self._sum_without(words[0], context[i : i + 5], *pair, dropped) for pair in number])
        scores = kept[[number[pair] for pair in pairs]] if len(number) > 1 else kept
        for rows in changed.T:
            scores = scores + self._rows.take(rows, axis=0)
        best = scores.argmax(axis=1)
        found = [self._classes[k] for k in best.tolist()]
        close = scores > (scores.max(axis=1) - _CLEAR)[:, None]
        if np.count_nonzero(close) > len(words):
            for k in np.flatnonzero(close.sum(axis=1) > 1).tolist():
                around = [*context[: place + 2], normal[k], *context[place + 3 :]][i : i + 5]
                found[k] = self._predict(words[k], around, *pairs[k])
        return found

    def _sum_without(
        self, word: str, around: Sequence[str], previous: str, earlier: str, dropped: tuple[int, ...]
    ) -> _Array:
        features = _features(word, around, previous, earlier)
        rows = [self._ids.get(feature, 0) for k, feature in enumerate(features) if k not in dropped]
        total: _Array = self._rows.take(rows, axis=0).sum(axis=0)
        return total


def _features(word: str, around: Sequence[str], previous: str, earlier: str) -> tuple[str, ...]:
    """Return NLTK's features of a word in its order.

    Args:
        word: The word.
        around: Two words before it, itself and two words after it, normalised.
        previous: Tag of the word before it.
        earlier: Tag of the word before that.
    """
    second, first, own, after, later = around
    return (
        "bias",
        f"i suffix {word[-3:]}",
        f"i pref1 {word[:1]}",
        f"i-1 tag {previous}",
        f"i-2 tag {earlier}",
        f"i tag+i-2 tag {previous} {earlier}",
        f"i word {own}",
        f"i-1 tag+i word {previous} {own}",
        f"i-1 word {first}",
        f"i-1 suffix {first[-3:]}",
        f"i-2 word {second}",
        f"i+1 word {after}",
        f"i+1 suffix {after[-3:]}",
        f"i+2 word {later}",
    )


def _context(words: Sequence[str]) -> list[str]:
    return [*_START, *map(_normal, words), *_END]


def _normal(word: str) -> str:
    """Lower the case and hide numbers and compounds, as NLTK does."""
    if "-" in word and word[0] != "-":
        return "!HYPHEN"
    if word.isdigit() and len(word) == 4:
        return "!YEAR"
    if word and word[0].isdigit():
        return "!DIGITS"
    return word.lower()
