"""TextAttack without its downloads: import it quietly, and hand its recipes our lexicons and models instead."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from rsmi.errors import MissingResourceError

Array: TypeAlias = np.ndarray[Any, Any]

INSTALL: Final = 'pip install "rsmi[textattack]"'
_POST_INSTALL: Final = "post_install_check_3"  # with this file in its cache, TextAttack downloads nothing at import
_ENCODERS: Final = ("SBERT", "UniversalSentenceEncoder")
_MASKED_LM: Final = "WordSwapMaskedLM"
_NEEDS: Final = {
    "vectors": ("ThoughtVector", "WordEmbeddingDistance", "WordSwapEmbedding"),
    "encoder": _ENCODERS,
    "masked_lm": (_MASKED_LM,),
}
_ONLY_DOWNLOADED: Final = {
    "GPT2": "GPT-2",
    "Google1BillionWordsLanguageModel": "the language model of 1 billion words",
    "LearningToWriteLanguageModel": "the language model of L2W",
    "WordSwapHowNet": "HowNet",
    "transformers": "distilroberta-base",
}
"""What some recipes reach for by name, and nothing of ours can stand in for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestResources:
    """What stands in for the files TextAttack would download; a recipe that needs one left out is refused."""

    words: Sequence[str] | None = None
    """Vocabulary of the word vectors, in lower case."""
    vectors: Array | None = None
    """(words, dimensions): the word vectors."""
    neighbours: Any = None
    """(words, 1 + neighbours): each word's own number, then those of the nearest others, nearest first.

    An array, or whatever returns such a row for a number in square brackets.
    """
    encode: Callable[[list[str]], Array] | None = None
    """Sentences -> (sentences, dimensions)."""
    masked_lm: Any = None
    """A masked language model of transformers."""
    masked_lm_tokenizer: Any = None
    """Its tokenizer."""
    nltk_data: Path | None = None
    """An NLTK data folder with stopwords, WordNet, universal tagset and perceptron tagger; not writable by others."""
    downloads: bool = False
    """Let TextAttack fetch what is left out."""


def require_textattack() -> None:
    """Raise MissingResourceError unless TextAttack is installed; it is not imported, which takes seconds."""
    if find_spec("textattack") is None:
        raise MissingResourceError(_missing("no such package"))


def load_textattack(nltk_data: Path | None = None, *, downloads: bool = False) -> Any:
    """Import TextAttack, without the downloads it starts at import unless asked, and show it an NLTK data folder.

    Raises:
        MissingResourceError: If it is not installed, or lacks the NLTK data it reads at import.
    """
    require_textattack()
    try:
        if nltk_data is not None:
            _search_first(nltk_data)
        textattack = import_module("textattack") if downloads else _quietly_imported()
        for part in ("attack_args", "attack_recipes", "constraints.semantics.sentence_encoders"):
            import_module(f"textattack.{part}")
    except ImportError as error:
        raise MissingResourceError(_missing(str(error))) from error
    except LookupError as error:
        raise MissingResourceError(
            f"expected the NLTK data that TextAttack reads at import, stopwords among them, in "
            f"{nltk_data or 'a folder NLTK searches'}, got none; pass GuestResources(nltk_data=...)"
        ) from error
    return textattack


def needs(module: Any) -> frozenset[str]:
    """Return which of `vectors`, `encoder` and `masked_lm` the recipe in `module` may want."""
    return frozenset(need for need, names in _NEEDS.items() if any(hasattr(module, name) for name in names))


@contextmanager
def injected(module: Any, resources: GuestResources) -> Iterator[None]:
    """While the block runs, the recipe in `module` finds our resources where TextAttack would download its own."""
    missing = [what for name, what in _ONLY_DOWNLOADED.items() if hasattr(module, name)]
    if missing and not resources.downloads:
        raise MissingResourceError(
            f"{module.__name__} needs {missing[0]}, which only TextAttack itself can fetch; "
            "pass GuestResources(downloads=True) where there is a network"
        )
    embedding = import_module("textattack.shared").WordEmbedding
    replacements = [(embedding, "counterfitted_GLOVE_embedding", _embedding(embedding, resources))]
    replacements += [(module, name, _encoder(resources)) for name in _ENCODERS if hasattr(module, name)]
    if hasattr(module, _MASKED_LM):
        replacements.append((module, _MASKED_LM, _masked_swap(module, resources)))
    if not resources.downloads:
        replacements.append((import_module("nltk"), "download", lambda *_args, **_options: True))
    with ExitStack() as stack:
        for owner, name, ours in replacements:
            if ours is not None:
                stack.enter_context(_replaced(owner, name, ours))
        yield


def _embedding(embedding: Any, resources: GuestResources) -> Any:
    words, vectors, neighbours = resources.words, resources.vectors, resources.neighbours
    if words is None or vectors is None or neighbours is None:
        return None if resources.downloads else _refusing("word vectors: words, vectors and neighbours")
    ours = embedding(vectors, {word: number for number, word in enumerate(words)}, dict(enumerate(words)), neighbours)
    return lambda: ours


def _encoder(resources: GuestResources) -> Any:
    if resources.encode is None:
        return None if resources.downloads else _refusing("a sentence encoder: encode")
    encode = resources.encode
    base: Any = import_module("textattack.constraints.semantics.sentence_encoders").SentenceEncoder

    class OurEncoder(base):  # type: ignore[misc]
        """TextAttack's own constraint, with our sentence vectors."""

        def __init__(self, *args: Any, large: bool = False, model_name: str = "", **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.model = self  # in one place TextAttack calls `model.encode`

        def encode(self, sentences: list[str]) -> Array:
            return encode(sentences)

    return OurEncoder


def _masked_swap(module: Any, resources: GuestResources) -> Any:
    model, tokenizer = resources.masked_lm, resources.masked_lm_tokenizer
    if model is None or tokenizer is None:
        return None if resources.downloads else _refusing("a masked language model: masked_lm and masked_lm_tokenizer")
    stock = getattr(module, _MASKED_LM)
    return lambda *args, **kwargs: stock(*args, **{"masked_language_model": model, "tokenizer": tokenizer, **kwargs})


def _refusing(what: str) -> Callable[..., Any]:
    def refuse(*_args: Any, **_options: Any) -> Any:
        raise MissingResourceError(f"this recipe needs {what}; pass them as GuestResources(...)")

    return refuse


def _missing(got: str) -> str:
    return (
        f"expected the package textattack 0.3.11, got: {got}; it needs transformers below 5, so put it into a virtual "
        f"environment of its own and run there: {INSTALL}"
    )


def _search_first(nltk_data: Path) -> None:
    paths: list[Any] = import_module("nltk").data.path
    if str(nltk_data) not in paths:
        paths.insert(0, str(nltk_data))


def _quietly_imported() -> Any:
    """Import TextAttack with a cache folder that says its downloads are done, and undo what it sets for others."""
    if sys.modules.get("textattack") is not None:
        return sys.modules["textattack"]
    before = dict(os.environ)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as cache:
        warnings.simplefilter("ignore")
        (Path(cache) / _POST_INSTALL).touch()
        os.environ["TA_CACHE_DIR"] = cache
        try:
            return import_module("textattack")
        finally:
            os.environ.clear()
            os.environ.update(before)


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
