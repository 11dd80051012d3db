"""The two lists of words that attacks leave alone, exactly as TextAttack 0.3.11 uses them (case-sensitive)."""

from __future__ import annotations

from importlib.resources import files
from typing import Final


def _read(name: str) -> frozenset[str]:
    return frozenset((files("rsmi.resources") / name).read_text(encoding="utf-8").split())


TEXTFOOLER: Final = _read("stopwords_textfooler.txt")
"""The 266 words of TextFooler's own code, as in TextAttack's recipe `textfooler-jin-2019`."""
NLTK_ENGLISH: Final = _read("stopwords_nltk_english.txt")
"""NLTK's English list in its current form of 198 words, the one that `nltk.download("stopwords")` gives.

Older NLTK data have 179 words: without he'd, he'll, he's, i'd, i'll, i'm, i've, it'd, it'll, she'd, she'll, they'd,
they'll, they're, they've, we'd, we'll, we're and we've. A TextAttack run with such data attacks these too.
"""
