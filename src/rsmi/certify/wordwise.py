"""Words hidden, left out or replaced at random -> votes and numbers of words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from rsmi.certify.certificate import Certificate, Substitutions
from rsmi.certify.deleted import certified_edits
from rsmi.certify.gaussian import joint_radius
from rsmi.certify.masked import certified_words, certified_words_refined, chance_seen
from rsmi.certify.replaced import certified_substitutions, least_overlap, overlap
from rsmi.certify.sampling import Array, Bounds, Cell, Tally
from rsmi.certify.smoothing import Smoothing
from rsmi.errors import NotCertifiable
from rsmi.method.engine import Engine
from rsmi.method.inference import find_masks
from rsmi.method.substitution import WORD, SynonymTable
from rsmi.method.voting import Ballot, collect_votes
from rsmi.method.words import WordEncoder, draw_hidden, edit_distance, num_hidden, split_words
from rsmi.records import TextInput
from rsmi.seeds import derive


@dataclass(frozen=True)
class WordSmoothing(Smoothing):
    """What all kinds of randomised words share.

    Behind the words comes the model with its noise and, under `in-noise`, with RSMI's masks: all of it computed from
    the randomised text, with draws of its own.
    """

    def votes(self, texts: Sequence[TextInput], asked: Mapping[Cell, Sequence[int]]) -> dict[Cell, Array]:
        """Classify copies with other words, those of all texts batched together."""
        ballots = [self._ballot(texts[place], keys) for (place, _), keys in asked.items()]
        with self.engine.lock:
            votes = collect_votes(self.smoothed, ballots)
        return {cell: own.ballots for cell, own in zip(asked, votes, strict=True)}

    def _ballot(self, text: TextInput, keys: Sequence[int]) -> Ballot:
        rows = tuple(self.engine.redrawn(text, keys, self._words))
        masks: tuple[tuple[int, ...], ...] = ((),) * len(rows)
        if self.settings.masking == "in-noise":
            config = replace(
                self.engine.config, masking="gradient", word_mask_rate=0.0, word_deletion_rate=0.0, substitution=False
            )
            with self.engine.lock:
                masks = tuple(own.top for own in find_masks(self.smoothed, config, rows, keys))
        return Ballot(rows[0], masks, tuple(keys), rows)

    @cached_property
    def _words(self) -> WordEncoder | None:
        return None if self.engine.config.substitution else self.engine.words

    def substitutions(self, certificate: Certificate, table: SynonymTable) -> Substitutions:
        """Any of the words certified may become any other word, so also a synonym."""
        return Substitutions(int(certificate.radius), 1.0, 0)

    def covers(self, certificate: Certificate, other: TextInput) -> bool | None:
        """Whether few enough words differ; None where the two texts cannot be compared."""
        changed = self.distance(certificate.text, other)
        return None if changed is None else changed <= certificate.radius


@dataclass(frozen=True)
class MaskedWords(WordSmoothing):
    """`l0-mask`: any change of some words."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_rate(self.engine, "l0-mask", "word_mask_rate", "ranmask")

    @property
    def space(self) -> str:
        """Changed words."""
        return "words replaced by anything"

    def level(self, text: TextInput, radius: float) -> float:
        """Return 1/2 + D."""
        num, kept = self._kept(text)
        return 0.5 + float(chance_seen(num, kept, min(num, math.ceil(radius))))

    def radius(self, text: TextInput, bounds: Bounds, tally: Tally, failure_prob: float) -> float:
        """Return the number of words that may change."""
        num, kept = self._kept(text)
        if self.settings.bound == "refined":
            shown = [
                frozenset(range(num)) - draw_hidden(num, self.engine.config.word_mask_rate, derive(key, "words"))
                for key, choice in zip(tally.keys, tally.choices, strict=True)
                if choice == tally.label
            ]
            return certified_words_refined(shown, self.settings.estimation_samples, num, failure_prob / 2)
        return certified_words(bounds.p_lower, bounds.p_upper_other, num, kept)

    def distance(self, text: TextInput, other: TextInput) -> float | None:
        """Return how many words differ; None for another number of words."""
        one, two = split_words(text), split_words(other)
        if [len(part) for part in one] != [len(part) for part in two]:
            return None
        return sum(a != b for first, second in zip(one, two, strict=True) for a, b in zip(first, second, strict=True))

    def joint_radius(self, certificate: Certificate, changed: int) -> float:
        """Return how far all other words may move in embedding space, in L2, when `changed` words become anything."""
        num, kept = self._kept(certificate.text)
        std = self.engine.config.embedding_noise_std
        if std == 0:
            raise NotCertifiable(
                "expected noise at the word embeddings inside the masks, got none; train with embedding_noise_std"
            )
        return joint_radius(certificate.p_lower, chance_seen(num, kept, min(changed, num)), std)

    def _kept(self, text: TextInput) -> tuple[int, int]:
        num = sum(map(len, split_words(text)))
        return num, num - num_hidden(num, self.engine.config.word_mask_rate)


@dataclass(frozen=True)
class DeletedWords(WordSmoothing):
    """`edit`: words inserted, deleted or replaced."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_rate(self.engine, "edit", "word_deletion_rate", "deletion")

    @property
    def space(self) -> str:
        """Word edits."""
        return "words inserted, deleted or replaced"

    def level(self, text: TextInput, radius: float) -> float:
        """Return 3/2 - rate^radius."""
        return float(Fraction(3, 2) - Fraction(self.engine.config.word_deletion_rate) ** math.ceil(radius))

    def radius(self, text: TextInput, bounds: Bounds, tally: Tally, failure_prob: float) -> float:
        """Return the number of edits."""
        return certified_edits(bounds.p_lower, bounds.p_upper_other, self.engine.config.word_deletion_rate)

    def distance(self, text: TextInput, other: TextInput) -> float | None:
        """Return the fewest edits that lead from one to the other; None between a text and a pair."""
        one, two = split_words(text), split_words(other)
        if len(one) != len(two):
            return None
        return sum(edit_distance(first, second) for first, second in zip(one, two, strict=True))


@dataclass(frozen=True)
class ReplacedWords(WordSmoothing):
    """`synonym`: words replaced by synonyms of the model's own table."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._table  # or a reason why not

    @property
    def space(self) -> str:
        """Substituted words."""
        return "words replaced by synonyms of the model's table"

    def level(self, text: TextInput, radius: float) -> float:
        """Return 3/2 - the product of the least overlaps."""
        worst = sorted(self._overlaps(text))[: math.ceil(radius)]
        return float(Fraction(3, 2) - math.prod(worst, start=Fraction(1)))

    def radius(self, text: TextInput, bounds: Bounds, tally: Tally, failure_prob: float) -> float:
        """Return the number of words that may be replaced."""
        return certified_substitutions(bounds.p_lower, bounds.p_upper_other, self._overlaps(text))

    def covers(self, certificate: Certificate, other: TextInput) -> bool | None:
        """Whether every changed word became a synonym, and these changes are certified; None for other changes."""
        if self.distance(certificate.text, other) is None:
            return None
        shared = Fraction(1)
        for one, two in zip(_words_of(certificate.text), _words_of(other), strict=True):
            if one == two:
                continue
            if two not in self._table.draws_of(one):
                return False
            shared *= overlap(self._table, one, two)
        return Fraction(certificate.p_lower) - Fraction(certificate.p_upper_other) > 2 * (1 - shared)

    def distance(self, text: TextInput, other: TextInput) -> float | None:
        """Return how many words differ; None where anything else differs, too."""
        if _skeleton(text) != _skeleton(other):
            return None
        return sum(one != two for one, two in zip(_words_of(text), _words_of(other), strict=True))

    def substitutions(self, certificate: Certificate, table: SynonymTable) -> Substitutions:
        """Count by the model's own table, which is what the certificate is about."""
        if table.fingerprint != self._table.fingerprint:
            raise NotCertifiable("kind='synonym': expected the table the model draws from, got another one")
        return super().substitutions(certificate, table)

    @property
    def _table(self) -> SynonymTable:
        if not self.engine.config.substitution or self.engine.synonyms is None:
            raise NotCertifiable(
                "kind='synonym': copies of this model do not replace words by synonyms; train it with "
                "rsmi train --method safer --synonyms FILE"
            )
        return self.engine.synonyms

    def _overlaps(self, text: TextInput) -> list[Fraction]:
        """Return the least overlap of every word that has synonyms."""
        words = [word for word in _words_of(text) if len(self._table.draws_of(word)) > 1]
        return [least_overlap(self._table, word) for word in words]


def _words_of(text: TextInput) -> list[str]:
    return [word for part in ((text,) if isinstance(text, str) else text) for word in WORD.findall(part)]


def _skeleton(text: TextInput) -> list[str]:
    """Return a text with its words taken out."""
    return [re.sub(WORD, "\0", part) for part in ((text,) if isinstance(text, str) else text)]


def _require_rate(engine: Engine, kind: str, name: str, variant: str) -> None:
    if getattr(engine.config, name) == 0:
        raise NotCertifiable(
            f"kind={kind!r}: expected {name} above 0, got 0; train the model for it: rsmi train DATA --method finetune "
            f"--variant {variant}"
        )
