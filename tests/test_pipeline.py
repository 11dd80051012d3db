"""`as_pipeline` beside the real text-classification pipeline of transformers, on the same plain model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from torch.utils.data import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline
from transformers.pipelines.pt_utils import KeyDataset

from rsmi import RsmiClassifier, RsmiConfig
from rsmi.errors import ConfigError, InputError, NotFittedError
from rsmi.pipeline import RsmiPipeline
from tiny import some_texts
from toy import CONFIG

TEXTS = some_texts(5)
PAIR = {"text": "good film", "text_pair": "a dull plot"}


@pytest.fixture(scope="module")
def folder(tiny_folder):
    return tiny_folder("bert", 3)


@pytest.fixture(scope="module")
def plain(folder):
    """A classifier without a defense, whose scores transformers knows, too."""
    return RsmiClassifier.from_pretrained(folder, RsmiConfig.variant("plain", max_length=32), seed=0)


@pytest.fixture(scope="module")
def theirs(folder):
    """(**choices) -> the real pipeline."""
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return lambda **choices: pipeline("text-classification", model, tokenizer=tokenizer, **choices)


def shape(value):
    if isinstance(value, dict):
        return {"label": value["label"], "score": type(value["score"])}
    return [shape(item) for item in value]


def scores(value):
    return [value["score"]] if isinstance(value, dict) else [score for item in value for score in scores(item)]


def assert_same(mine, expected):
    assert shape(mine) == shape(expected)
    np.testing.assert_allclose(scores(mine), scores(expected), atol=1e-5)


INPUTS = {"text": TEXTS[0], "texts": TEXTS, "one text": TEXTS[:1], "pair": PAIR, "pairs": [PAIR, PAIR]}
CHOICES = {"none": {}, "all": {"top_k": None}, "1": {"top_k": 1}, "2": {"top_k": 2}, "9": {"top_k": 9}}


@pytest.mark.parametrize("inputs", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_answers_have_the_shape_and_scores_of_transformers(plain, theirs, inputs, choice):
    assert_same(plain.as_pipeline()(inputs, **choice), theirs()(inputs, **choice))
    assert_same(plain(inputs, **choice), theirs()(inputs, **choice))


@pytest.mark.parametrize("inputs", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("default", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("choice", [{}, {"top_k": 2}])
def test_choices_of_the_constructor_are_defaults_as_in_transformers(plain, theirs, inputs, default, choice):
    assert_same(plain.as_pipeline(**default)(inputs, **choice), theirs(**default)(inputs, **choice))


class Texts(Dataset):
    """A torch data set that knows its length and places only."""

    def __len__(self):
        return len(TEXTS)

    def __getitem__(self, place):
        return TEXTS[place]


class Rows(Dataset):
    def __len__(self):
        return len(TEXTS)

    def __getitem__(self, place):
        return {"sentence": TEXTS[place], "label": 0}


STREAMS = {
    "generator": lambda: (text for text in TEXTS),
    "generator of pairs": lambda: (pair for pair in [PAIR, PAIR]),
    "data set": Texts,
    "column of a data set": lambda: KeyDataset(Rows(), "sentence"),
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("choice", [{}, {"top_k": None}])
def test_streams_give_iterators_as_in_transformers(plain, theirs, stream, choice):
    mine = plain.as_pipeline()(stream(), **choice)
    assert iter(mine) is mine
    assert_same(list(mine), list(theirs()(stream(), **choice)))


def test_an_endless_stream_is_read_a_few_hundred_at_a_time(plain):
    read = []

    def endless():
        while True:
            read.append(None)
            yield "good film"

    answers = plain.as_pipeline()(endless())
    assert not read
    for _ in range(300):
        next(answers)
    assert 300 <= len(read) <= 1024


def test_rows_of_a_table_with_other_columns_are_read_by_their_text(plain):
    rows = [{"text": text, "label": 1} for text in TEXTS]
    assert plain.as_pipeline()(rows) == plain.as_pipeline()(TEXTS)


def test_arrays_and_empty_lists_are_lists(plain):
    assert plain.as_pipeline()(np.array(TEXTS)) == plain.as_pipeline()(TEXTS)
    assert plain.as_pipeline()([]) == []
    assert list(plain.as_pipeline()(iter([]))) == []


def test_a_defended_classifier_answers_by_its_votes(folder):
    defended = RsmiClassifier.from_pretrained(folder, CONFIG, seed=0)
    best = defended.as_pipeline()(TEXTS)
    assert [own["label"] for own in best] == defended.predict(TEXTS).tolist()
    rows = defended.predict_proba(TEXTS)
    assert [own["score"] for own in best] == rows.max(1).tolist()
    every = defended.as_pipeline(top_k=None)(TEXTS)
    assert [sum(own["score"] for own in row) for row in every] == pytest.approx([1.0] * len(TEXTS))
    assert [own["score"] for own in every[0]] == sorted(rows[0].tolist(), reverse=True)


def test_labels_that_are_numbers_stay_numbers(folder):
    numbered = RsmiClassifier.from_pretrained(folder, CONFIG, classes=[4, 2, 0], seed=0)
    assert numbered.as_pipeline()("good film")[0]["label"] in (4, 2, 0)


def test_where_the_vote_abstains_the_class_with_most_votes_is_named(folder):
    unsure = replace(CONFIG, stop="sequential", stop_confidence=0.999999, first_votes=1, second_votes=2)
    classifier = RsmiClassifier.from_pretrained(folder, unsure, seed=0)
    assert classifier.predict(TEXTS).tolist() == [None] * len(TEXTS)
    labels = [own["label"] for own in classifier.as_pipeline()(TEXTS)]
    assert labels == classifier.classes_[classifier.predict_proba(TEXTS).argmax(1)].tolist()


def test_what_changes_nothing_is_taken(plain):
    expected = plain.as_pipeline()(TEXTS)
    taken = {"batch_size": 2, "num_workers": 1, "padding": True, "truncation": True, "function_to_apply": "softmax"}
    assert plain.as_pipeline()(TEXTS, **taken) == expected
    assert plain.as_pipeline(**taken)(TEXTS) == expected


REFUSED = [
    ({"function_to_apply": "sigmoid"}, "function_to_apply.*shares of votes"),
    ({"function_to_apply": "none"}, "function_to_apply"),
    ({"truncation": False}, "truncation.*max_length"),
    ({"max_length": 8}, r"RsmiConfig\(max_length"),
    ({"return_all_scores": True}, "top_k=None"),
    ({"top_k": 0}, "top_k: expected an int of at least 1"),
    ({"top_k": "all"}, "top_k"),
    ({"top_k": True}, "top_k"),
    ({"nonsense": 1}, "nonsense.*leave it out"),
]


@pytest.mark.parametrize(("choice", "message"), REFUSED)
def test_what_would_change_the_answer_is_refused(plain, choice, message):
    with pytest.raises(ConfigError, match=message):
        plain.as_pipeline()("good film", **choice)
    with pytest.raises(ConfigError, match=message):
        plain.as_pipeline(**choice)


@pytest.mark.parametrize("nonsense", [None, 3, b"good", {"words": "good"}, [{"words": "good"}], [None], {"text": None}])
def test_nonsense_is_an_error(plain, nonsense):
    with pytest.raises(InputError):
        plain.as_pipeline()(nonsense)


def test_a_table_is_not_taken_for_its_column_names(plain):
    pandas_like = type("Frame", (), {"columns": ["text"], "__iter__": lambda self: iter(["text"])})()
    with pytest.raises(InputError, match="got a table"):
        plain.as_pipeline()(pandas_like)


def test_a_bad_text_of_a_stream_is_an_error_after_the_good_ones(plain):
    answers = plain.as_pipeline()(iter(["good film", "bad film", ""]))
    assert [next(answers), next(answers)] == plain.as_pipeline()(["good film", "bad film"])
    with pytest.raises(InputError, match="text 2"):
        next(answers)


def test_it_shows_what_a_pipeline_shows(plain, theirs):
    ours = plain.as_pipeline()
    assert ours.task == theirs().task
    assert type(ours.model) is type(theirs().model)
    assert ours.tokenizer("good film")["input_ids"] == theirs().tokenizer("good film")["input_ids"]
    assert ours.device == theirs().device


def test_an_untrained_classifier_answers_nothing(folder):
    with pytest.raises(NotFittedError):
        RsmiPipeline(RsmiClassifier(str(folder)))("good film")
