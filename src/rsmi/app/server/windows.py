"""A text longer than the model reads -> overlapping windows -> one decision.

Windows have at most the model's number of tokens, begin and end between words where there is white space to cut at, and
share about a quarter with the one before. The probabilities of the text are the mean over its windows, its label is the
class with the highest mean; it abstains where more than half of the windows do. Of a pair, the longer text is cut while
the shorter one is repeated in every window; where that would leave less than half the room, both are cut and every
piece of the one is read with every piece of the other.
"""

from __future__ import annotations

import copy
import math
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from transformers import PreTrainedTokenizerBase

from rsmi.records import Label, Prediction, TextInput

_SHARED = 4  # a window shares 1 / this with the one before
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a text that the model reads at once."""

    text: TextInput
    spans: tuple[Span, ...]
    """First character and one past the last, of the text or of both texts of a pair."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A text as the model reads it."""

    text: TextInput
    tokens: int
    """Without special ones."""
    windows: tuple[Window, ...]

    @property
    def whole(self) -> bool:
        """Whether the model reads it at once."""
        return len(self.windows) == 1


class Windower:
    """Cuts texts with a tokenizer of its own, so that it need not wait for the model's.

    Args:
        tokenizer: The model's; it is copied.
        max_length: Tokens that the model reads, special ones included.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
        self._tokenizer: Any = copy.deepcopy(tokenizer)
        self._tokenizer.backend_tokenizer.no_truncation()
        self._rooms = {pair: max_length - self._tokenizer.num_special_tokens_to_add(pair) for pair in (False, True)}
        self._lock = threading.Lock()

    def cut(self, text: TextInput) -> Cut:
        """Return the windows of a text; it is its own only one where it is short enough."""
        parts = (text,) if isinstance(text, str) else text
        room = self._rooms[len(parts) > 1]
        with self._lock:
            offsets = [self._offsets(part) for part in parts]
            tokens = sum(map(len, offsets))
            if tokens <= room:
                return Cut(text, tokens, (Window(text, tuple((0, len(part)) for part in parts)),))
            rooms = _shares(list(map(len, offsets)), room)
            pieces = [self._pieces(*each) for each in zip(parts, offsets, rooms, strict=True)]
        return Cut(text, tokens, tuple(_window(text, spans) for spans in product(*pieces)))

    def _offsets(self, text: str) -> list[Span]:
        encoded = self._tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)
        return list(encoded.encodings[0].offsets)

    def _pieces(self, text: str, offsets: list[Span], room: int) -> list[Span]:
        if len(offsets) <= room:
            return [(0, len(text))]
        total = len(offsets)
        spaced = [place for place, (start, _) in enumerate(offsets) if place and _at_space(text, start)]
        borders = [0, *spaced, total]
        count = 1 + math.ceil((total - room) / max(1, room - room // _SHARED))
        step = (total - room) / (count - 1)  # windows are spread evenly, so that every word counts for about as much
        start, end = 0, self._end(text, offsets, borders, 0, room)
        pieces = [(offsets[start][0], offsets[end - 1][1])]
        while end < total:
            least, wanted = start + 1, max(start + 1, min(math.ceil(len(pieces) * step), end - 1))
            if total - wanted <= room:  # the last one
                start = _first(borders, max(least, total - room), wanted, max(least, total - room))
            else:
                start = _last(borders, wanted, least, wanted)
            end = self._end(text, offsets, borders, start, room)
            pieces.append((offsets[start][0], offsets[end - 1][1]))
        return [(first, last) for first, last in pieces if not text[first:last].isspace()]

    def _end(self, text: str, offsets: list[Span], borders: list[int], start: int, room: int) -> int:
        """Return the end of a piece; a word may have more tokens at the start of a text than inside of it."""
        end = _last(borders, start + room, start + 1, start + room)
        while end > start + 1 and len(self._offsets(text[offsets[start][0] : offsets[end - 1][1]])) > room:
            end = _last(borders, end - 1, start + 1, end - 1)
        return end


def _shares(lengths: list[int], room: int) -> list[int]:
    """Share out the room: all of it to a text, to a pair by its shorter one, half at most."""
    if len(lengths) == 1:
        return [room]
    shorter = max(1, min(min(lengths), room // 2))
    longer = max(1, room - shorter)
    return [shorter, longer] if lengths[0] <= lengths[1] else [longer, shorter]


def _at_space(text: str, place: int) -> bool:
    """Whether a token that starts at a place starts a word."""
    return text[place - 1 : place].isspace() or text[place : place + 1].isspace()


def _first(borders: list[int], at_least: int, at_most: int, otherwise: int) -> int:
    """Return the first border in a range; where a word is longer than that, what is given."""
    border = borders[bisect_left(borders, at_least)]
    return border if border <= at_most else otherwise


def _last(borders: list[int], at_most: int, at_least: int, otherwise: int) -> int:
    """Return the last border in a range; where a word is longer than that, what is given."""
    border = borders[bisect_right(borders, at_most) - 1]
    return border if border >= at_least else otherwise


def _window(text: TextInput, spans: tuple[Span, ...]) -> Window:
    parts = (text,) if isinstance(text, str) else text
    cut = [part[start:end] for part, (start, end) in zip(parts, spans, strict=True)]
    return Window(cut[0] if isinstance(text, str) else (cut[0], cut[1]), spans)


def merge(cut: Cut, predictions: Sequence[Prediction]) -> Prediction:
    """Return one decision about a text from those about its windows.

    Votes and copies are added up. `tokens` holds those of all windows one after the other, so those that two windows
    share come twice; `masked` and `candidates` are places in it.
    """
    if cut.whole:
        return predictions[0]
    classes = list(predictions[0].probabilities)
    means = {name: sum(own.probabilities[name] for own in predictions) / len(predictions) for name in classes}
    abstains = 2 * sum(own.abstained for own in predictions) > len(predictions)
    starts = [sum(len(own.tokens) for own in predictions[:place]) for place in range(len(predictions))]
    both = list(zip(starts, predictions, strict=True))
    escalated = [own.second_votes for own in predictions if own.second_votes is not None]
    return Prediction(
        text=cut.text,
        label=None if abstains else max(classes, key=means.__getitem__),
        probabilities=means,
        first_votes=_added([own.first_votes for own in predictions]),
        second_votes=_added(escalated) if escalated else None,
        masked=tuple(start + place for start, own in both for place in own.masked),
        candidates=tuple(start + place for start, own in both for place in own.candidates),
        masks_wanted=predictions[0].masks_wanted,
        truncated=any(own.truncated for own in predictions),
        tokens=tuple(
            token if token.sequence < 0 else replace(token, start=token.start + shift, end=token.end + shift)
            for window, own in zip(cut.windows, predictions, strict=True)
            for token in own.tokens
            for shift in (window.spans[max(0, token.sequence)][0],)
        ),
    )


def _added(votes: Sequence[dict[Label, int]]) -> dict[Label, int]:
    return {label: sum(own[label] for own in votes) for label in votes[0]}
