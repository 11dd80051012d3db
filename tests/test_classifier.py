"""Claims about prediction: answers, explanations, side effects, threads, output streams."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from rsmi import RsmiClassifier, RsmiConfig
from rsmi.config import VARIANTS
from rsmi.errors import ConfigError, InputError, UnsupportedModelError
from rsmi.method import voting
from tiny import FAMILIES, some_texts
from toy import CONFIG, LABELS, SYNONYMS, TEXTS, TRAIN

SAMPLE = some_texts(12)
PAIRS = [(text, "the film was good") for text in SAMPLE[:5]]


@pytest.fixture(scope="module")
def load(tiny_folder):
    """(family, config, **settings) -> a tiny classifier under seed 0."""

    def loaded(family="bert", config=CONFIG, seed=0, **settings):
        return RsmiClassifier.from_pretrained(tiny_folder(family), config, seed=seed, **settings)

    return loaded


def _hooks(model):
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def _snapshot(model):
    return (
        {name: tensor.clone() for name, tensor in model.state_dict().items()},
        {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()},
        {name: p.requires_grad for name, p in model.named_parameters()},
        {name: module.training for name, module in model.named_modules()},
        _hooks(model),
    )


def _same(left, right):
    tensors = all(torch.equal(left[0][name], right[0][name]) for name in left[0])
    grads = all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
        for a, b in zip(left[1].values(), right[1].values(), strict=True)
    )
    return tensors and grads and left[2:] == right[2:]


@pytest.mark.parametrize("stop", ["paper", "sequential"])
@pytest.mark.parametrize("family", FAMILIES)
def test_predicting_leaves_weights_gradients_modes_and_hooks_untouched(load, family, stop):
    classifier = load(family, replace(CONFIG, stop=stop))
    model = classifier._loaded.encoder.model
    model.train()
    next(iter(model.modules())).training = True
    for parameter in list(model.parameters())[::2]:
        parameter.grad = torch.ones_like(parameter)
    before = _snapshot(model)
    classifier.predict(SAMPLE[:4])
    classifier.explain(SAMPLE[:2])
    assert _same(before, _snapshot(model))


@pytest.mark.parametrize("failing", [1, 2, 4])
def test_an_error_in_the_middle_leaves_the_model_untouched(load, monkeypatch, failing):
    classifier = load()
    model = classifier._loaded.encoder.model
    model.train()
    before, expected = _snapshot(model), classifier.predict(SAMPLE).tolist()
    forward, calls = type(model.classifier).forward, []

    def breaks(self, *args, **kwargs):
        if self is not model.classifier:
            return forward(self, *args, **kwargs)
        calls.append(1)
        output = forward(self, *args, **kwargs)
        if len(calls) == failing:
            raise MemoryError("no memory left")
        return output

    with monkeypatch.context() as patch:
        patch.setattr(type(model.classifier), "forward", breaks)
        classifier.token_budget = 32
        with pytest.raises(MemoryError):
            classifier.predict(SAMPLE)
    assert _same(before, _snapshot(model))
    assert classifier.predict(SAMPLE).tolist() == expected


def test_predicting_leaves_the_global_random_state_untouched(load):
    classifier = load(seed=None)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    classifier.predict(SAMPLE)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()


def test_a_caller_in_no_grad_or_inference_mode_gets_the_same_answer(load):
    classifier = load()
    expected = classifier.explain(SAMPLE)
    with torch.no_grad():
        assert classifier.explain(SAMPLE) == expected
    with torch.inference_mode():
        assert classifier.explain(SAMPLE) == expected


def test_two_threads_get_the_sequential_answers(load):
    classifier = load()
    jobs = [some_texts(20, seed=i) for i in range(4)]
    expected = [classifier.predict_proba(job).tolist() for job in jobs]
    found: dict[int, list] = {}

    def work(number):
        found[number] = classifier.predict_proba(jobs[number]).tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found.get(number) for number in range(len(jobs))] == expected


def test_without_a_seed_every_call_draws_fresh_noise(load):
    classifier = load(config=replace(CONFIG, aggregation="logit-average", two_step=False), seed=None)
    rows = [classifier.predict_proba(SAMPLE[:1]) for _ in range(3)]
    assert not np.array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[1], rows[2])
    same_text = classifier.predict_proba(SAMPLE[:1] * 2)
    assert not np.array_equal(same_text[0], same_text[1])


def test_a_seed_gives_the_same_answer_and_another_seed_another(load):
    config = replace(CONFIG, aggregation="logit-average", two_step=False)
    first = load(config=config).predict_proba(SAMPLE)
    np.testing.assert_array_equal(first, load(config=config).predict_proba(SAMPLE))
    assert not np.array_equal(first, load(config=config, seed=1).predict_proba(SAMPLE))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_answers_with_its_own_number_of_copies(load, variant):
    config = CONFIG.as_variant(variant)
    classifier = load(config=config).set_params(synonyms=SYNONYMS)
    for prediction in classifier.explain(SAMPLE):
        second = config.second_votes if prediction.escalated else 0
        assert prediction.copies == config.first_votes + second
        assert bool(prediction.masked) == (config.masking == "gradient")
        assert bool(prediction.candidates) == (config.masking != "none")
        assert config.two_step or not prediction.escalated
    assert classifier.uses_gradients == (config.masking == "gradient")


@pytest.mark.parametrize("seed", [None, 0])
def test_a_classifier_with_noise_or_drawn_masks_is_randomised_whatever_its_seed(load, seed):
    randomised = {name for name in VARIANTS if load(config=CONFIG.as_variant(name), seed=seed).randomised}
    assert randomised == {"rsmi", "no-mask", "no-two-step", "rm", "safer", "ranmask", "deletion"}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("texts", [SAMPLE[:5], PAIRS], ids=["texts", "pairs"])
def test_an_explanation_covers_the_text_and_adds_up(load, family, texts):
    classifier = load(family)
    for text, prediction in zip(texts, classifier.explain(texts), strict=True):
        parts = (text,) if isinstance(text, str) else text
        assert prediction.text == text
        for number, part in enumerate(parts):
            own = [token for token in prediction.tokens if token.sequence == number]
            assert [token.text.strip() for token in own] == part.split()
            assert all(part[token.start : token.end] == token.text for token in own)
        specials = [token for token in prediction.tokens if token.sequence == -1]
        assert specials
        assert all(token.saliency == 0 and token.start == token.end == -1 for token in specials)
        assert set(prediction.masked) <= set(prediction.candidates)
        assert len(prediction.masked) == CONFIG.num_masks == prediction.masks_wanted
        assert len(prediction.candidates) == min(CONFIG.num_candidates, len(prediction.tokens) - len(specials))
        assert all(prediction.tokens[i].sequence >= 0 for i in prediction.candidates)
        saliency = [prediction.tokens[i].saliency for i in prediction.candidates]
        assert saliency == sorted(saliency, reverse=True)
        assert sum(prediction.first_votes.values()) == CONFIG.first_votes
        if prediction.escalated:
            assert sum(prediction.second_votes.values()) == CONFIG.second_votes
        votes = prediction.second_votes or prediction.first_votes
        assert prediction.label == max(votes, key=votes.get)
        assert prediction.probabilities == {name: n / sum(votes.values()) for name, n in votes.items()}
        assert prediction.label == classifier.predict([text])[0]
        assert not prediction.truncated


def test_some_explanations_escalate_and_some_do_not(load):
    assert {prediction.escalated for prediction in load().explain(some_texts(40))} == {True, False}


@pytest.mark.parametrize("classes", [["neg", "pos"], [7, 3]])
def test_an_explanation_goes_through_json(load, classes):
    for prediction in load(classes=classes).explain(SAMPLE[:3]):
        again = json.loads(json.dumps(prediction.to_dict()))
        assert again["label"] == prediction.label
        assert again["label"] in classes
        assert again["copies"] == prediction.copies
        assert len(again["tokens"]) == len(prediction.tokens)


def test_a_text_too_short_for_its_masks_says_so(load):
    config = replace(CONFIG, num_masks=3)
    short, usual = load(config=config).explain(["good", "a very dull film with no end"])
    assert (len(short.masked), short.masks_wanted) == (1, 3)
    assert len(usual.masked) == 3  # a short text must not change the settings for those after it


def test_a_long_text_is_cut_and_says_so(load):
    (prediction,) = load().explain(["good " * 500])
    assert prediction.truncated
    assert len(prediction.tokens) == CONFIG.max_length


def test_the_sequential_rule_abstains_with_none_in_an_object_array(load):
    config = replace(CONFIG, stop="sequential", stop_confidence=0.999, noise_std=5.0, second_votes=10)
    classifier = load(config=config)
    answers = classifier.predict(some_texts(30))
    assert answers.dtype == object
    assert any(answer is None for answer in answers)
    explained = classifier.explain(some_texts(30))
    assert [prediction.label for prediction in explained] == answers.tolist()
    for prediction in explained:
        assert prediction.abstained == (prediction.label is None)
        assert prediction.second_votes is None
        assert prediction.copies <= config.first_votes + config.second_votes
    np.testing.assert_allclose(classifier.predict_proba(some_texts(30)).sum(1), 1.0)


def test_pairs_are_read_in_order(load):
    config = replace(CONFIG, aggregation="logit-average", two_step=False)
    classifier = load(config=config)
    swapped = [(second, first) for first, second in PAIRS]
    assert not np.array_equal(classifier.predict_proba(PAIRS), classifier.predict_proba(swapped))


def test_a_pair_is_not_read_as_its_joined_text(load):
    plain = load(config=RsmiConfig.variant("plain", max_length=32))
    joined = [" ".join(pair) for pair in PAIRS]
    assert not np.array_equal(plain.predict_proba(PAIRS), plain.predict_proba(joined))


def test_a_plain_call_gives_what_a_transformers_pipeline_gives(load, tiny_folder):
    ours = load(config=RsmiConfig.variant("plain", max_length=32))
    model = AutoModelForSequenceClassification.from_pretrained(tiny_folder("bert"))
    theirs = pipeline("text-classification", model, tokenizer=AutoTokenizer.from_pretrained(tiny_folder("bert")))
    pair = {"text": "good film", "text_pair": "a dull plot"}
    for inputs in (SAMPLE[0], SAMPLE[:3], pair, [pair, pair]):
        for choice in ({}, {"top_k": None}, {"top_k": 2}):
            mine, expected = ours(inputs, **choice), theirs(inputs, **choice)
            assert _shape(mine) == _shape(expected), (inputs, choice)
            np.testing.assert_allclose(_scores(mine), _scores(expected), atol=1e-5)


def _shape(value):
    if isinstance(value, dict):
        return {"label": value["label"], "score": type(value["score"])}
    return [_shape(item) for item in value]


def _scores(value):
    if isinstance(value, dict):
        return [value["score"]]
    return [score for item in value for score in _scores(item)]


def test_a_call_of_nothing_gives_nothing_and_of_nonsense_an_error(load):
    classifier = load()
    assert classifier([]) == []
    for nonsense in (None, 3, b"good", {"words": "good"}, [{"words": "good"}], [None], {"text": None}):
        with pytest.raises(InputError):
            classifier(nonsense)


def test_no_texts_give_no_answers(load):
    classifier = load()
    assert classifier.predict([]).shape == (0,)
    assert classifier.predict_proba([]).shape == (0, 2)
    assert classifier.explain([]) == []
    sequential = load(config=replace(CONFIG, stop="sequential"))
    assert sequential.predict([]).shape == (0,)


def test_more_noise_layers_than_layers_is_an_error_that_names_the_limit(load):
    with pytest.raises(UnsupportedModelError, match="1 to 4"):
        load(config=replace(CONFIG, noise_layers=9)).predict(["good"])


def test_explanations_come_as_they_are_ready_and_before_a_later_error(load):
    def texts():
        yield "a good film"
        yield "a bad film"
        raise RuntimeError("the disk is gone")

    answers = load().explain_iter(texts())
    assert [next(answers).text, next(answers).text] == ["a good film", "a bad film"]
    with pytest.raises(RuntimeError, match="the disk is gone"):
        next(answers)


def test_a_wrong_text_far_down_a_stream_is_named_by_its_place(load):
    stream = iter(["good film"] * 300 + [None])
    answers = load(config=RsmiConfig.variant("plain", max_length=32)).explain_iter(stream)
    assert sum(1 for _ in islice(answers, 300)) == 300
    with pytest.raises(InputError, match="text 300"):
        next(answers)


def test_the_progress_bar_is_on_stderr_and_stdout_stays_clean(load, tiny_folder, capfd):
    load(progress=True).predict(SAMPLE)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "classify" in captured.err
    assert "12/12" in captured.err
    RsmiClassifier(str(tiny_folder("bert")), CONFIG, TRAIN, seed=0, progress=True).fit(TEXTS, LABELS)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "rsmi" in captured.err


def test_without_progress_nothing_is_written(load, tiny_folder, capfd):
    load(progress=False).predict(SAMPLE * 10)
    load().predict(SAMPLE * 10)  # stderr is no terminal here
    RsmiClassifier(str(tiny_folder("bert")), CONFIG, replace(TRAIN, dev_fraction=0.2), seed=0).fit(TEXTS, LABELS)
    assert capfd.readouterr() == ("", "")


def test_logits_that_are_not_finite_are_an_error_and_no_vote(load, monkeypatch):
    classifier = load()
    monkeypatch.setattr(
        voting, "noisy_copies", lambda encoder, plan, batch, rows, *_: torch.full((len(rows), 2), torch.nan)
    )
    with pytest.raises(UnsupportedModelError, match="not finite"):
        classifier.predict(["a good film"])


@pytest.mark.parametrize(("name", "value"), [("seed", "abc"), ("seed", 1.5), ("seed", -1), ("token_budget", 1e4)])
def test_a_seed_or_budget_that_is_no_whole_number_is_refused(name, value, tiny_folder):
    classifier = RsmiClassifier.from_pretrained(tiny_folder("bert"))
    with pytest.raises(ConfigError, match=f"{name}: expected an int"):
        classifier.set_params(**{name: value}).predict(["a good movie"])


def test_another_draw_is_other_noise_and_the_first_is_the_prediction(load):
    classifier = load(config=replace(CONFIG, noise_std=2.0, aggregation="logit-average"))
    first, other = classifier.query(SAMPLE), classifier.query(SAMPLE, draw=1)
    np.testing.assert_allclose(first, classifier.predict_proba(SAMPLE), atol=1e-6)
    assert not np.isclose(first, other, atol=1e-4).all(1).any()
    np.testing.assert_array_equal(other, classifier.query(SAMPLE, draw=1))


@pytest.mark.parametrize("backend", ["torch", "int8"])
def test_draws_of_many_texts_are_answered_in_one_call_as_one_by_one(load, backend):
    classifier = load(config=replace(CONFIG, noise_std=2.0, aggregation="logit-average"), backend=backend)
    texts, draws = [*SAMPLE, SAMPLE[0], SAMPLE[0]], [*range(len(SAMPLE)), 0, 7]
    alone = [classifier.query([text], draw)[0] for text, draw in zip(texts, draws, strict=True)]
    np.testing.assert_allclose(classifier.query_each(texts, draws), alone, atol=1e-6)
    with pytest.raises(ConfigError, match="draws: expected one for each of 1 texts, got 2"):
        classifier.query_each(["a good film"], [0, 1])
    with pytest.raises(ConfigError, match="draws: expected one for each of 1 texts, got 0"):
        classifier.query_each(["a good film"], [])


def test_the_fingerprint_follows_weights_and_classes(load, tiny_folder):
    own = load().fingerprint
    assert own == load(config=replace(CONFIG, noise_std=0.1)).fingerprint
    assert own != load("roberta").fingerprint
    assert own != load(classes=["a", "b"]).fingerprint
