"""A pipeline of transformers under attack."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from transformers import pipeline

from keyword_model import keyword_classifier, keyword_texts
from rsmi.attacks.deepwordbug import DeepWordBug
from rsmi.defense import Target
from rsmi.errors import CheckpointError, ConfigError, InputError, LabelError, UnsupportedModelError
from rsmi.targets import PipelineTarget
from rsmi.targets.opening import is_foreign, open_target
from tiny import some_texts, tiny_model, tiny_tokenizer

CPU = torch.device("cpu")


def tiny_pipe(family="bert", **settings):
    return pipeline(
        "text-classification", model=tiny_model(family), tokenizer=tiny_tokenizer(family), device=CPU, **settings
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trained plain classifier, as others save theirs."""
    path = tmp_path_factory.mktemp("theirs")
    keyword_classifier("plain").save_pretrained(path)
    return path


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "t5"])
def test_a_pipeline_answers_as_its_model_does(family):
    texts = some_texts(7)
    target = PipelineTarget(tiny_pipe(family), batch_size=3)
    assert isinstance(target, Target)
    rows = target.query(texts)
    with torch.no_grad():
        tokenizer, model = tiny_tokenizer(family), tiny_model(family)
        for text, row in zip(texts, rows, strict=True):
            logits = model(**tokenizer(text, return_tensors="pt")).logits
            assert row == pytest.approx(logits.softmax(-1)[0].numpy(), abs=1e-5)
    assert target.classes_.tolist() == ["LABEL_0", "LABEL_1"]
    assert target.query(["", "  "]).shape == (2, 2)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_texts_longer_than_the_model_reads_are_cut(family):
    target = PipelineTarget(tiny_pipe(family))
    long = " ".join(some_texts(20))
    read = 36 if family == "roberta" else 38  # of 40 positions; two are special tokens, RoBERTa counts from 2
    rows = target.query([long, " ".join(long.split()[:read])])
    assert np.allclose(rows[0], rows[1], atol=1e-6)
    told = PipelineTarget(tiny_pipe(family, max_length=6, truncation=True))
    short = told.query([long, " ".join(long.split()[:4])])
    assert np.allclose(short[0], short[1], atol=1e-6)


def test_pairs_are_asked_as_pairs():
    pairs = [("good film", "the end"), ("bad plot", "a story of love")]
    rows = PipelineTarget(tiny_pipe()).query(pairs)
    with torch.no_grad():
        logits = tiny_model("bert")(**tiny_tokenizer("bert")(*pairs[1], return_tensors="pt")).logits
    assert rows[1] == pytest.approx(logits.softmax(-1)[0].numpy(), abs=1e-5)


def test_classes_are_called_as_the_data_calls_them():
    target = PipelineTarget(tiny_pipe(), classes=[0, 1], name="mine")
    assert target.classes_.tolist() == [0, 1]
    assert np.array_equal(target.query(["good film"]), PipelineTarget(tiny_pipe()).query(["good film"]))
    with pytest.raises(UnsupportedModelError, match="expected a name for each of its classes"):
        PipelineTarget(tiny_pipe(), classes=["a", "b", "c"])


def test_the_fingerprint_follows_the_weights():
    one, same = PipelineTarget(tiny_pipe()).about, PipelineTarget(tiny_pipe()).about
    assert one["fingerprint"] == same["fingerprint"]
    model = tiny_model("bert", seed=1)
    other = pipeline("text-classification", model=model, tokenizer=tiny_tokenizer("bert"), device=CPU)
    assert PipelineTarget(other).about["fingerprint"] != one["fingerprint"]


def test_what_cannot_be_attacked_as_it_is_is_refused():
    pipe = tiny_pipe()
    pipe.model.train()
    with pytest.raises(UnsupportedModelError, match=r"training mode.*call pipe\.model\.eval\(\)"):
        PipelineTarget(pipe)
    with pytest.raises(InputError, match="attack its classifier itself"):
        PipelineTarget(keyword_classifier("plain").as_pipeline())
    with pytest.raises(InputError, match="CallableTarget"):
        PipelineTarget(len)
    single = pipeline(
        "text-classification", model=tiny_model("bert", num_labels=1), tokenizer=tiny_tokenizer("bert"), device=CPU
    )
    with pytest.raises(UnsupportedModelError, match="two classes or more, got 1"):
        PipelineTarget(single)
    several = tiny_pipe()
    several.model.config.problem_type = "multi_label_classification"
    with pytest.raises(RuntimeError, match="several labels a text"):
        PipelineTarget(several).query(some_texts(20))


def test_a_folder_is_opened_as_a_pipeline_and_fooled(folder):
    texts, labels = keyword_texts(4, seed=3)
    target = open_target(f"pipeline:{folder}", ["neg", "pos"])
    ours = keyword_classifier("plain")
    assert np.allclose(target.query(texts), ours.query(texts), atol=1e-5)
    assert target.about["fingerprint"] == ours.fingerprint  # the same weights and classes, asked in another way
    outcomes = [record.outcome for _, record in DeepWordBug().run(target, texts, labels)]
    assert "succeeded" in outcomes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        target.check_steady(texts)


def test_names_of_models_that_are_not_ours():
    assert is_foreign("pipeline:x/y")
    assert is_foreign("https://host/v1/predict")
    assert not is_foreign("runs/mr")
    assert not is_foreign("roberta-base")


def test_classes_are_matched_with_the_labels_of_the_data(folder):
    name = f"pipeline:{folder}"
    with pytest.raises(LabelError, match=r"without 'bad'.*--rename neg=bad"):
        open_target(name, ["bad", "good"])
    renamed = open_target(name, ["bad", "good"], rename={"neg": "bad", "pos": "good"})
    assert renamed.classes_.tolist() == ["bad", "good"]
    assert open_target(name, [0, 1], classes=["0", "1"]).classes_.tolist() == [0, 1]
    with pytest.raises(LabelError, match=r"expected classes that are numbers.*--rename neg=NUMBER"):
        open_target(name, [0, 1])
    with pytest.raises(ConfigError, match="on the left; got 'POSITIVE'"):
        open_target(name, ["neg", "pos"], rename={"POSITIVE": "pos"})
    with pytest.raises(ConfigError, match="got both"):
        open_target(name, ["neg", "pos"], rename={"neg": "pos"}, classes=["neg", "pos"])
    with pytest.raises(ConfigError, match="timeout: expected an address"):
        open_target(name, ["neg", "pos"], timeout=3.0)
    with pytest.raises(ConfigError, match="device, dtype: expected none"):
        open_target("http://127.0.0.1:1/", ["neg", "pos"], device="cpu")
    with pytest.raises(LabelError, match=r"two or more classes in the data, got \['pos'\]; pass all \(--classes\)"):
        open_target("http://127.0.0.1:1/", ["pos"])
    assert open_target("http://127.0.0.1:1/", [0, 1], classes=["1", "0"]).classes_.tolist() == [1, 0]


def test_only_trained_classifiers_that_bring_no_code_are_opened(tmp_path, folder):
    from transformers import BertModel

    with pytest.raises(CheckpointError, match=r"expected a trained classifier.*train it first"):
        open_target("pipeline:minilm", ["neg", "pos"])
    with pytest.raises(CheckpointError, match="expected a model folder, found none"):
        open_target("pipeline:./nowhere", ["neg", "pos"])
    body = tmp_path / "body"
    BertModel(tiny_model("bert").config).save_pretrained(body)
    tiny_tokenizer("bert").save_pretrained(body)
    (body / "model.safetensors").rename(body / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="a pickle"):
        open_target(f"pipeline:{body}", ["neg", "pos"])
