"""Text or pair -> words with their places, cut as TextAttack cuts them; all that is not a word stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from rsmi.method.words import edit_distance
from rsmi.records import TextInput

# TextAttack 0.3.11: word characters, the homoglyphs its character attacks write (of which only these three are no
# word characters), and '-_*@, which are stripped where they begin or end a word. It segments Chinese with jieba first;
# here a run of Chinese characters is one word.
_INNER = "'-_*@"
_WORD = re.compile(r"[\w\u02d7`\u00d7'\-*@]+")
_SEPARATOR = "\n"


def split_words(text: str) -> list[str]:
    """Return the words of a string."""
    return [word for word, _ in _located(text)]


def is_one_word(text: str) -> bool:
    """Whether a string holds exactly one word, punctuation aside."""
    return len(_located(text)) == 1


def _located(text: str) -> list[tuple[str, int]]:
    """Return each word and where it starts."""
    found = []
    for match in _WORD.finditer(text):
        run = match[0]
        word = run.lstrip(_INNER)
        start = match.start() + len(run) - len(word)
        word = word.rstrip(_INNER)
        if word:
            found.append((word, start))
    return found


@dataclass(frozen=True)
class Words:
    """A text or a pair, cut into words; never changed, only replaced by another one."""

    joined: str
    """The text, or both texts of a pair with a line break between them."""
    boundary: int | None = None
    """Where in `joined` that line break stands; None for a single text."""
    modified: frozenset[int] = frozenset()
    """Places of the words changed so far."""

    @classmethod
    def of(cls, text: TextInput) -> Words:
        """Cut a text or a pair."""
        return cls(text) if isinstance(text, str) else cls(_SEPARATOR.join(text), len(text[0]))

    @property
    def text(self) -> TextInput:
        """The text or pair as the victim reads it."""
        return self._as_input(self.joined, 0)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words, of both texts of a pair."""
        return tuple(word for word, _ in self._places)

    @cached_property
    def _places(self) -> list[tuple[str, int]]:
        return _located(self.joined)

    def __len__(self) -> int:
        return len(self._places)

    def span(self, index: int) -> tuple[int, int]:
        """Return the first character of a word in `joined`, and one past its last."""
        word, start = self._places[index]
        return start, start + len(word)

    def in_first(self, index: int) -> bool:
        """Whether a word stands in the first text of a pair."""
        return self.boundary is not None and self._places[index][1] < self.boundary

    def variants(self, index: int, replacements: Iterable[str]) -> list[str]:
        """Return `joined` with a word replaced, once for each replacement."""
        start, end = self.span(index)
        left, right = self.joined[:start], self.joined[end:]
        return [left + replacement + right for replacement in replacements]

    def as_inputs(self, index: int, variants: Iterable[str]) -> list[TextInput]:
        """Turn what `variants` made at a word back into texts or pairs."""
        if self.boundary is None:
            return list(variants)
        grows = self.in_first(index)
        return [self._as_input(text, len(text) - len(self.joined) if grows else 0) for text in variants]

    def without(self, index: int) -> TextInput:
        """Return the text without a word and without the space before it (for the first word: after it)."""
        start, end = self.span(index)
        left, right = self.joined[:start], self.joined[end:]
        if index == 0:
            right = right[1:] if right.startswith(" ") else right
        elif right and left.endswith(" "):
            left = left[:-1]
        (text,) = self.as_inputs(index, [left + right])
        return text

    def with_word(self, index: int, replacement: str) -> Words:
        """Return the text with a word replaced; the replacement may hold several words, or none."""
        start, end = self.span(index)
        added = len(split_words(replacement))
        kept = {place if place < index else place + added - 1 for place in self.modified if place != index}
        boundary = self.boundary
        if boundary is not None and start < boundary:
            boundary += len(replacement) - (end - start)
        joined = self.joined[:start] + replacement + self.joined[end:]
        return Words(joined, boundary, frozenset(kept | set(range(index, index + added))))

    def window(self, index: int, size: int | None) -> str:
        """Return the text of `size` words around a word, at the edges the first or last `size` words (None: all)."""
        start, end = self._window_span(index, size)
        return self.joined[start:end]

    def around(self, index: int, size: int | None) -> tuple[str, str]:
        """Return what stands before and after a word in the window around it."""
        (first, last), (start, end) = self._window_span(index, size), self.span(index)
        return self.joined[first:start], self.joined[end:last]

    def _window_span(self, index: int, size: int | None) -> tuple[int, int]:
        if size is None:
            return 0, len(self.joined)
        count, half = len(self), (size - 1) // 2
        if index - half < 0:
            first, last = 0, min(size - 1, count - 1)
        elif index + half >= count:
            first, last = max(0, count - size), count - 1
        else:
            first, last = index - half, index + half
        return self.span(first)[0], self.span(last)[1]

    def _as_input(self, joined: str, shift: int) -> TextInput:
        """Cut a pair at its line break, which moved by `shift` characters."""
        if self.boundary is None:
            return joined
        cut = self.boundary + shift
        return joined[:cut], joined[cut + len(_SEPARATOR) :]


def words_changed(before: Words, after: Words) -> int:
    """Return how many words were replaced, deleted or inserted, at the least."""
    if len(before) == len(after):
        return sum(one != other for one, other in zip(before.words, after.words, strict=True))
    return edit_distance(before.words, after.words)
