"""Bodies of questions, shapes of answers, and what counts as probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rsmi.defense import Target
from rsmi.errors import ConfigError, LabelError, TargetError
from rsmi.targets import CallableTarget
from rsmi.targets.answers import AnswerReader, UnexpectedAnswer
from rsmi.targets.base import as_probabilities
from rsmi.targets.bodies import BodyTemplate, default_body

CLASSES = ("neg", "pos")
LABELLED = [{"label": "pos", "score": 0.8}, {"label": "neg", "score": 0.2}]


def test_a_function_is_a_target():
    target = CallableTarget(lambda texts: [[0.25, 0.75]] * len(texts), CLASSES)
    assert isinstance(target, Target)
    assert target.query(["a", "b"], draw=3).tolist() == [[0.25, 0.75]] * 2
    assert target.query([]).shape == (0, 2)
    assert (target.randomised, target.uses_gradients) == (False, False)
    assert target.about["config"] == {"classes": ["neg", "pos"], "randomised": False}
    with pytest.raises(LabelError, match="two or more distinct classes"):
        CallableTarget(len, ["pos"])


def test_integer_classes_stay_integers():
    assert CallableTarget(len, [0, 1]).classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0.5, 0.5]], r"numbers of shape \(2, 2\); got float64 of shape \(1, 2\)"),
        ([[0.5, 0.5], [1.0]], "each of 2 texts"),
        ([["0.5", "0.5"]] * 2, "got <U3"),
        ([[True, False]] * 2, "got bool"),
        ([[0.5, 0.5], [float("nan"), 0.5]], r"got \[nan, 0.5\] for text 1"),
        ([[float("inf"), 0.0]] * 2, "for text 0"),
        ([[1.5, -0.5]] * 2, "from 0 to 1"),
        ([[0.9, 0.9]] * 2, "several labels a text"),
        (torch.ones(2, 2, requires_grad=True), "got tensor"),
        (None, "got object"),
    ],
)
def test_what_is_no_probability_is_refused_with_what_it_is(rows, message):
    target = CallableTarget(lambda _texts: rows, CLASSES, name="mine")
    with pytest.raises(TargetError, match=message) as raised:
        target.query(["a", "b"])
    assert str(raised.value).startswith("mine: expected")


def test_rounded_probabilities_are_scaled_to_add_up_to_1():
    rows = as_probabilities([[0.334, 0.333, 0.338]], 1, ["a", "b", "c"], "rounded")
    assert rows.sum() == pytest.approx(1.0, abs=1e-12)
    assert rows[0, 0] == pytest.approx(0.334 / 1.005)
    assert as_probabilities(np.array([[1 + 1e-7, -1e-7]]), 1, CLASSES, "rounded").tolist() == [[1.0, 0.0]]


def test_randomness_that_was_not_declared_is_noticed():
    calls = iter([[[0.4, 0.6]], [[0.6, 0.4]], [[0.4, 0.6]], [[0.405, 0.595]]])
    target = CallableTarget(lambda _texts: next(calls), CLASSES)
    with pytest.raises(ConfigError, match=r"differ by 0\.200; pass randomised \(--randomised\)"):
        target.check_steady(["a"])
    target.check_steady(["a"])  # the last digits may differ
    declared = CallableTarget(lambda _texts: [[0.4, 0.6]], CLASSES, randomised=True)
    declared.check_steady(["a"])


@pytest.mark.parametrize(
    ("answer", "num"),
    [
        ({"model": "m", "results": [{"label": "pos", "probabilities": {"neg": 0.2, "pos": 0.8}}]}, 1),
        (LABELLED, 1),
        ([LABELLED], 1),
        ([LABELLED, LABELLED], 2),
        ({"neg": 0.2, "pos": 0.8}, 1),
        ([{"neg": 0.2, "pos": 0.8}, {"pos": 0.8, "neg": 0.2}], 2),
        ([[0.2, 0.8], [0.2, 0.8]], 2),
        ([0.2, 0.8], 1),
    ],
)
def test_usual_answers_are_read_without_being_told_where(answer, num):
    assert AnswerReader(CLASSES).rows(answer, num) == [[0.2, 0.8]] * num


@pytest.mark.parametrize(
    ("path", "answer", "num"),
    [
        ("predictions.*.scores", {"predictions": [{"scores": [0.2, 0.8]}, {"scores": {"pos": 0.8, "neg": 0.2}}]}, 2),
        ("*.0", [[LABELLED, "x"], [LABELLED, "y"]], 2),
        ("data.1", {"data": ["x", {"neg": 0.2, "pos": 0.8}]}, 1),
        ("*", [LABELLED, LABELLED], 2),
    ],
)
def test_a_path_says_where_the_probabilities_are(path, answer, num):
    assert AnswerReader(CLASSES, path=path).rows(answer, num) == [[0.2, 0.8]] * num


@pytest.mark.parametrize(
    ("answer", "num", "message"),
    [
        ([{"label": "pos", "score": 0.8}], 1, "got none for 'neg'.*top_k"),
        ([{"label": "pos", "score": 0.8}] * 2, 2, "got one class a text.*top_k"),
        (LABELLED, 2, "got one class a text"),  # two texts or two classes: nobody knows
        ([LABELLED], 2, "each of 2 texts, got 1"),
        ({"neg": 0.2, "neutral": 0.1, "pos": 0.7}, 1, "got 'neutral'.*--classes.*--rename neutral="),
        ([{"label": "pos", "score": 0.5}, {"label": "pos", "score": 0.5}], 1, "got two"),
        ({"neg": "0.2", "pos": 0.8}, 1, "expected a number for 'neg', got '0.2'"),
        ({"neg": True, "pos": 0.8}, 1, "got True"),
        ([0.2, 0.3, 0.5], 1, "expected 2 numbers"),
        ("pos", 1, "expected an object or a list"),
        (None, 1, "expected an object or a list"),
        ({"results": [None]}, 1, "expected a probability for each"),
    ],
)
def test_other_answers_are_refused_with_a_way_out(answer, num, message):
    with pytest.raises(UnexpectedAnswer, match=message):
        AnswerReader(CLASSES).rows(answer, num)


def test_a_path_that_leads_nowhere_says_where_it_ended():
    reader = AnswerReader(CLASSES, path="a.*.b")
    with pytest.raises(UnexpectedAnswer, match=r"expected 'a' of the path 'a\.', found an object with \['c'\]"):
        reader.rows({"c": []}, 1)
    with pytest.raises(UnexpectedAnswer, match="expected a list of 2"):
        reader.rows({"a": [{"b": [0.2, 0.8]}]}, 2)
    with pytest.raises(UnexpectedAnswer, match="one text at a time"):
        AnswerReader(CLASSES, path="a").rows({"a": [0.2, 0.8]}, 2)
    for path in ("a..b", "*.*", ""):
        with pytest.raises(ConfigError, match="answer: expected keys with dots"):
            AnswerReader(CLASSES, path=path)


def test_classes_are_renamed_as_the_data_calls_them():
    reader = AnswerReader((0, 1), {"NEGATIVE": "0", "POSITIVE": "1"})
    assert reader.rows([[{"label": "POSITIVE", "score": 0.8}, {"label": "NEGATIVE", "score": 0.2}]], 1) == [[0.2, 0.8]]
    with pytest.raises(ConfigError, match="rename: expected classes of"):
        AnswerReader(CLASSES, {"POSITIVE": "positive"})


def test_a_template_is_filled_with_one_element_a_text():
    texts = ["one", "{second} and {text}"]
    assert BodyTemplate('{"inputs": ["{text}"], "labels": ["a"]}').filled(texts) == {"inputs": texts, "labels": ["a"]}
    assert BodyTemplate('{"x": [{"content": "Read: {text}"}]}').filled(texts) == {
        "x": [{"content": "Read: one"}, {"content": "Read: {second} and {text}"}]
    }
    assert BodyTemplate('{"inputs": [["{text}"]]}').filled(texts) == {"inputs": [[text] for text in texts]}
    pairs = [("a", "b"), ("c", "d")]
    assert BodyTemplate('{"inputs": [["{first}", "{second}"]]}').filled(pairs) == {"inputs": [["a", "b"], ["c", "d"]]}
    assert BodyTemplate('{"texts": ["{text}"], "n": 1}').filled(pairs) == {"texts": [["a", "b"], ["c", "d"]], "n": 1}


def test_a_template_without_a_list_asks_about_one_text():
    single, several = BodyTemplate('{"q": "{text}", "z": [1]}'), BodyTemplate('["{text}"]')
    assert (single.together, several.together) == (False, True)
    assert single.filled(["one"]) == {"q": "one", "z": [1]}


def test_templates_without_a_place_for_the_text_are_refused():
    for template, message in (("{", "expected JSON"), ('{"a": 1}', "expected {text}"), ('{"{text}": 1}', "{text}")):
        with pytest.raises(ConfigError, match=message):
            BodyTemplate(template)
    with pytest.raises(ConfigError, match="has a text in each row"):
        BodyTemplate('["{first} {second}"]').filled(["one"])
    with pytest.raises(ConfigError, match="has a pair in each row"):
        BodyTemplate('["Read: {text}"]').filled([("a", "b")])


def test_the_body_follows_the_address():
    assert default_body("/v1/predict", 2, False) == '{"texts": ["{text}"]}'
    assert BodyTemplate(default_body("/models/x", 3, False)).filled(["a"]) == {
        "inputs": ["a"],
        "parameters": {"top_k": 3},
    }
    assert BodyTemplate(default_body("/", 2, True)).filled([("a", "b")])["inputs"] == [{"text": "a", "text_pair": "b"}]
