"""Targets and sources of words whose optimal attack is known by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rsmi.attacks.ranking import by_deletion
from rsmi.attacks.steps import Steps
from rsmi.attacks.substitution import WordSubstitution
from rsmi.attacks.words import Words
from rsmi.records import TextInput


class KeywordTarget:
    """P(pos) = sigmoid(sum of the weights of the words); remembers everything it was asked."""

    randomised = False
    uses_gradients = False

    def __init__(self, weights: Mapping[str, float], bias: float = 0.0) -> None:
        self.weights, self.bias = weights, bias
        self.classes_: np.ndarray[Any, Any] = np.array(["neg", "pos"])
        self.calls: list[list[TextInput]] = []

    def query(self, texts: Sequence[TextInput], draw: int = 0) -> np.ndarray[Any, Any]:
        self.calls.append(list(texts))
        shares = [1 / (1 + math.exp(-self.score(text, draw))) for text in texts]
        return np.array([[1 - share, share] for share in shares])

    def score(self, text: TextInput, draw: int) -> float:
        joined = text if isinstance(text, str) else "\n".join(text)
        words = re.findall(r"[a-z0-9]+", joined.lower())
        return self.bias + sum(self.weights.get(word, 0.0) for word in words)


class CoinTarget(KeywordTarget):
    """Each draw adds its own noise to the score."""

    randomised = True

    def score(self, text: TextInput, draw: int) -> float:
        noise = np.random.default_rng([draw, *str(text).encode()]).normal()
        return super().score(text, draw) + noise


class Table:
    """Replacements from a dict."""

    def __init__(self, words: Mapping[str, Sequence[str]]) -> None:
        self.words = words

    def options(self, current: Words, index: int, key: int) -> Steps[list[str]]:
        yield from ()
        return list(self.words.get(current.words[index].lower(), ()))


class TableAttack(WordSubstitution):
    """Greedy substitution from a dict, without constraints."""

    name = "table"

    def __init__(
        self, words: Mapping[str, Sequence[str]], stopwords: frozenset[str] = frozenset(), **parts: Any
    ) -> None:
        parts = {"constraints": (), "ranking": by_deletion, **parts}
        super().__init__(candidates=Table(words), stopwords=stopwords, **parts)
