"""Properties: whatever the texts and however they are handed over."""

from __future__ import annotations

from collections import UserDict
from copy import copy

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from rsmi import RsmiClassifier, RsmiError
from rsmi.data import embedded_status
from rsmi.errors import InputError
from rsmi.method.tokens import check_text, encode
from tiny import WORDS, some_texts
from toy import CONFIG

POOL = some_texts(10, shortest=1, longest=20, seed=5)
HARD = [
    "",
    " ",
    "\n\t",
    "a",
    "\0",
    "good\0film",
    "\ud800",
    "film \udfff",
    "\ufeff",
    "\u200b",
    "\u202e",
    "\x1b[31mred",
    "\x7f",
    "😀",
    "👩‍👩‍👧‍👦 🏳️‍🌈",
    "مرحبا بالعالم",
    "שלום עולם",
    "e\u0301" * 20,
    "漢字かな交じり文",
    "\U0010ffff",
    "x" * 100_000,
    "good " * 20_000,
    "😀" * 100_000,
    " " * 100_000,
    "[MASK] [SEP] [CLS] </s> <extra_id_0>",
]
WORDY = st.lists(st.sampled_from([*WORDS, "unheard", "[MASK]", "</s>"]), min_size=1, max_size=15).map(" ".join)


@pytest.fixture(scope="module")
def classifiers(tiny_folder):
    return {
        family: RsmiClassifier.from_pretrained(tiny_folder(family), CONFIG, classes=["neg", "pos"], seed=0)
        for family in ("bert", "t5")
    }


@pytest.fixture(scope="module")
def expected(classifiers):
    return {family: classifier.explain(POOL) for family, classifier in classifiers.items()}


@pytest.mark.parametrize("family", ["bert", "t5"])
@given(data=st.data())
@settings(max_examples=8)
def test_neither_order_nor_split_nor_budget_changes_an_answer(classifiers, expected, family, data):
    order = data.draw(st.permutations(range(len(POOL))))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(POOL) - 1), max_size=3)))
    budget = data.draw(st.sampled_from([1, 16, 64, 300, 8192]))
    classifier = clone_with(classifiers[family], token_budget=budget)
    found = {}
    for start, stop in zip([0, *cuts], [*cuts, len(POOL)], strict=True):
        part = order[start:stop]
        found |= dict(zip(part, classifier.explain([POOL[i] for i in part]), strict=True))
    for i, before in enumerate(expected[family]):
        after = found[i]
        assert (after.label, after.first_votes, after.second_votes) == (
            before.label,
            before.first_votes,
            before.second_votes,
        )
        assert (after.masked, after.candidates) == (before.masked, before.candidates)
        np.testing.assert_allclose(
            [token.saliency for token in after.tokens],
            [token.saliency for token in before.tokens],
            rtol=1e-3,
            atol=1e-5,
        )


def clone_with(classifier, **settings):
    """A classifier with the same weights and other settings."""
    other = copy(classifier)
    return other.set_params(**settings)


def _answered_or_refused(classifier, texts):
    try:
        predictions = classifier.explain(texts)
    except RsmiError:
        return
    for text, prediction in zip(texts, predictions, strict=True):
        assert prediction.label in ("neg", "pos")
        assert prediction.text == text
        assert sum(prediction.probabilities.values()) == pytest.approx(1.0)
        assert len(prediction.tokens) <= CONFIG.max_length


@pytest.mark.parametrize("family", ["bert", "t5"])
@pytest.mark.parametrize("text", HARD, ids=lambda text: ascii(text[:12]))
def test_a_hard_text_is_answered_or_refused(classifiers, family, text):
    _answered_or_refused(classifiers[family], [text])
    _answered_or_refused(classifiers[family], [(text, "good film")])
    _answered_or_refused(classifiers[family], [("good film", text)])


@pytest.mark.parametrize("family", ["bert", "t5"])
@given(texts=st.lists(st.text(), max_size=4))
def test_any_texts_are_answered_or_refused(classifiers, family, texts):
    _answered_or_refused(classifiers[family], texts)


@pytest.mark.parametrize("family", ["bert", "t5"])
@given(text=st.text(st.characters(categories=["C", "Z", "M", "L"]), min_size=1))
def test_any_odd_text_is_answered_or_refused(classifiers, family, text):
    _answered_or_refused(classifiers[family], [text])


@pytest.mark.parametrize("family", ["bert", "t5"])
@given(pairs=st.lists(st.tuples(st.text(), WORDY), max_size=3))
def test_any_pairs_are_answered_or_refused(classifiers, family, pairs):
    _answered_or_refused(classifiers[family], pairs)


@given(texts=st.lists(WORDY, min_size=1, max_size=4))
@settings(max_examples=10)
def test_valid_texts_are_always_answered(classifiers, texts):
    for classifier in classifiers.values():
        assert len(classifier.predict(texts)) == len(texts)


@given(text=st.text(min_size=1))
@example(text="\0")
@example(text="\u202eabc")
@example(text="good [MASK] film")
def test_the_embedded_tokenizer_reads_any_valid_text(real_tokenizer, text):
    try:
        check_text(text, "text 0")
    except InputError:
        assume(False)
    (row,) = encode(real_tokenizer, [text], 64)
    assert 2 <= len(row) <= 64
    assert all(0 <= start <= end <= len(text) for start, end in row.offsets)
    assert real_tokenizer.mask_token_id not in row.ids


@pytest.fixture(scope="module")
def real_tokenizer():
    from transformers import AutoTokenizer

    from rsmi.data.embedded import encoder_folder

    if not all(entry.present for entry in embedded_status()):
        pytest.skip("the embedded encoder is not installed")
    return AutoTokenizer.from_pretrained(encoder_folder())


NONSENSE = {
    "a lone text": "a good film",
    "bytes": b"a good film",
    "None": None,
    "a number": 3,
    "NaN": float("nan"),
    "a dict": {"text": "good"},
    "another mapping": UserDict(text="good"),
    "a table": pd.DataFrame({"text": ["good"], "label": [1]}),
    "a list with None": ["good", None],
    "a list with NaN": ["good", float("nan")],
    "a list with bytes": [b"good"],
    "a list with a number": [1],
    "a list with a dict": [{"text": "good"}],
    "a list with an empty list": [[]],
    "a list with a long list": [["a", "b", "c"]],
    "a list with a nested pair": [[["a", "b"], "c"]],
    "a pair with None": [("good", None)],
    "texts and pairs": ["good", ("good", "bad")],
    "a series with a gap": pd.Series(["good", None]),
    "a series with NA": pd.Series(["good", pd.NA], dtype="string"),
    "an array of numbers": np.zeros(3),
    "an array without dimensions": np.array(3.0),
    "a tensor": torch.zeros(2),
    "a set of numbers": {1, 2},
}


@pytest.mark.parametrize("method", ["predict", "predict_proba", "explain"])
@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE)
def test_what_is_no_list_of_texts_is_refused(classifiers, method, nonsense):
    with pytest.raises(InputError):
        getattr(classifiers["bert"], method)(nonsense)


LISTS = {
    "tuple": tuple,
    "iterator": iter,
    "array": np.array,
    "object array": lambda texts: np.array(texts, dtype=object),
    "series": pd.Series,
    "string series": lambda texts: pd.Series(texts, dtype="string", index=range(5, 5 + len(texts))),
    "numpy strings": lambda texts: [np.str_(text) for text in texts],
}


@pytest.mark.parametrize("wrap", LISTS.values(), ids=LISTS)
def test_any_list_of_texts_gives_the_same_answers(classifiers, wrap):
    classifier = classifiers["bert"]
    np.testing.assert_array_equal(classifier.predict_proba(wrap(POOL)), classifier.predict_proba(POOL))


def test_any_list_of_pairs_gives_the_same_answers(classifiers):
    classifier = classifiers["bert"]
    pairs = [(text, "the end") for text in POOL]
    expected = classifier.predict_proba(pairs)
    np.testing.assert_array_equal(classifier.predict_proba([list(pair) for pair in pairs]), expected)
    np.testing.assert_array_equal(classifier.predict_proba(np.array(pairs)), expected)
