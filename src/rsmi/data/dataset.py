"""`TextDataset`: texts (or pairs) with their labels, and where they came from."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from rsmi.errors import DataError, LabelError
from rsmi.records import Label, TextInput
from rsmi.seeds import derive


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDataset:
    """Labelled texts of one split, in a fixed order."""

    name: str
    """Short name, such as `imdb` or the file's stem."""
    split: str
    """`train`, `dev`, `test`, `all`, or the hub's own name of a split."""
    texts: tuple[TextInput, ...]
    """One text, or one pair of texts, for each row."""
    labels: tuple[Label, ...]
    """The class of each row: all strings or all integers."""
    source: str
    """Where the rows came from, for a report: a file, a package with its version, or a hub id."""
    columns: tuple[str, ...] = ()
    """What the source calls the text, or the two texts of a pair; empty where it has no names for them."""

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            raise LabelError(
                f"expected one label for each text, got {len(self.texts)} texts but {len(self.labels)} labels; "
                "pass both with the same length"
            )
        if len({isinstance(text, str) for text in self.texts}) > 1:
            raise DataError("expected only texts or only pairs of texts, got both; put them in two data sets")

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def classes(self) -> tuple[Label, ...]:
        """The distinct labels, sorted.

        Raises:
            LabelError: If some labels are strings and others integers.
        """
        distinct = set(self.labels)
        names = sorted(label for label in distinct if isinstance(label, str))
        numbers = sorted(label for label in distinct if isinstance(label, int))
        if names and numbers:
            raise LabelError(
                f"expected labels that are all strings or all integers, got {names[0]!r} and {numbers[0]!r}; "
                "write them all in one way"
            )
        return (*names, *numbers)

    @property
    def is_pair(self) -> bool:
        """Whether each row is a pair of texts."""
        return bool(self.texts) and not isinstance(self.texts[0], str)

    @property
    def fingerprint(self) -> str:
        """Hash of all texts and labels in their order: equal fingerprints mean equal rows."""
        digest = hashlib.blake2b(digest_size=16)
        for text, label in zip(self.texts, self.labels, strict=True):
            for part in ((text,) if isinstance(text, str) else text) + (label,):
                # surrogatepass: a fingerprint must exist for any str; the length keeps "ab", "c" apart from "a", "bc"
                raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else str(part).encode()
                digest.update((b"s" if isinstance(part, str) else b"i") + len(raw).to_bytes(8, "little") + raw)
            digest.update(b".")
        return digest.hexdigest()

    def rows(self, indices: Iterable[int], split: str | None = None) -> TextDataset:
        """Return the rows at `indices`, in that order, under the name of `split` if one is given."""
        chosen = tuple(indices)
        return replace(
            self,
            split=self.split if split is None else split,
            texts=tuple(self.texts[i] for i in chosen),
            labels=tuple(self.labels[i] for i in chosen),
        )

    def take(self, n: int, seed: int, stratified: bool = False) -> TextDataset:
        """Return a random sample of `n` rows, the same on every machine.

        With one seed, a smaller sample is the beginning of a larger one. Rows are ordered by a hash rather than by a
        NumPy generator, whose stream may change between releases.

        Args:
            n: How many.
            seed: Another seed gives another sample.
            stratified: Keep the shares of the classes, to one row.

        Raises:
            DataError: If the set has fewer than `n` rows, or `n` is below 1.
        """
        if not 1 <= n <= len(self):
            raise DataError(f"expected a sample of 1 to {len(self)} rows of {self.name} ({self.split}), got {n}")
        order = sorted(range(len(self)), key=lambda i: derive("take", seed, i))
        return self.rows((self._by_turns(order) if stratified else order)[:n])

    def _by_turns(self, order: list[int]) -> list[int]:
        """Reorder rows so that every beginning of them has the classes in their shares."""
        sizes = Counter(self.labels)
        seen: Counter[Label] = Counter()
        when = {}
        for place, i in enumerate(order):
            when[i] = ((seen[self.labels[i]] + 0.5) / sizes[self.labels[i]], place)
            seen[self.labels[i]] += 1
        return sorted(order, key=lambda i: when[i])

    def cut(self, max_words: int) -> TextDataset:
        """Return the set with what follows the first `max_words` words of a text left out."""
        if max_words < 1:
            raise DataError(f"max_words: expected 1 or more, got {max_words}")
        return replace(self, texts=tuple(_cut(text, max_words) for text in self.texts))

    def head(self, n: int) -> TextDataset:
        """Return the first `n` rows, or all of them where there are fewer."""
        if n < 1:
            raise DataError(f"expected 1 row or more, got {n}")
        return self.rows(range(min(n, len(self))))

    def without_duplicates(self) -> TextDataset:
        """Return the set with each text once: the first of equal rows stays.

        A text that occurs with contradicting labels is dropped altogether, since nobody knows which one is right.
        """
        first: dict[TextInput, int] = {}
        contradicted: set[TextInput] = set()
        for i, text in enumerate(self.texts):
            if self.labels[first.setdefault(text, i)] != self.labels[i]:
                contradicted.add(text)
        return self.rows(i for text, i in first.items() if text not in contradicted)


def _cut(text: TextInput, max_words: int) -> TextInput:
    if not isinstance(text, str):
        return (str(_cut(text[0], max_words)), str(_cut(text[1], max_words)))
    words = text.split()
    return text if len(words) <= max_words else " ".join(words[:max_words])
