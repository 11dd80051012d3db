"""SAFER's table of synonyms and what is drawn from it."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from rsmi import RsmiClassifier
from rsmi.errors import CheckpointError, DataError
from rsmi.method.substitution import SynonymTable
from rsmi.seeds import derive
from toy import CONFIG, SYNONYMS

TABLE = SynonymTable.from_dict({"good": ["fine", "great"], "film": ["movie"]})


def test_every_combination_is_drawn_equally_often():
    text, draws = "a good film", 3000
    counts = Counter(TABLE.substitute(text, derive(key)) for key in range(draws))
    expected = {f"a {one} {two}" for one, two in product(("good", "fine", "great"), ("film", "movie"))}
    assert set(counts) == expected
    assert chisquare(list(counts.values())).pvalue > 1e-3


def test_a_draw_follows_its_key_alone():
    drawn = [TABLE.substitute("good good good good good film", key) for key in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_both_texts_of_a_pair_are_changed_independently():
    drawn = {TABLE.substitute(("film", "film"), key) for key in range(50)}
    assert drawn == {(one, two) for one in ("film", "movie") for two in ("film", "movie")}


def test_what_is_not_in_the_table_stays_to_the_letter():
    assert TABLE.substitute("  A plot,\tno_good\nfilm-like; ", 3) == "  A plot,\tno_good\nfilm-like; "


def test_the_case_of_a_word_is_kept():
    table = SynonymTable({"good": ("fine",)})
    drawn = {table.substitute("Good GOOD good", key) for key in range(40)}
    assert drawn == {" ".join(words) for words in product(("Good", "Fine"), ("GOOD", "FINE"), ("good", "fine"))}


@given(st.text(), st.integers(0, 2**60))
def test_words_outside_the_table_are_never_touched(text, key):
    assert SynonymTable({"zzzq": ("zzzr",)}).substitute(text.replace("z", ""), key) == text.replace("z", "")


def test_neighbours_in_a_space_are_those_of_a_direct_computation():
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(40)]
    vectors = rng.normal(size=(40, 3)) * rng.uniform(0.1, 9, size=(40, 1))
    table = SynonymTable.from_vectors(words, vectors, min_cosine=0.7, max_synonyms=3)
    for i, word in enumerate(words):
        cosines = {
            words[j]: vectors[i] @ vectors[j] / np.linalg.norm(vectors[i]) / np.linalg.norm(vectors[j])
            for j in range(40)
            if j != i
        }
        near = sorted((other for other, cosine in cosines.items() if cosine >= 0.7), key=lambda other: -cosines[other])
        assert table.sets.get(word, ()) == tuple(near[:3])


def test_a_file_is_read_and_its_words_are_lower_case_and_distinct(tmp_path):
    path = tmp_path / "table.json"
    path.write_text('{"Good": ["fine", "FINE", "good"], "film": []}')
    assert SynonymTable.from_file(path).sets == {"good": ("fine",), "film": ()}
    assert SynonymTable.from_file(path).choices == {"good": ("good", "fine"), "film": ("film",)}


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"good": "fine"}', '{"good": [1]}', '{"good": ["two words"]}', '{"": ["fine"]}']
)
def test_a_broken_table_is_named(tmp_path, content):
    path = tmp_path / "table.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"table\.json"):
        SynonymTable.from_file(path)
    with pytest.raises(DataError, match=r"none\.json"):
        SynonymTable.from_file(tmp_path / "none.json")


def test_the_fingerprint_follows_the_content():
    assert TABLE.fingerprint == SynonymTable.from_dict(TABLE.to_dict()).fingerprint
    assert TABLE.fingerprint != SYNONYMS.fingerprint


def test_a_classifier_votes_over_substituted_copies(tiny_folder):
    config = CONFIG.as_variant("safer")
    folder = str(tiny_folder("bert", num_layers=2, dropout=0.0))
    classifier = RsmiClassifier.from_pretrained(folder, config, classes=["a", "b"], synonyms=SYNONYMS, seed=0)
    plain = RsmiClassifier.from_pretrained(folder, CONFIG.as_variant("plain"), classes=["a", "b"], seed=0)
    text = "bad film , good film"
    keys = [derive(derive(0, text), "first", copy) for copy in range(config.first_votes)]
    copies = [SYNONYMS.substitute(text, derive(key, "words")) for key in keys]
    assert len(set(copies)) > 5
    share = np.mean(plain.predict(copies) == "b")
    np.testing.assert_allclose(classifier.predict_proba([text]), [[1 - share, share]], atol=1e-12)
    assert classifier.randomised
    assert not classifier.uses_gradients


def test_a_saved_classifier_brings_its_table_along(tiny_folder, tmp_path):
    folder = str(tiny_folder("bert", num_layers=2, dropout=0.0))
    config = CONFIG.as_variant("safer")
    classifier = RsmiClassifier.from_pretrained(folder, config, classes=["a", "b"], synonyms=SYNONYMS, seed=0)
    classifier.save_pretrained(tmp_path / "model")
    again = RsmiClassifier.from_pretrained(tmp_path / "model", seed=0)
    text = ["bad film , good film"]
    np.testing.assert_array_equal(again.predict_proba(text), classifier.predict_proba(text))
    (tmp_path / "model" / "synonyms.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"synonyms\.json"):
        RsmiClassifier.from_pretrained(tmp_path / "model", seed=0)
