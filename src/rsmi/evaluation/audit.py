"""Certificates -> attacks from inside what they cover. One that succeeds proves a certificate wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from rsmi.attacks.candidates import Candidates
from rsmi.attacks.constraints import Option
from rsmi.attacks.ranking import by_deletion
from rsmi.attacks.steps import Steps
from rsmi.attacks.substitution import WordSubstitution
from rsmi.attacks.words import Words
from rsmi.certify import Certificate, CertifyConfig, lower_bound, open_smoothing, upper_bound
from rsmi.certify.latent import LatentSmoothing
from rsmi.certify.smoothing import Smoothing
from rsmi.classifier import RsmiClassifier
from rsmi.data import TextDataset
from rsmi.evaluation.certifying import Audit, Certified
from rsmi.method.substitution import SynonymTable
from rsmi.method.words import split_words
from rsmi.records import AttackRecord, Label, TextInput
from rsmi.seeds import derive

_INSIDE = 0.999  # share of the radius that a state is moved by: a certificate is about less than all of it


@dataclass(frozen=True)
class SmoothedTarget:
    """The smoothed classifier as attacks see it: shares of the votes of some draws, the same ones for all texts.

    So two texts differ by what they say, hardly by the luck of their draws, and few draws tell which one hurts more.
    """

    smoothing: Smoothing
    classes_: np.ndarray[Any, Any]
    draws: int = 20
    randomised: bool = True
    uses_gradients: bool = False

    def query(self, texts: Sequence[TextInput], draw: int = 0) -> np.ndarray[Any, Any]:
        """Return shares of votes, (texts, classes)."""
        keys = [derive("audit", draw, number) for number in range(self.draws)]
        rows = []
        for start in range(0, len(texts), 64):
            part = texts[start : start + 64]
            votes = self.smoothing.votes(part, {(i, 0): keys for i in range(len(part))})
            rows += [np.bincount(votes[i, 0], minlength=len(self.classes_)) / self.draws for i in range(len(part))]
        return np.stack(rows) if rows else np.empty((0, len(self.classes_)))


@dataclass(frozen=True)
class Inside:
    """Keeps replacements that leave a text within its certificate."""

    certificates: dict[TextInput, Certificate]

    def keep(self, original: Words, current: Words, index: int, options: Sequence[Option]) -> Steps[list[Option]]:
        """Ask the certificate about each text."""
        yield from ()
        own = self.certificates[original.text]
        texts = current.as_inputs(index, current.variants(index, [option.word for option in options]))
        return [option for option, text in zip(options, texts, strict=True) if own.covers(text)]


@dataclass(frozen=True)
class TellingWords:
    """Proposes the words that speak most for one class against the others, those of all classes at every place."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, texts: Sequence[TextInput], labels: Sequence[Label], count: int = 5) -> TellingWords:
        """Take the `count` words of each class with the largest log odds in labelled texts."""
        counts: dict[Label, Counter[str]] = {label: Counter() for label in dict.fromkeys(labels)}
        for text, label in zip(texts, labels, strict=True):
            counts[label].update({word for part in split_words(text) for word in part if word.isalpha()})
        total: Counter[str] = sum(counts.values(), Counter())
        words: list[str] = []
        for own in counts.values():
            odds = {word: math.log((own[word] + 1) / (n - own[word] + 1)) for word, n in total.items()}
            words += sorted(odds, key=lambda word: (-odds[word], word))[:count]
        return cls(tuple(dict.fromkeys(words)))

    def options(self, current: Words, index: int, key: int) -> Steps[list[str]]:
        """Return all of them."""
        yield from ()
        return list(self.words)


@dataclass(frozen=True)
class TableWords:
    """Proposes the synonyms of a table."""

    table: SynonymTable

    def options(self, current: Words, index: int, key: int) -> Steps[list[str]]:
        """Return the synonyms of the word."""
        yield from ()
        return list(self.table.draws_of(current.words[index]))


class InsideAttack(WordSubstitution):
    """Replaces any word by words of other classes, as long as the certificate covers the text."""

    name = "inside-words"


@dataclass(frozen=True)
class Auditor:
    """Attacks certificates of one smoothed classifier."""

    smoothing: Smoothing
    classes: tuple[Label, ...]
    seed: int = 0
    draws: int = 1000
    """Fresh votes about what was found."""
    failure_prob: float = 1e-4
    """Chance that a sound certificate is called broken."""
    words: Candidates | None = None
    """What words are replaced by; without, certificates about words are not attacked."""
    steps: int = 20
    """Of the ascent in a state's ball."""
    ascent_draws: int = 16
    """Draws that a gradient averages over."""

    def audit(self, records: Sequence[Certified]) -> list[list[Audit]]:
        """Attack every certificate that covers anything but its own text; return the attempts on each."""
        if isinstance(self.smoothing, LatentSmoothing):
            return [self._move(self.smoothing, own.certificate) for own in records]
        return self._replace(records)

    def verdict(self, certificate: Certificate, attack: str, text: TextInput, distance: float) -> Audit:
        """Count fresh votes about a text that the certificate covers."""
        keys = [derive(self.seed, "verdict", *_parts(text), number) for number in range(self.draws)]
        chosen = self.smoothing.votes([text], {(0, 0): keys})[0, 0]
        return self._judged(certificate, attack, text, distance, chosen)

    def known(self, record: Certified, found: Mapping[TextInput, Sequence[AttackRecord]]) -> list[Audit]:
        """Ask about texts that attacks made of the certificate's text, where it covers them."""
        own = record.certificate
        return [
            self.verdict(
                own, other.attack, other.adversarial, self.smoothing.distance(own.text, other.adversarial) or 0.0
            )
            for other in found.get(own.text, ())
            if other.adversarial != own.text and own.covers(other.adversarial)
        ]

    def _judged(
        self, certificate: Certificate, attack: str, text: TextInput | None, distance: float, chosen: Any
    ) -> Audit:
        counts = np.bincount(chosen, minlength=len(self.classes)).tolist()
        own = self.classes.index(certificate.label) if certificate.label is not None else -1
        other = max(count for number, count in enumerate(counts) if number != own)
        half = self.failure_prob / (2 * (len(counts) - 1))
        broken = lower_bound(other, self.draws, half) > upper_bound(counts[own], self.draws, self.failure_prob / 2)
        return Audit(
            attack=attack,
            adversarial=text,
            distance=distance,
            counts=list(zip(self.classes, counts, strict=True)),
            broken=broken,
        )

    def _move(self, smoothing: LatentSmoothing, certificate: Certificate) -> list[Audit]:
        """Move the state of a text up the loss, within its ball."""
        if certificate.label is None or certificate.radius <= 0:
            return []
        label, text = self.classes.index(certificate.label), certificate.text
        reach = _INSIDE * certificate.radius

        def slope(step: int, shift: torch.Tensor | None) -> torch.Tensor:
            keys = [derive(self.seed, "ascent", *_parts(text), step, number) for number in range(self.ascent_draws)]
            return _of_length(smoothing.slope(text, label, shift, keys), reach)

        moved = slope(0, None)
        for step in range(1, self.steps):
            moved = moved + (2.5 / self.steps) * slope(step, moved)
            moved = moved * min(1.0, reach / float(moved.norm()))
        end = _of_length(moved, reach)
        keys = [derive(self.seed, "verdict", *_parts(text), number) for number in range(self.draws)]
        chosen = smoothing.votes_moved(text, end, keys)
        return [self._judged(certificate, "inside-ball", None, float(end.norm()), chosen)]

    def _replace(self, records: Sequence[Certified]) -> list[list[Audit]]:
        """Replace words, within what the certificate covers."""
        places = [i for i, own in enumerate(records) if not own.certificate.abstained and own.certificate.radius >= 1]
        found: list[list[Audit]] = [[] for _ in records]
        if not places or self.words is None:
            return found
        inside = Inside({records[i].certificate.text: records[i].certificate for i in places})
        attack = InsideAttack(
            candidates=self.words, constraints=[inside], ranking=by_deletion, stopwords=frozenset(), fresh_draws=0
        )
        target = SmoothedTarget(self.smoothing, np.array(self.classes))
        texts = [records[i].certificate.text for i in places]
        labels: list[Label] = [records[i].certificate.label for i in places]  # type: ignore[misc]
        for number, record in attack.run(target, texts, labels, seed=self.seed):
            certificate = records[places[number]].certificate
            if record.adversarial == certificate.text or not certificate.covers(record.adversarial):
                continue
            distance = self.smoothing.distance(certificate.text, record.adversarial) or 0.0
            found[places[number]] = [self.verdict(certificate, attack.name, record.adversarial, distance)]
        return found


def _of_length(step: torch.Tensor, length: float) -> torch.Tensor:
    return step * (length / float(step.norm().clamp_min(1e-30)))


def _parts(text: TextInput) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text


def audit_records(
    classifier: RsmiClassifier,
    settings: CertifyConfig,
    records: Sequence[Certified],
    *,
    inside: bool = True,
    telling: TextDataset | None = None,
    found: Sequence[AttackRecord] = (),
    seed: int = 0,
    together: int = 16,
) -> Iterator[list[Certified]]:
    """Attack certificates that have not been attacked yet; yield all records in order, some at a time.

    Args:
        classifier: The model they are about.
        settings: They were made with.
        records: Certificates, read from a file or fresh.
        inside: Attack states or words within what is covered.
        telling: Labelled texts whose most telling words are put in, for certificates about words.
        found: Texts that attacks on the same inputs came up with; those that are covered are asked about.
        seed: Of the attack's draws.
        together: Certificates attacked side by side, and yielded together.
    """
    smoothing = open_smoothing(classifier.engine(), settings)
    words: Candidates | None = None if telling is None else TellingWords.of(telling.texts, telling.labels)
    if settings.kind == "synonym" and smoothing.engine.synonyms is not None:
        words = TableWords(smoothing.engine.synonyms)
    auditor = Auditor(smoothing, tuple(classifier.classes_.tolist()), seed, words=words)
    by_text: dict[TextInput, list[AttackRecord]] = {}
    for record in found:
        by_text.setdefault(record.original, []).append(record)
    for start in range(0, len(records), together):
        part = records[start : start + together]
        few = [replace(own, certificate=own.certificate.attached(smoothing)) for own in part]
        fresh = [own for own in few if not own.audits]
        tried = iter(auditor.audit(fresh) if inside else [[] for _ in fresh])
        yield [own if own.audits else own.audited([*next(tried), *auditor.known(own, by_text)]) for own in few]
