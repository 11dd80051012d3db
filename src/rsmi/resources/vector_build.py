"""GloVe + WordNet (or the user's own constraints) -> counter-fitted vectors in the cache."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from rsmi.data.packages import checked
from rsmi.errors import ConfigError, DataError
from rsmi.resources.counterfit import CounterfitConfig, counterfit
from rsmi.resources.packages import GLOVE_VECTORS, GLOVE_WORDS
from rsmi.resources.stopwords import NLTK_ENGLISH, TEXTFOOLER
from rsmi.resources.vector_files import make_table, numbered_lines
from rsmi.resources.vectors import BUILT, WordVectors, store_vectors
from rsmi.resources.wordnet import WordNet

NUM_WORDS: Final = 50_000
"""Words of the built vectors."""
MAX_SENSES: Final = 2
"""Most frequent meanings of a lemma whose synonyms count: rarer ones pull unrelated words together."""
WORDNET_CONFIG: Final = CounterfitConfig(repel_weight=0.2, attract_weight=0.05)
"""Settings for WordNet's constraints. Its synonyms are more, and looser, than the paraphrases the authors used; so they
weigh half as much, and the antonyms twice. Chosen on SimLex-999 and on neighbours in the published vectors."""
FLATTENING: Final = 0.75
"""How far the spread of GloVe's 50 directions is evened out, 0 not at all, 1 to the same spread; chosen likewise.
Without it some thousand words have a cosine above 0.5 with a common word, and the bound of TextFooler means little."""

_WORD: Final = re.compile(r"[a-z]{2,}(?:['-][a-z]+)*")
_Array = np.ndarray[Any, Any]
_Pairs = list[tuple[str, str]]


def build_vectors(
    synonyms: str | Path | None = None,
    antonyms: str | Path | None = None,
    num_words: int = NUM_WORDS,
    config: CounterfitConfig | None = None,
    progress: bool = False,
) -> WordVectors:
    """Counter-fit GloVe's 50-number vectors and keep them in the cache; takes a minute or two.

    Args:
        synonyms: File of synonyms, two words a line, instead of WordNet's; such as the authors' `ppdb_synonyms.txt`.
        antonyms: File of antonyms, likewise.
        num_words: Words to keep, the most frequent ones.
        config: Settings; those of `WORDNET_CONFIG`, or the authors' if files are given, if None.
        progress: Whether to draw bars on stderr.

    Raises:
        MissingResourceError: If a package is not installed; the message names the command.
        DataError: If a file is damaged.
    """
    if num_words < 2:
        raise ConfigError(f"num_words: expected 2 or more, got {num_words}")
    own = [Path(path) for path in (synonyms, antonyms) if path is not None]
    given = [_read_pairs(Path(path)) if path is not None else None for path in (synonyms, antonyms)]
    wordnet = WordNet.open()
    words, vectors = frequent_words(wordnet, num_words)
    together, apart = wordnet_pairs(wordnet, words)
    chosen = config or (CounterfitConfig() if own else WORDNET_CONFIG)
    fitted = counterfit(
        words,
        flattened(vectors, FLATTENING),
        together if given[0] is None else given[0],
        apart if given[1] is None else given[1],
        chosen,
        progress,
    )
    constraints = f"constraints of {', '.join(path.name for path in own)}" if own else "WordNet 3.0"
    name = f"GloVe 6B 50d counter-fitted to {constraints}"
    source = f"{name}: {len(words)} words, built by rsmi (not the published vectors)"
    store_vectors(BUILT, make_table(words, fitted, f"{name}, word"), name, source, progress)
    return WordVectors.open_built()


def frequent_words(wordnet: WordNet, count: int) -> tuple[list[str], _Array]:
    """Return GloVe's most frequent English words and their vectors: stopwords and what WordNet knows, inflected too.

    Names and misspelt words that WordNet does not know would only make bad substitutes.
    """
    import pyarrow.parquet as pq

    every: list[str] = pq.read_table(checked(GLOVE_WORDS))["index"].to_pylist()
    table = np.load(checked(GLOVE_VECTORS), mmap_mode="r", allow_pickle=False)
    kept: list[int] = []
    for i, word in enumerate(every):
        if word in TEXTFOOLER or word in NLTK_ENGLISH or (_WORD.fullmatch(word) and word in wordnet):
            kept.append(i)
            if len(kept) == count:
                break
    return [every[i] for i in kept], np.asarray(table[kept], dtype=np.float64)


def flattened(vectors: _Array, amount: float) -> _Array:
    """Centre vectors and even out the spread of their principal directions; 0 only centres, 1 whitens."""
    centred = vectors - vectors.mean(axis=0)
    spread, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    even: _Array = centred @ directions * np.maximum(spread, spread[-1] * 1e-9) ** (-amount / 2)
    return even


def wordnet_pairs(wordnet: WordNet, words: Sequence[str]) -> tuple[_Pairs, _Pairs]:
    """Return WordNet's synonyms and antonyms among words, carried over to inflected forms.

    Synonyms must be inflected alike (films, movies); antonyms are kept apart in every form (slow, accelerated).
    """
    forms: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for word in words:
        for pos, lemma in wordnet.lemmas(word):
            forms[lemma, pos][inflection(word, lemma, pos)].append(word)
    together: _Pairs = []
    apart: _Pairs = []
    for (lemma, pos), kinds in list(forms.items()):
        for other in _spelled_low(wordnet.lemma_synonyms(lemma, pos, MAX_SENSES, similar=True)):
            theirs = forms.get((other, pos), {})
            together += [(a, b) for kind in kinds.keys() & theirs.keys() for a in kinds[kind] for b in theirs[kind]]
        for other in _spelled_low(wordnet.lemma_antonyms(lemma, pos)):
            theirs = forms.get((other, pos), {})
            apart += [(a, b) for one in kinds.values() for a in one for two in theirs.values() for b in two]
    return together, apart


def inflection(word: str, lemma: str, pos: str) -> str:
    """Return what kind of form of a lemma a word is: base, plural, s, ing, past, comparative, superlative or other."""
    if word == lemma:
        return "base"
    if pos == "n":
        return "plural"
    if pos == "v":
        return "ing" if word.endswith("ing") else "s" if word.endswith("s") else "past"
    if pos == "a":
        return "superlative" if word.endswith("st") else "comparative"
    return "other"


def _spelled_low(names: Iterable[str]) -> list[str]:
    return [name.lower() for name in names]


def _read_pairs(path: Path) -> _Pairs:
    pairs: _Pairs = []
    for number, line in numbered_lines(path):
        fields = line.split()
        if len(fields) == 2:
            pairs.append((fields[0], fields[1]))
        elif fields:
            raise DataError(
                f"{path}, line {number}: expected two words, got {line.strip()[:60]!r}; repair the line or leave the "
                "file out"
            )
    if not pairs:
        raise DataError(f"{path}: expected two words a line, got an empty file; check the path")
    return pairs
