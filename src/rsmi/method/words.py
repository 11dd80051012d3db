"""Text -> words -> tokens of a copy in which some words are hidden or left out.

Words are what white space separates. A copy is put together word by word, so it depends on the words it shows and on
nothing else: a hidden word is one mask token however many tokens it had, and a word left out leaves no trace. That is
what certificates against changed words rest on.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import torch
from transformers import PreTrainedTokenizerBase

from rsmi.errors import UnsupportedModelError
from rsmi.method.tokens import Encoded, encode
from rsmi.records import TextInput
from rsmi.seeds import generator

Words: TypeAlias = tuple[tuple[str, ...], ...]
"""Words of a text, or of both texts of a pair: one tuple a text."""

_REMEMBERED = 100_000  # words whose tokens are kept
_UNLIMITED = 10**6


def split_words(text: TextInput) -> Words:
    """Return what white space separates."""
    return tuple(tuple(part.split()) for part in ((text,) if isinstance(text, str) else text))


def num_hidden(num_words: int, rate: float) -> int:
    """Return how many of `num_words` words a copy hides: their share `rate`, rounded, but never all of them."""
    return max(0, min(num_words - 1, int(rate * num_words + 0.5)))


def draw_hidden(num_words: int, rate: float, key: int) -> frozenset[int]:
    """Draw which words a copy hides: every set of `num_hidden` words is equally likely."""
    order = torch.randperm(num_words, generator=generator(key))
    return frozenset(order[: num_hidden(num_words, rate)].tolist())


def draw_deleted(num_words: int, rate: float, key: int) -> frozenset[int]:
    """Draw which words a copy leaves out: each with the same chance, whatever happens to the others."""
    chances = torch.rand(num_words, generator=generator(key), dtype=torch.float64)
    return frozenset(torch.nonzero(chances < rate).flatten().tolist())


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return the least number of items (letters of a string) to add, drop or replace (Levenshtein)."""
    row = list(range(len(other) + 1))
    for place, item in enumerate(one, 1):
        diagonal, row[0] = row[0], place
        for column, compared in enumerate(other, 1):
            best = min(row[column] + 1, row[column - 1] + 1, diagonal + (item != compared))
            diagonal, row[column] = row[column], best
    return row[-1]


@dataclass(frozen=True)
class WordEncoder:
    """Puts rows of tokens together from words."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int
    mask_token_id: int
    _known: dict[str, tuple[int, ...]] = field(default_factory=dict, repr=False)

    def row(self, words: Words, hidden: frozenset[int] = frozenset(), deleted: frozenset[int] = frozenset()) -> Encoded:
        """Encode words, numbered through both texts of a pair, some of them hidden or left out.

        A row longer than `max_length` tokens loses tokens from the end of its longer text.
        """
        sides: list[list[tuple[int, bool]]] = []
        number = 0
        for part in words:
            tokens: list[tuple[int, bool]] = []
            for word in part:
                if number in hidden:
                    tokens.append((self.mask_token_id, False))
                elif number not in deleted:
                    tokens += [(token, True) for token in self._tokens(word, first=not tokens)]
                number += 1
            sides.append(tokens)
        frame = self._frames[len(sides)]
        excess = sum(map(len, sides)) + sum(side < 0 for side, _, _ in frame) - self.max_length
        for _ in range(excess):
            max(sides, key=len).pop()
        return _joined(frame, sides, excess > 0)

    def _tokens(self, word: str, first: bool) -> tuple[int, ...]:
        """Return the tokens of a word as they are in a text, where it stands at the beginning or after a space."""
        written = word if first else self._gap + word
        if written not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[written] = self._plain(written)
        return self._known[written]

    @cached_property
    def _gap(self) -> str:
        """What must stand before a word that follows another: a space where the tokenizer makes it part of the word."""
        whole = self._plain("a b")
        for gap in (" ", ""):
            if whole == self._plain("a") + self._plain(f"{gap}b"):
                return gap
        raise UnsupportedModelError(
            f"expected a tokenizer that reads a text word by word; {type(self.tokenizer).__name__} does not, so words "
            "cannot be hidden or left out one by one; choose a model with a BERT, RoBERTa or T5 tokenizer"
        )

    def _plain(self, text: str) -> tuple[int, ...]:
        (row,) = encode(self.tokenizer, [text], _UNLIMITED)
        return tuple(token for token, free in zip(row.ids, row.maskable, strict=True) if free)

    @cached_property
    def _frames(self) -> dict[int, list[tuple[int, int, int]]]:
        """For one text and for two: special tokens as (-1, token, segment), places of texts as (side, 0, segment)."""
        frames: dict[int, list[tuple[int, int, int]]] = {}
        for sides, example in ((1, "a"), (2, ("a", "a"))):
            (row,) = encode(self.tokenizer, [example], _UNLIMITED)
            types = row.type_ids or (-1,) * len(row)
            listed = zip(row.sequence, row.ids, types, strict=True)
            frame = [(side, token if side < 0 else 0, segment) for side, token, segment in listed]
            frames[sides] = [part for i, part in enumerate(frame) if part[0] < 0 or part not in frame[:i]]
        return frames


def _joined(
    frame: Sequence[tuple[int, int, int]], sides: Sequence[Sequence[tuple[int, bool]]], truncated: bool
) -> Encoded:
    ids: list[int] = []
    types: list[int] = []
    free: list[bool] = []
    sequence: list[int] = []
    for side, token, segment in frame:
        own = [(token, False)] if side < 0 else sides[side]
        ids += [token for token, _ in own]
        free += [maskable for _, maskable in own]
        types += [segment] * len(own) if segment >= 0 else []
        sequence += [side] * len(own)
    offsets = ((0, 0),) * len(ids)  # a copy has no characters of its own
    return Encoded(tuple(ids), tuple(types), tuple(free), offsets, tuple(sequence), truncated)
