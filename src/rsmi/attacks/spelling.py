"""Words of a text, and what may replace them -> tokens of the victim."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from rsmi.attacks.words import Words
from rsmi.method.tokens import Encoded
from rsmi.records import TextInput


class Spelling:
    """How one victim spells words; remembers what it was asked, so make one for each input under attack."""

    def __init__(self, encode: Callable[[Sequence[TextInput]], list[Encoded]]) -> None:
        self._encode = encode
        self._known: dict[tuple[str, str, str], tuple[int, ...]] = {}

    def tokens(self, words: Words, index: int, replacements: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the ids of the tokens that each replacement is read as at a place of `words`.

        Tokenizers cut at white space first, so a replacement is read between its own punctuation but not in the whole
        text, of which it would be the only part that changes.
        """
        left, right = _glued(words, index)
        new = [word for word in dict.fromkeys(replacements) if (left, word, right) not in self._known]
        for word, row in zip(new, self._encode([left + word + right for word in new]), strict=True):
            places = _covering(row, len(left), len(left) + len(word))
            self._known[left, word, right] = tuple(row.ids[place] for place in places)
        return [self._known[left, word, right] for word in replacements]


def token_places(row: Encoded, words: Words) -> list[tuple[int, ...]]:
    """Return the tokens of each word: none for a word that the victim's length limit cut off."""
    spans = [words.span(index) for index in range(len(words))]
    ends = [end for _, end in spans]
    found: list[list[int]] = [[] for _ in spans]
    second = 0 if words.boundary is None else words.boundary + 1
    for place, (side, (start, end)) in enumerate(zip(row.sequence, row.offsets, strict=True)):
        if side < 0:  # a special token
            continue
        shift = second if side else 0
        index = bisect_right(ends, start + shift)
        while index < len(spans) and spans[index][0] < end + shift:
            found[index].append(place)
            index += 1
    return [tuple(places) for places in found]


def _glued(words: Words, index: int) -> tuple[str, str]:
    """Return what stands before and after a word up to the next white space, with the one before it included."""
    text = words.joined
    start, end = words.span(index)
    second = words.boundary is not None and not words.in_first(index)
    first = words.boundary + 1 if second and words.boundary is not None else 0
    left, right = start, end
    while left > first and not text[left - 1].isspace():
        left -= 1
    while right < len(text) and not text[right].isspace():
        right += 1
    return text[max(first, left - 1) : start], text[end:right]


def _covering(row: Encoded, start: int, end: int) -> list[int]:
    return [
        place
        for place, (side, (first, last)) in enumerate(zip(row.sequence, row.offsets, strict=True))
        if side >= 0 and first < end and last > start
    ]
