"""A victim, a sentence encoder and a masked language model small enough to write down: for golden results of attacks.

Each is a pure function of strings and of the tables in tests/golden/textattack.json, the same on every machine.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

_WORDS = re.compile(r"\w+")
_MASK = "[MASK]"


@lru_cache(maxsize=100_000)
def hashed(key: str, size: int) -> np.ndarray:
    """Return `size` numbers between -1 and 1 that belong to `key`."""
    raw = b"".join(
        hashlib.blake2b(f"{part}:{key}".encode(), digest_size=64).digest() for part in range((size + 7) // 8)
    )
    return np.frombuffer(raw, dtype="<u8")[:size].astype(np.float64) / 2.0**63 - 1


class LinearVictim:
    """A classifier whose logits are sums over words; an early word counts more, so that no two words tie."""

    randomised = False
    uses_gradients = False

    def __init__(self, classes: Sequence[str], weights: dict[str, list[float]]) -> None:
        self.classes_ = np.array(classes)
        self.weights = {word: np.array(row) for word, row in weights.items()}

    def query(self, texts: Sequence[str | tuple[str, str]], draw: int = 0) -> np.ndarray:
        """Return probabilities, (texts, classes); a word without weights has small ones of its own."""
        rows = np.stack([self._logits(text) for text in texts])
        shares = np.exp(rows - rows.max(1, keepdims=True))
        return shares / shares.sum(1, keepdims=True)

    def _logits(self, text: str | tuple[str, str]) -> np.ndarray:
        joined = text if isinstance(text, str) else " ".join(text)
        total = 0.1 * hashed("<bias>", len(self.classes_))
        for place, word in enumerate(_WORDS.findall(joined.lower())):
            known = self.weights.get(word)
            row = 0.3 * hashed(word, len(self.classes_)) if known is None else known
            total += row / (1 + 0.03 * place)
        return 0.6 * total


def encode(sentences: Sequence[str]) -> np.ndarray:
    """Return a vector for each sentence, (sentences, 24) in float64: the sum of its words' vectors."""
    rows = []
    for sentence in sentences:
        words = _WORDS.findall(sentence.lower())
        rows.append(sum(((1.5 + hashed(word, 25)[24]) * hashed(word, 25)[:24] for word in words), np.full(24, 0.1)))
    return np.stack(rows)


class ToyMaskedLM:
    """A masked language model that looks at the words beside the mask."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = list(tokens)

    def logits(self, masked: str) -> np.ndarray:
        """Return a logit for each token, (tokens,), at the first `[MASK]`; special tokens are out of the question."""
        left, _, right = masked.partition(_MASK)
        before = (_WORDS.findall(left.lower()) or ["<start>"])[-1]
        after = (_WORDS.findall(right.lower()) or ["<end>"])[0]
        rows = [
            -50.0
            if token.startswith("[")
            else 3 * hashed(f"{before} {token}", 1)[0] + 2 * hashed(f"{token} {after}", 1)[0]
            for token in self.tokens
        ]
        return np.array(rows)
