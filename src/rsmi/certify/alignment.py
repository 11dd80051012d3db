"""A certified text and a table of synonyms -> how many of its words may be replaced within the radius."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from rsmi.certify.certificate import Certificate, Substitutions
from rsmi.method.substitution import WORD, SynonymTable
from rsmi.records import TextInput


class Measure(Protocol):
    """Knows distances between texts."""

    def moved(self, text: TextInput, others: Sequence[TextInput]) -> list[tuple[float, frozenset[int]] | None]:
        """Return the distance to each other text and the tokens that differ; None where it cannot be compared."""
        ...


def count_substitutions(measure: Measure, certificate: Certificate, table: SynonymTable) -> Substitutions:
    """Count the words that may be replaced at once: the farthest synonyms of the worst words stay within the radius.

    Distances of single replacements add up by their squares where each moves tokens of its own; a replacement that
    moves the tokens of another word is left out as misaligned.
    """
    farthest, aligned, misaligned = list[float](), 0, 0
    taken: frozenset[int] = frozenset()
    for variants in variants_of(certificate.text, table):
        found = measure.moved(certificate.text, variants)
        known = [own for own in found if own is not None and not own[1] & taken]
        taken = taken.union(*(places for _, places in known))
        aligned, misaligned = aligned + len(known), misaligned + len(found) - len(known)
        if known:
            farthest.append(max(distance for distance, _ in known))
    squares, words = 0.0, 0
    for distance in sorted(farthest, reverse=True):
        squares += distance**2
        if certificate.abstained or not math.sqrt(squares) < certificate.radius:
            break
        words += 1
    return Substitutions(words, aligned / (aligned + misaligned) if aligned + misaligned else 1.0, misaligned)


def variants_of(text: TextInput, table: SynonymTable) -> Iterator[list[TextInput]]:
    """Yield, for each word that has synonyms, the text with that word replaced by each of them."""
    sides = (text,) if isinstance(text, str) else text
    for side, part in enumerate(sides):
        for match in re.finditer(WORD, part):
            others = [word for word in table.draws_of(match[0]) if word != match[0]]
            changed = [part[: match.start()] + word + part[match.end() :] for word in others]
            if changed:
                yield [text_with(sides, side, own) for own in changed]


def text_with(sides: tuple[str, ...], side: int, part: str) -> TextInput:
    """Return a text or pair with one side replaced."""
    replaced = [*sides[:side], part, *sides[side + 1 :]]
    return replaced[0] if len(replaced) == 1 else (replaced[0], replaced[1])
