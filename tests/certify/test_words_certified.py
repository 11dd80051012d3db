"""Counts of words against brute force: every text that a certificate covers, every copy of it."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest

from rsmi.certify.deleted import certified_edits
from rsmi.certify.masked import certified_words, certified_words_refined, chance_seen
from rsmi.certify.replaced import certified_substitutions, least_overlap, overlap
from rsmi.method.substitution import SynonymTable
from rsmi.method.words import edit_distance

VOCABULARY = "ab"


def random_rule(seed: int, lean: float):
    """A classifier of copies: any function will do, since certificates ask for nothing."""
    answers: dict[object, bool] = {}
    rng = random.Random(seed)

    def rule(copy: object) -> bool:
        return answers.setdefault(copy, rng.random() < lean)

    return rule


def masked_chance(text: str, kept: int, rule) -> Fraction:
    copies = [
        tuple(word if place in shown else None for place, word in enumerate(text))
        for shown in map(set, itertools.combinations(range(len(text)), kept))
    ]
    return Fraction(sum(rule(copy) for copy in copies), len(copies))


def deleted_chance(text: str, rate: Fraction, rule) -> Fraction:
    total = Fraction(0)
    for gone in itertools.product((False, True), repeat=len(text)):
        copy = "".join(word for word, out in zip(text, gone, strict=True) if not out)
        total += rule(copy) * rate ** sum(gone) * (1 - rate) ** (len(text) - sum(gone))
    return total


def test_masked_words_against_brute_force():
    certified = 0
    for seed in range(30):
        rule = random_rule(seed, 0.95)
        for kept in (1, 2):
            text = "ababab"
            p = masked_chance(text, kept, rule)
            words = certified_words(float(p), float(1 - p), len(text), kept) if p > Fraction(1, 2) else 0
            certified += words
            for other in map("".join, itertools.product(VOCABULARY, repeat=len(text))):
                if sum(a != b for a, b in zip(text, other, strict=True)) <= words:
                    assert masked_chance(other, kept, rule) > Fraction(1, 2) or words == 0
    assert certified > 20


def test_equality_is_no_certificate():
    assert chance_seen(4, 1, 1) == Fraction(1, 4)
    assert certified_words(0.75, 0.25, 4, 1) == 0  # 0.75 - 0.25 is exactly one half
    assert certified_words(0.75 + 1e-12, 0.25 - 1e-12, 4, 1) == 1


def test_the_public_codes_correction_is_unsound_and_ours_is_not():
    # ten words, three kept: all 36 masks that show word 0 vote for the class, and 55 of the 84 others
    p, after = Fraction(91, 120), Fraction(55, 120)
    beta = p
    assert p - beta * chance_seen(10, 3, 1) > Fraction(1, 2)  # its test passes
    assert after < Fraction(1, 2)  # and changing word 0 changes the answer
    assert certified_words(float(p), float(1 - p), 10, 3) == 0


def test_the_refined_count_is_sound():
    num, kept, draws = 8, 2, 400
    shows = [frozenset(own) for own in itertools.combinations(range(num), kept)]
    certified = 0
    for seed in range(20):
        rule = random_rule(seed, 0.86)
        for_class = [own for own in shows if rule(own)]
        votes = [own for own in for_class for _ in range(draws)]  # counts that equal the truth
        found = certified_words_refined(votes, draws * len(shows), num, 0.01)
        certified += found
        for gone in itertools.combinations(range(num), found):
            blind = sum(not own.intersection(gone) for own in for_class)
            assert found == 0 or Fraction(blind, len(shows)) > Fraction(1, 2)
    assert certified > 0


def test_the_refined_count_can_certify_what_the_plain_one_cannot():
    # all pairs of eight words but the neighbours on a circle vote for the class: 20 of 28, five for each word
    shows = [frozenset(own) for own in itertools.combinations(range(8), 2)]
    for_class = [own for own in shows if (max(own) - min(own)) not in (1, 7)]
    p = len(for_class) / len(shows)
    assert certified_words(p, 1 - p, 8, 2) == 0
    assert certified_words_refined(for_class * 400, 400 * len(shows), 8, 0.01) == 1
    assert certified_words_refined(for_class, len(shows), 8, 0.01) == 0  # too few draws to be sure


def test_edits_against_brute_force():
    rate, certified = Fraction(3, 4), 0
    texts = ["".join(own) for size in range(7) for own in itertools.product(VOCABULARY, repeat=size)]
    for seed in range(4):
        rule = random_rule(seed, 0.97)
        text = "abab"
        p = deleted_chance(text, rate, rule)
        edits = certified_edits(float(p), float(1 - p), float(rate))
        certified += edits
        for other in texts:
            if edits and edit_distance(text, other) <= edits:
                assert deleted_chance(other, rate, rule) > Fraction(1, 2)
    assert certified > 0


def test_edit_distance():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == 3
    assert edit_distance("same", "same") == 0
    assert edit_distance(["a", "b"], ["b"]) == 1


@pytest.mark.parametrize(("lead", "edits"), [(1.0, 1), (0.4, 0), (0.61, 1)])
def test_certified_edits_follow_the_formula(lead, edits):
    assert certified_edits((1 + lead) / 2, (1 - lead) / 2, 0.7) == edits


def test_synonyms_against_brute_force():
    table = SynonymTable.from_dict({"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b", "d"], "d": ["c"]})
    text, certified = ("a", "b", "a", "e"), 0

    def chance(words, rule) -> Fraction:
        copies = list(itertools.product(*(table.draws_of(word) for word in words)))
        return Fraction(sum(rule(copy) for copy in copies), len(copies))

    for seed in range(40):
        rule = random_rule(seed, 0.97)
        p = chance(text, rule)
        overlaps = [least_overlap(table, word) for word in text if len(table.draws_of(word)) > 1]
        count = certified_substitutions(float(p), float(1 - p), overlaps)
        certified += count
        for other in itertools.product(*(table.draws_of(word) for word in text)):
            if count and sum(a != b for a, b in zip(text, other, strict=True)) <= count:
                assert chance(other, rule) > Fraction(1, 2)
    assert certified > 10


def test_overlaps_count_what_both_words_may_become():
    table = SynonymTable.from_dict({"good": ["great", "fine"], "great": ["good"]})
    assert overlap(table, "good", "great") == Fraction(2, 3)
    assert overlap(table, "good", "fine") == Fraction(1, 3)  # fine has no synonyms: it stays
    assert overlap(table, "Good", "great") == 0  # drawn in another case, so never alike
    assert least_overlap(table, "good") == Fraction(1, 3)
    assert least_overlap(table, "film") == 1
