"""Text or pair -> tokens, with the positions that may be masked."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rsmi.errors import InputError, UnsupportedModelError
from rsmi.records import TextInput

_SPECIAL = -1


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text as token ids, not padded."""

    ids: tuple[int, ...]
    type_ids: tuple[int, ...]
    """Segment of each token; empty for models without segments."""
    maskable: tuple[bool, ...]
    """False for special tokens, which are never masked."""
    offsets: tuple[tuple[int, int], ...]
    """Characters each token covers in its own text."""
    sequence: tuple[int, ...]
    """0 for the first text, 1 for the second of a pair, -1 for special tokens."""
    truncated: bool

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def identity(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """All that a model reads of it."""
        return self.ids, self.type_ids

    @property
    def maskable_positions(self) -> tuple[int, ...]:
        """Positions that may be masked."""
        return tuple(i for i, free in enumerate(self.maskable) if free)


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts padded on the right to the longest of them. All tensors are (batch, tokens)."""

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor | None
    maskable: Tensor
    lengths: tuple[int, ...]

    def to(self, device: torch.device) -> Batch:
        """Return the batch on `device`."""
        types = None if self.token_type_ids is None else self.token_type_ids.to(device)
        return Batch(
            self.input_ids.to(device), self.attention_mask.to(device), types, self.maskable.to(device), self.lengths
        )

    @property
    def read(self) -> Tensor | None:
        """Which tokens attention may read, (batch, 1, 1, tokens); None where there is no padding to pass over."""
        return None if min(self.lengths) == max(self.lengths) else self.attention_mask.bool()[:, None, None, :]

    def repeat(self, times: int) -> Batch:
        """Return each row `times` times, copies of a row side by side."""
        return self.rows([row for row in range(len(self.lengths)) for _ in range(times)])

    def rows(self, which: Sequence[int]) -> Batch:
        """Return some of the rows, in this order, any of them more than once."""
        index = torch.tensor(which, device=self.input_ids.device)
        return Batch(
            self.input_ids[index],
            self.attention_mask[index],
            None if self.token_type_ids is None else self.token_type_ids[index],
            self.maskable[index],
            tuple(self.lengths[row] for row in which),
        )


def mask_token_id(tokenizer: PreTrainedTokenizerBase, mask_token: str | None = None) -> int:
    """Return the id of the token that hides another: `mask_token`, the tokenizer's own, or T5's first sentinel.

    Several masks of a T5 copy share one sentinel: numbering them by position would tell the model more than "hidden".
    """
    wanted = [mask_token] if mask_token is not None else [tokenizer.mask_token, "<extra_id_0>"]
    for token in wanted:
        token_id = None if token is None else tokenizer.convert_tokens_to_ids(token)
        if token_id is not None and token_id != tokenizer.unk_token_id:
            return int(token_id)
    tried = " or ".join(repr(token) for token in wanted if token is not None)
    raise UnsupportedModelError(
        f"expected a tokenizer with a mask token; {type(tokenizer).__name__} has no {tried}; "
        "pass RsmiConfig(mask_token=...) naming a token it has, or masking='none'"
    )


def check_text(text: object, where: str) -> TextInput:
    """Return `text` as a string or a pair of strings, or say why it cannot be classified."""
    if isinstance(text, str):
        _check_string(text, where)
        return str(text)
    if isinstance(text, Sequence) and len(text) == 2 and all(isinstance(part, str) for part in text):
        for name, part in zip(("first text", "second text"), text, strict=True):
            _check_string(part, f"{name} of {where}")
        return (str(text[0]), str(text[1]))
    raise InputError(f"{where}: expected a str or a pair of str, got {_describe(text)}")


def _check_string(text: str, where: str) -> None:
    if not text or text.isspace():
        raise InputError(f"{where} is empty; expected at least one visible character; leave it out")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where} holds a lone surrogate (U+{ord(text[error.start]):04X} at character {error.start}), which is not "
            'valid Unicode; decode the source with errors="replace"'
        ) from None


def _describe(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return f"a {type(value).__name__} of {len(value)}"
    return "NaN" if isinstance(value, float) and value != value else type(value).__name__


def encode(tokenizer: PreTrainedTokenizerBase, texts: Sequence[TextInput], max_length: int) -> list[Encoded]:
    """Tokenize `texts` without padding; a text longer than `max_length` tokens is cut and says so.

    What a user writes is never read as a special token: "[MASK]" or "</s>" inside a text would otherwise let an
    attacker place masks of his own, or crash models that count end tokens.
    """
    if not tokenizer.is_fast:
        raise UnsupportedModelError(
            f"expected a fast tokenizer (one with a tokenizer.json), got {type(tokenizer).__name__}; "
            "convert it with transformers, or choose another checkpoint of the same model"
        )
    if not texts:
        return []
    pairs = [text for text in texts if not isinstance(text, str)]
    if pairs and len(pairs) != len(texts):
        raise InputError(f"expected all texts or all pairs, got {len(pairs)} pairs among {len(texts)}")
    pairs = _cut_long(tokenizer, pairs, max_length)
    firsts = [pair[0] for pair in pairs] or [text for text in texts if isinstance(text, str)]
    seconds = [pair[1] for pair in pairs] or None
    output = tokenizer(
        firsts,
        seconds,
        truncation=True,
        max_length=max_length,
        split_special_tokens=True,
        return_special_tokens_mask=True,
    )
    special = special_ids(tokenizer, len(tokenizer))
    type_ids = output.get("token_type_ids")
    rows = []
    for i, encoding in enumerate(output.encodings):
        maskable = tuple(flag == 0 for flag in encoding.special_tokens_mask)
        ids = tuple(
            # Unigram vocabularies hold special tokens as ordinary pieces, which split_special_tokens does not undo
            tokenizer.unk_token_id if free and token_id in special else token_id
            for token_id, free in zip(encoding.ids, maskable, strict=True)
        )
        sequence = tuple(_SPECIAL if part is None else part for part in encoding.sequence_ids)
        offsets = tuple(encoding.offsets)
        types = tuple(type_ids[i]) if type_ids is not None else ()
        rows.append(Encoded(ids, types, maskable, offsets, sequence, truncated=bool(encoding.overflowing)))
    return rows


def _cut_long(
    tokenizer: PreTrainedTokenizerBase, pairs: Sequence[tuple[str, str]], max_length: int
) -> list[tuple[str, str]]:
    """Cut both texts of each pair after twice the tokens that can be read of them.

    To truncate a pair, tokenizers builds every combination of the pieces left over of both texts: two texts of 20,000
    words would take minutes and gigabytes.
    """
    room = 2 * max_length
    cut = list(pairs)
    long = [i for i, pair in enumerate(pairs) if max(map(len, pair)) > room]
    if not long:
        return cut
    output = tokenizer(
        [text for i in long for text in pairs[i]],
        truncation=True,
        max_length=room + 1,
        add_special_tokens=False,
        split_special_tokens=True,
    )
    sides = [(piece, len(piece) + sum(map(len, piece.overflowing))) for piece in output.encodings]
    for i, first, second in zip(long, sides[::2], sides[1::2], strict=True):
        # the longer text stays the longer one: it is given the odd token
        limits = (room + (first[1] > second[1]), room + (second[1] > first[1]))
        ends = [
            piece.offsets[limit - 1][1] if count > limit else None
            for (piece, count), limit in zip((first, second), limits, strict=True)
        ]
        cut[i] = (pairs[i][0][: ends[0]], pairs[i][1][: ends[1]])
    return cut


@lru_cache(maxsize=64)
def special_ids(tokenizer: PreTrainedTokenizerBase, _size: int) -> frozenset[int]:
    """Return the special tokens and T5's sentinels; once a tokenizer, since asking it takes milliseconds."""
    sentinels = (tokenizer.convert_tokens_to_ids(f"<extra_id_{i}>") for i in range(100))
    return frozenset(
        i for i in (*tokenizer.all_special_ids, *sentinels) if i is not None and i != tokenizer.unk_token_id
    )


def distinct(identities: Iterable[Hashable]) -> tuple[list[int], list[int]]:
    """Return the places of identities that are new, and for every identity which of these it is."""
    numbers: dict[Hashable, int] = {}
    places: list[int] = []
    which: list[int] = []
    for place, identity in enumerate(identities):
        number = numbers.setdefault(identity, len(numbers))
        if number == len(places):
            places.append(place)
        which.append(number)
    return places, which


def collate(rows: Sequence[Encoded], pad_token_id: int) -> Batch:
    """Pad `rows` on the right to the longest of them."""
    lengths = tuple(len(row) for row in rows)
    shape = (len(rows), max(lengths))
    ids = torch.full(shape, pad_token_id, dtype=torch.long)
    attention = torch.zeros(shape, dtype=torch.long)
    maskable = torch.zeros(shape, dtype=torch.bool)
    types = torch.zeros(shape, dtype=torch.long) if rows[0].type_ids else None
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row.ids)
        attention[i, : len(row)] = 1
        maskable[i, : len(row)] = torch.tensor(row.maskable)
        if types is not None:
            types[i, : len(row)] = torch.tensor(row.type_ids)
    return Batch(ids, attention, types, maskable, lengths)


def by_length(lengths: Sequence[int], token_budget: int) -> Iterator[list[int]]:
    """Group indices of similar length so that no group, once padded, holds more than `token_budget` tokens.

    Longest first, so that memory peaks at once and not in the middle of a run. A single text longer than the budget
    makes a group of its own.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        rows = max(1, token_budget // max(1, lengths[order[start]]))
        yield order[start : start + rows]
        start += rows


def side_by_side(rows: Sequence[Encoded], token_budget: int) -> list[list[int]]:
    """Group rows like `by_length`, those with the same tokens next to each other: what they share is computed once."""
    alike = sorted(range(len(rows)), key=lambda i: rows[i].ids)
    return [[alike[i] for i in group] for group in by_length([len(rows[i]) for i in alike], token_budget)]
