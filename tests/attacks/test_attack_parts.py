"""Candidates, constraints and rankings one by one, and the attacks made of them."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from keywords import KeywordTarget, TableAttack
from rsmi.attacks.bertattack import BertAttack
from rsmi.attacks.candidates import CharacterEdits, MaskFills, Neighbours, cased_like
from rsmi.attacks.catalogue import ATTACKS, make_attack
from rsmi.attacks.constraints import FewEdits, FewWordsChanged, NearWords, SimilarSentence, as_options
from rsmi.attacks.deepwordbug import DeepWordBug
from rsmi.attacks.steps import ask, run_alone, run_together
from rsmi.attacks.words import Words, edit_distance, split_words
from rsmi.errors import ConfigError
from rsmi.resources.masked_lm import Reading

TEXT = Words.of("The GREAT film, a Real joy; it's well-made.")


@pytest.mark.parametrize(
    ("model", "word", "cased"),
    [
        ("film", "Movie", "movie"),
        ("FILM", "movie", "MOVIE"),
        ("Film", "movie", "Movie"),
        ("I", "we", "we"),  # a single capital letter says nothing about case
        ("iPhone", "phone", "phone"),
        ("don't", "WON'T", "won't"),
    ],
)
def test_replacements_take_the_case_of_the_word(model: str, word: str, cased: str) -> None:
    assert cased_like(model, word) == cased


class Vectors:
    """Three words on a circle."""

    def __init__(self) -> None:
        self.angles = {"great": 0.0, "good": 0.5, "film": 1.6}

    def neighbours(self, word: str, count: int = 50) -> list[tuple[str, float]]:
        found = [(other, self.cosine(word, other)) for other in self.angles if word in self.angles and other != word]
        return sorted(found, key=lambda pair: -(pair[1] or 0))[:count]  # type: ignore[return-value]

    def cosine(self, word: str, other: str) -> float | None:
        if word not in self.angles or other not in self.angles:
            return None
        return float(np.cos(self.angles[word] - self.angles[other]))


def test_neighbours_are_looked_up_in_lower_case() -> None:
    source = Neighbours(Vectors(), 50)  # type: ignore[arg-type]
    assert run_alone(source.options(TEXT, 1, 0)) == ["GOOD", "FILM"]
    assert run_alone(source.options(TEXT, 5, 0)) == []


def test_words_must_be_near_what_stood_there_but_unknown_ones_pass() -> None:
    near = NearWords(Vectors(), 0.5)  # type: ignore[arg-type]
    kept = run_alone(near.keep(TEXT, TEXT, 1, as_options(["good", "film", "unheard", "film.good"])))
    assert [option.word for option in kept] == ["good", "unheard"]  # film.good puts film where great was


def test_an_edit_of_each_kind_is_drawn_from_the_key_alone() -> None:
    source = CharacterEdits()
    made = run_alone(source.options(TEXT, 2, 7))
    assert made == run_alone(source.options(TEXT, 2, 7))
    assert any(run_alone(source.options(TEXT, 2, key)) != made for key in range(20))
    assert [len(word) for word in made] == [4, 4, 3, 5]
    assert sorted(made[0]) == sorted("film")
    assert all(edit_distance("film", word) <= (2 if number == 0 else 1) for number, word in enumerate(made))
    assert run_alone(source.options(TEXT, 3, 7)) == []  # a word of one letter stays


def test_edits_and_changed_words_are_bounded() -> None:
    changed = TEXT.with_word(2, "flim")
    options = as_options(["yoj", "joyy"])
    kept = run_alone(FewEdits(3).keep(TEXT, changed, 5, options))
    assert [option.word for option in kept] == ["joyy"]
    assert run_alone(FewWordsChanged(0.5).keep(TEXT, changed, 5, options)) == options
    assert run_alone(FewWordsChanged(0.1).keep(TEXT, changed, 5, options)) == []


class LengthEncoder:
    """The more letters a text has, the further its vector is turned; remembers what it encoded."""

    name = "letters"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        self.texts += texts
        angles = np.array([0.02 * len(text) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


def test_windows_are_compared_with_the_current_or_the_original_text() -> None:
    original = Words.of(" ".join(string.ascii_lowercase[:9]))
    current = original.with_word(3, "dddddddddd")
    encoder = LengthEncoder()
    options = as_options(["e", "ee", "e" * 30])

    def kept(against: Any) -> list[str]:
        constraint = SimilarSentence(encoder, 0.99, "angular", window=5, against=against)  # type: ignore[arg-type]
        return [option.word for option in run_alone(constraint.keep(original, current, 4, options))]

    # one letter more turns by 0.02 / pi = 0.0064 of a half turn
    assert kept("current") == ["e", "ee"]
    assert encoder.texts[0] == "c dddddddddd e f g"
    assert kept("original") == []
    assert "c d e f g" in encoder.texts


def test_texts_shorter_than_the_window_pass_unseen() -> None:
    encoder = LengthEncoder()
    constraint = SimilarSentence(encoder, 0.9999, "cosine", window=15, against="original")  # type: ignore[arg-type]
    (option,) = run_alone(constraint.keep(TEXT, TEXT, 1, as_options(["tiny"])))
    assert option.similarity == 1
    assert encoder.texts == []
    with pytest.raises(ConfigError, match="odd"):
        SimilarSentence(encoder, 0.5, "cosine", window=4, against="original")  # type: ignore[arg-type]


def test_of_successes_the_most_similar_text_is_taken() -> None:
    words = {"good": ["bad", "awful"]}
    target = KeywordTarget({"good": 1.0, "bad": -1.0, "awful": -5.0})
    encoder = LengthEncoder()
    similar = SimilarSentence(encoder, 0.0, "cosine", window=None, against="original")  # type: ignore[arg-type]
    assert TableAttack(words)(target, "a good film", "pos").adversarial == "a awful film"
    assert TableAttack(words, constraints=[similar])(target, "a good film", "pos").adversarial == "a bad film"


class ToyLM:
    """Proposes words by a fixed list; reads texts as tokens between spaces."""

    name, mask_token = "toy", "[MASK]"
    tokens = ("[CLS]", "!!", "##ly", "nice", "awful", "42", "fi", "##lm", "fo", "##rm")

    def fill(self, texts: Sequence[str], allowed: np.ndarray[Any, Any], count: int) -> list[list[int]]:
        assert all(text.count(self.mask_token) == 1 for text in texts)
        return [[number for number in range(len(self.tokens)) if allowed[number]][:count] for _ in texts]

    def predict(self, texts: Sequence[str], count: int) -> list[Reading]:
        readings = []
        for text in texts:
            places = [(text.index(word), text.index(word) + len(word)) for word in text.split()]
            start = text.find("film")
            if start >= 0:  # film is read as two tokens
                places[text.split().index("film")] = (start, start + 2)
                places.insert(text.split().index("film") + 1, (start + 2, start + 4))
            top = np.array([[6, 8] if a == start else [7, 9] if a == start + 2 else [3, 4] for a, _ in places])
            readings.append(Reading((0,) * len(places), tuple(places), top, np.log([[0.6, 0.4]] * len(places))))
        return readings


def test_mask_fills_are_single_words_with_a_letter() -> None:
    made = run_alone(MaskFills(ToyLM(), 50).options(TEXT, 2, 0))  # type: ignore[arg-type]
    assert made == ["[CLS]", "ly", "nice", "awful", "fi", "lm", "fo", "rm"]  # no punctuation, no number


def test_a_word_of_two_tokens_is_replaced_by_the_likeliest_combinations() -> None:
    attack = BertAttack(masked_lm=ToyLM(), encoder=LengthEncoder(), max_candidates=2)  # type: ignore[arg-type]
    options = run_alone(attack.candidates.options(Words.of("a good film"), 2, 0))
    assert options == ["film", "firm"] or options == ["film", "folm"]
    assert run_alone(attack.candidates.options(Words.of("a good film"), 1, 0)) == ["nice", "awful"]
    record = attack(KeywordTarget({"good": 2.0, "nice": 1.5, "awful": -1.0}, bias=-0.5), "a good film", "pos")
    assert record.adversarial == "a awful film"


def test_typing_errors_fool_a_keyword_model_within_their_bound() -> None:
    target = KeywordTarget({"good": 1.0, "great": 1.0}, bias=-0.5)
    record = DeepWordBug(max_edits=4)(target, "a good and a great film", "pos", seed=3)
    assert record.outcome == "succeeded"
    assert record.words_changed == 2
    changed = zip(split_words("a good and a great film"), split_words(str(record.adversarial)), strict=True)
    assert sum(edit_distance(old, new) for old, new in changed) <= 4
    assert DeepWordBug(max_edits=1)(target, "a good and a great film", "pos").outcome == "failed"
    assert DeepWordBug(max_edits=4)(target, "a good and a great film", "pos", seed=3) == record


def test_every_attack_has_a_module_of_its_name() -> None:
    assert isinstance(make_attack("deepwordbug", max_queries=5), DeepWordBug)
    assert set(ATTACKS) == {"bae", "bertattack", "deepwordbug", "gbda", "hotflip", "pwws", "textfooler"}
    with pytest.raises(ConfigError, match="expected one of bae"):
        make_attack("nothing")
    with pytest.raises(ConfigError, match="max_edit"):
        make_attack("deepwordbug", max_edit=5)


def test_calls_to_one_service_become_one_and_answers_find_their_way_back() -> None:
    calls: list[list[int]] = []

    def double(items: Sequence[int]) -> list[int]:
        calls.append(list(items))
        return [2 * item for item in items]

    def search(start: int, rounds: int) -> Any:
        for _ in range(rounds):
            first, second = yield from ask(double, [start, start + 1])
            assert second == first + 2
            start = first
            assert (yield from ask(double, [])) == []
        return start

    results = dict(run_together([(name, search(name, 1 + name % 3)) for name in range(5)], 3))
    assert results == {name: name * 2 ** (1 + name % 3) for name in range(5)}
    assert max(len(call) for call in calls) == 6  # three searches of two items
    assert run_alone(search(1, 4)) == 16
