"""Text + table of synonyms -> the same text with words replaced at random (SAFER, Ye et al. 2020)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rsmi.errors import DataError
from rsmi.records import TextInput
from rsmi.seeds import derive

WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_BLOCK = 1024  # words compared with all others at a time: bounds the memory


@dataclass(frozen=True)
class SynonymTable:
    """What each word may be replaced by; a word always may stay itself."""

    sets: Mapping[str, tuple[str, ...]]
    """Lower-case word -> its synonyms, itself excluded."""

    @cached_property
    def choices(self) -> dict[str, tuple[str, ...]]:
        """Word -> itself and its synonyms (paper: the perturbation set), in a fixed order."""
        return {word: (word, *(other for other in others if other != word)) for word, others in self.sets.items()}

    @cached_property
    def fingerprint(self) -> str:
        """A number that follows the content of the table."""
        return f"{derive(json.dumps(self.to_dict(), sort_keys=True)):016x}"

    @classmethod
    def from_file(cls, path: str | Path) -> SynonymTable:
        """Read a JSON object of lists: `{"good": ["fine", "great"], ...}`."""
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(
                f'{path}: cannot read a table of synonyms: {error}; expected JSON such as {{"good": ["fine", "great"]}}'
            ) from error
        return cls.from_dict(values, str(path))

    @classmethod
    def from_dict(cls, values: Any, where: str = "synonyms") -> SynonymTable:
        """Check plain JSON values and take them over."""
        if not isinstance(values, Mapping) or not values:
            raise DataError(f"{where}: expected an object of lists, such as {{'good': ['fine']}}, and not an empty one")
        sets = {}
        for word, others in values.items():
            listed = isinstance(others, Sequence) and not isinstance(others, str)
            if not listed or not all(isinstance(item, str) and WORD.fullmatch(item) for item in (word, *others)):
                raise DataError(f"{where}: expected a list of single words for {word!r}, got {others!r}")
            own = word.lower()
            sets[own] = tuple(dict.fromkeys(item.lower() for item in others if item.lower() != own))
        return cls(sets)

    @classmethod
    def from_vectors(
        cls,
        words: Sequence[str],
        vectors: np.ndarray[Any, Any],
        min_cosine: float = 0.8,
        max_synonyms: int = 100,
    ) -> SynonymTable:
        """Take the nearest words in a space of word vectors, such as counter-fitted ones.

        Args:
            words: The words, best first where two of them are as near.
            vectors: (words, width).
            min_cosine: Least similarity of a synonym (SAFER: 0.8).
            max_synonyms: Most synonyms a word gets (SAFER: K = 100).
        """
        unit = np.asarray(vectors, dtype=np.float32)
        unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
        plain = np.array([WORD.fullmatch(word) is not None for word in words])
        sets: dict[str, tuple[str, ...]] = {}
        for start in range(0, len(words), _BLOCK):
            cosines = unit[start : start + _BLOCK] @ unit.T
            for i, row in enumerate(cosines, start):
                if not plain[i]:
                    continue
                row[i] = -1.0
                near = np.flatnonzero((row >= min_cosine) & plain)
                near = near[np.argsort(-row[near], kind="stable")][:max_synonyms]
                if len(near):
                    sets[words[i].lower()] = tuple(words[int(j)].lower() for j in near)
        return cls(sets)

    def to_dict(self) -> dict[str, list[str]]:
        """Return plain JSON values."""
        return {word: list(others) for word, others in self.sets.items()}

    def substitute(self, text: TextInput, key: int) -> TextInput:
        """Replace every word by one drawn evenly from itself and its synonyms; what is not a word stays."""
        rng = random.Random(key)
        if isinstance(text, str):
            return self._substitute(text, rng)
        return self._substitute(text[0], rng), self._substitute(text[1], rng)

    def draws_of(self, word: str) -> tuple[str, ...]:
        """Return what a word is drawn from, each as likely and written like the word: itself first."""
        choices = self.choices.get(word.lower(), (word,))
        return tuple(word if drawn == word.lower() else _cased_like(word, drawn) for drawn in choices)

    def _substitute(self, text: str, rng: random.Random) -> str:
        def draw(match: re.Match[str]) -> str:
            return rng.choice(self.draws_of(match[0])) if match[0].lower() in self.choices else match[0]

        return WORD.sub(draw, text)


def _cased_like(model: str, word: str) -> str:
    if model.isupper() and len(model) > 1:
        return word.upper()
    return word.capitalize() if model[0].isupper() else word


def read_table(path: Path) -> SynonymTable:
    """Read a table from a file, once as long as the file stays as it is."""
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return SynonymTable.from_file(path)  # which says what is wrong
    return _read_once(path, changed)


@lru_cache(maxsize=8)
def _read_once(path: Path, _changed: int) -> SynonymTable:
    return SynonymTable.from_file(path)
