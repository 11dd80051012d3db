"""Claims about `from_pretrained` and `save_pretrained`."""

from __future__ import annotations

import json
import os
import resource
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, GPT2Config, GPT2ForSequenceClassification

from rsmi import RsmiClassifier, RsmiConfig
from rsmi.errors import CheckpointError, ConfigError, LabelError, NotFittedError, UnsupportedModelError
from tiny import FAMILIES, save_tiny, some_texts, tiny_tokenizer
from toy import CONFIG, LABELS, TEXTS, TRAIN

EXPLAINED = some_texts(6)
CLASSES = {"str": ["neg", "pos"], "int": [7, 3]}


@pytest.fixture(scope="module")
def saved(tiny_folder, tmp_path_factory):
    """A folder with a small RSMI checkpoint: copy it before changing it."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    RsmiClassifier.from_pretrained(tiny_folder("bert"), CONFIG, classes=["neg", "pos"], seed=0).save_pretrained(folder)
    return folder


@pytest.fixture
def copied(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "model"))


@pytest.mark.parametrize("classes", CLASSES.values(), ids=CLASSES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_round_trip_keeps_labels_probabilities_and_votes(family, classes, tiny_folder, tmp_path):
    before = RsmiClassifier.from_pretrained(tiny_folder(family), CONFIG, classes=classes, seed=3)
    before.save_pretrained(tmp_path / "model")
    after = RsmiClassifier.from_pretrained(tmp_path / "model", seed=3)
    assert after.config_ == CONFIG
    assert after.classes_.tolist() == classes
    assert after.explain(EXPLAINED) == before.explain(EXPLAINED)
    np.testing.assert_array_equal(after.predict(EXPLAINED), before.predict(EXPLAINED))
    np.testing.assert_array_equal(after.predict_proba(EXPLAINED), before.predict_proba(EXPLAINED))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_folder_holds_safetensors_and_nothing_that_runs_code(family, tiny_folder, tmp_path):
    RsmiClassifier.from_pretrained(tiny_folder(family), CONFIG).save_pretrained(tmp_path / "model")
    names = {path.name for path in (tmp_path / "model").rglob("*")}
    assert {"README.md", "config.json", "model.safetensors", "rsmi_config.json", "tokenizer.json"} <= names
    assert {Path(name).suffix for name in names} <= {".json", ".md", ".safetensors", ".txt", ".model", ".jinja"}


@pytest.mark.parametrize("family", [family for family in FAMILIES if not family.endswith("-encoder")])
def test_a_saved_folder_is_an_ordinary_checkpoint(family, tiny_folder, tmp_path):
    ours = RsmiClassifier.from_pretrained(tiny_folder(family), RsmiConfig.variant("plain"), classes=["neg", "pos"])
    ours.save_pretrained(tmp_path / "model")
    model, info = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model", output_loading_info=True)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert not info["missing_keys"]
    assert model.config.id2label == {0: "neg", 1: "pos"}
    for text in EXPLAINED:
        inputs = tokenizer(text, return_tensors="pt")
        if family in ("distilbert", "roberta", "mpnet", "modernbert", "deberta-v2"):
            inputs.pop("token_type_ids", None)
        with torch.no_grad():
            expected = model(**inputs).logits.softmax(-1).double().numpy()
        np.testing.assert_allclose(ours.predict_proba([text]), expected, atol=1e-5)


def test_an_error_in_the_middle_leaves_the_old_checkpoint_and_no_litter(copied, monkeypatch):
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    classifier = RsmiClassifier.from_pretrained(copied, seed=0)

    def full_disk(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(classifier._loaded.tokenizer, "save_pretrained", full_disk)
    with pytest.raises(CheckpointError, match="No space"):
        classifier.save_pretrained(copied)
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before
    assert [path.name for path in copied.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("failing", [1, 2])
def test_a_failing_rename_leaves_the_old_checkpoint_and_no_litter(copied, monkeypatch, failing):
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    classifier = RsmiClassifier.from_pretrained(copied, seed=0)
    calls, rename = [], os.rename

    def fails_once(source, target):
        calls.append(source)
        if len(calls) == failing:
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fails_once)
    with pytest.raises(CheckpointError, match="Input/output"):
        classifier.save_pretrained(copied)
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before
    assert [path.name for path in copied.parent.iterdir()] == ["model"]


def test_saving_replaces_an_older_checkpoint_whole(copied):
    classifier = RsmiClassifier.from_pretrained(copied, replace(CONFIG, noise_std=0.1), seed=0)
    (copied / "left-over.json").write_text("{}")
    classifier.save_pretrained(copied)
    assert not (copied / "left-over.json").exists()
    assert RsmiClassifier.from_pretrained(copied).config_.noise_std == 0.1
    assert [path.name for path in copied.parent.iterdir()] == ["model"]


def test_saving_refuses_a_folder_that_is_no_checkpoint(saved, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CheckpointError, match="expected a new or empty folder"):
        RsmiClassifier.from_pretrained(saved).save_pretrained(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_saving_below_a_file_is_refused(saved, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot write"):
        RsmiClassifier.from_pretrained(saved).save_pretrained(tmp_path / "file" / "model")


def test_saving_makes_missing_parents_and_takes_an_empty_folder(saved, tmp_path):
    classifier = RsmiClassifier.from_pretrained(saved)
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "a" / "b", tmp_path / "empty"):
        classifier.save_pretrained(folder)
        assert RsmiClassifier.from_pretrained(folder).config_ == CONFIG


def test_an_untrained_classifier_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        RsmiClassifier().save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


DAMAGES = {
    "empty": lambda text: "",
    "half": lambda text: text[: len(text) // 2],
    "no object": lambda text: "[1, 2]",
    "null": lambda text: "null",
    "nothing in it": lambda text: "{}",
    "later format": lambda text: text.replace('"format": 1', '"format": 99'),
    "unknown setting": lambda text: text.replace('"noise_std"', '"noise_sdt"'),
    "setting out of range": lambda text: text.replace('"noise_std": 0.5', '"noise_std": -1'),
    "NaN": lambda text: text.replace('"noise_std": 0.5', '"noise_std": NaN'),
    "setting of another type": lambda text: text.replace('"noise_std": 0.5', '"noise_std": "much"'),
    "no settings": lambda text: json.dumps(json.loads(text) | {"config": None}),
    "one class": lambda text: json.dumps(json.loads(text) | {"classes": ["neg"]}),
    "equal classes": lambda text: json.dumps(json.loads(text) | {"classes": ["neg", "neg"]}),
    "classes of two kinds": lambda text: json.dumps(json.loads(text) | {"classes": ["neg", 1]}),
    "a string of classes": lambda text: json.dumps(json.loads(text) | {"classes": "np"}),
    "no classes": lambda text: json.dumps(json.loads(text) | {"classes": None}),
    "three classes": lambda text: json.dumps(json.loads(text) | {"classes": ["a", "b", "c"]}),
    "training is no object": lambda text: json.dumps(json.loads(text) | {"training": [1]}),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_rsmi_config_is_a_checkpoint_error(copied, damage):
    path = copied / "rsmi_config.json"
    damaged = damage(path.read_text())
    assert damaged != path.read_text()
    path.write_text(damaged)
    with pytest.raises(CheckpointError):
        RsmiClassifier.from_pretrained(copied)


def test_a_rsmi_config_that_is_not_text_is_a_checkpoint_error(copied):
    (copied / "rsmi_config.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(CheckpointError, match="damaged"):
        RsmiClassifier.from_pretrained(copied)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
def test_truncated_weights_are_a_checkpoint_error(copied, share):
    path = copied / "model.safetensors"
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(CheckpointError):
        RsmiClassifier.from_pretrained(copied)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_missing_file_is_a_checkpoint_error(copied, name):
    (copied / name).unlink()
    with pytest.raises(CheckpointError):
        RsmiClassifier.from_pretrained(copied)


@pytest.mark.parametrize("lost", ["classifier.weight", "bert.encoder.layer.1.output.dense.weight"])
def test_a_missing_tensor_is_a_checkpoint_error(copied, lost):
    tensors = load_file(copied / "model.safetensors")
    del tensors[lost]
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=lost):
        RsmiClassifier.from_pretrained(copied)


def test_weights_in_a_pickle_are_refused(copied):
    torch.save(load_file(copied / "model.safetensors"), copied / "pytorch_model.bin")
    (copied / "model.safetensors").unlink()
    with pytest.raises(CheckpointError):
        RsmiClassifier.from_pretrained(copied)


def test_a_folder_or_name_without_a_model_is_a_checkpoint_error(tmp_path):
    with pytest.raises(CheckpointError, match=r"config\.json"):
        RsmiClassifier.from_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="cannot load"):
        RsmiClassifier.from_pretrained("nobody/no-such-model")


def test_other_classes_than_the_checkpoints_are_refused(saved):
    with pytest.raises(LabelError, match="classes"):
        RsmiClassifier.from_pretrained(saved, classes=["pos", "neg"])
    assert RsmiClassifier.from_pretrained(saved, classes=["neg", "pos"]).classes_.tolist() == ["neg", "pos"]


def test_a_checkpoint_without_a_trained_head_must_be_fitted_first(tiny_folder):
    classifier = RsmiClassifier.from_pretrained(tiny_folder("bert"), CONFIG, classes=["a", "b", "c"])
    with pytest.raises(NotFittedError, match="call fit"):
        classifier.predict(["good"])
    with pytest.raises(NotFittedError):
        classifier("good")
    with pytest.raises(NotFittedError):
        list(classifier.explain_iter(iter(["good"])))


def test_a_decoder_is_an_unsupported_model(tmp_path):
    tokenizer = tiny_tokenizer("bert")
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=2, n_head=2, n_positions=32, pad_token_id=0, bos_token_id=2,
        eos_token_id=3,
    )  # fmt: skip
    GPT2ForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModelError, match="GPT2ForSequenceClassification"):
        RsmiClassifier.from_pretrained(tmp_path)


def test_a_plain_checkpoint_brings_its_own_class_names(tmp_path):
    save_tiny("bert", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"id2label": {"0": "ham", "1": "spam"}, "label2id": {"ham": 0, "spam": 1}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    classifier = RsmiClassifier.from_pretrained(tmp_path, CONFIG, seed=0)
    assert classifier.classes_.tolist() == ["ham", "spam"]
    assert set(classifier.predict(EXPLAINED)) <= {"ham", "spam"}


def test_bfloat16_on_a_cpu_answers(tiny_folder):
    classifier = RsmiClassifier.from_pretrained(tiny_folder("bert"), CONFIG, seed=0, dtype="bfloat16")
    assert next(classifier._loaded.encoder.model.parameters()).dtype == torch.bfloat16
    probabilities = classifier.predict_proba(EXPLAINED)
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    assert classifier.explain(EXPLAINED)[0].tokens[1].saliency > 0


@pytest.mark.parametrize(
    "wrong", [{"dtype": "float8"}, {"dtype": "double"}, {"device": "nonsense"}, {"device": "cpu:x"}, {"device": 1.5}]
)
def test_an_unknown_dtype_or_device_is_a_config_error(tiny_folder, wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        RsmiClassifier.from_pretrained(tiny_folder("bert"), CONFIG, **wrong)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_a_config_error(tiny_folder):
    with pytest.raises(ConfigError, match="device"):
        RsmiClassifier.from_pretrained(tiny_folder("bert"), CONFIG, device="cuda")


def test_a_fit_from_a_checkpoint_keeps_its_settings_and_classes(saved, tmp_path):
    continued = RsmiClassifier(str(saved), train_config=TRAIN, seed=0)
    assert continued.config_ == CONFIG
    continued.fit(TEXTS, LABELS)
    assert continued.config_ == CONFIG
    assert continued.classes_.tolist() == ["neg", "pos"]
    continued.save_pretrained(tmp_path / "model")
    assert RsmiClassifier.from_pretrained(tmp_path / "model").config_ == CONFIG


def test_numpy_seeds_and_path_bases_are_saved_too(tiny_folder, tmp_path):
    classifier = RsmiClassifier(tiny_folder("bert"), CONFIG, TRAIN, seed=np.int64(4)).fit(TEXTS, LABELS)
    classifier.save_pretrained(tmp_path / "model")
    loaded = RsmiClassifier.from_pretrained(tmp_path / "model", seed=4)
    assert loaded.training_["seed"] == 4
    assert loaded.training_["history"][0]["epoch"] == 1
    assert loaded.predict(EXPLAINED).tolist() == classifier.predict(EXPLAINED).tolist()


def test_a_full_disk_is_one_sentence_and_the_old_model_stays(tiny_folder, tmp_path):
    folder = str(tiny_folder("bert", num_layers=2, dropout=0.0))
    classifier = RsmiClassifier.from_pretrained(folder, CONFIG, classes=["a", "b"], seed=0)
    classifier.save_pretrained(tmp_path / "model")
    before = (tmp_path / "model" / "model.safetensors").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
        with pytest.raises(CheckpointError, match="cannot save the model"):
            classifier.save_pretrained(tmp_path / "model")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
