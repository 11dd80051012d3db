from __future__ import annotations

import re

from rsmi.data.packages import located
from rsmi.resources.packages import TAGGER_PICKLE
from rsmi.resources.stopwords import NLTK_ENGLISH, TEXTFOOLER


def test_the_lists_have_the_known_sizes_and_only_words():
    assert (len(TEXTFOOLER), len(NLTK_ENGLISH)) == (266, 198)
    assert all(re.fullmatch(r"[a-z]+('[a-z]+)?", word) for word in TEXTFOOLER | NLTK_ENGLISH)


def test_words_that_set_the_lists_apart():
    assert "hundred" in TEXTFOOLER - NLTK_ENGLISH
    assert "very" in NLTK_ENGLISH - TEXTFOOLER
    assert {"the", "not", "wouldn't"} <= TEXTFOOLER & NLTK_ENGLISH


def test_the_current_list_of_nltk_is_the_old_one_and_contractions():
    old = (located(TAGGER_PICKLE).parents[2] / "corpora" / "stopwords" / "english").read_text().split()
    assert len(old) == 179
    assert set(old) < NLTK_ENGLISH
    assert all("'" in word for word in NLTK_ENGLISH - set(old))
