"""The model card that `save_pretrained` writes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml

from rsmi import RsmiClassifier, RsmiConfig
from rsmi.errors import CheckpointError
from rsmi.method.card import MARKER, model_card
from toy import CONFIG, LABELS, TEXTS, TRAIN

CLASSES = ("neg", "pos")
TRAINED = {
    "base": "minilm",
    "train_config": TRAIN.to_dict(),
    "seed": 7,
    "num_texts": 1500,
    "num_dev_texts": 859,
    "history": [{"epoch": 1, "loss": 0.7, "dev_accuracy": 0.696}, {"epoch": 2, "loss": 0.6, "dev_accuracy": 0.72}],
}


def card(training=None, config=CONFIG, classes=CLASSES) -> str:
    return model_card(
        "BertForSequenceClassification", classes, config, TRAINED if training is None else training, "1.2"
    )


def front_matter(text: str) -> dict:
    assert text.startswith("---\n")
    return yaml.safe_load(text.split("---\n")[1])


@pytest.fixture
def classifier(tiny_folder):
    base = tiny_folder("bert", num_layers=2, dropout=0.0)
    return RsmiClassifier.from_pretrained(base, CONFIG, classes=list(CLASSES), seed=0)


def test_the_front_matter_is_what_a_hub_reads():
    values = front_matter(card())
    assert values["pipeline_tag"] == "text-classification"
    assert values["library_name"] == "rsmi"
    assert values["base_model"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert {"rsmi", "adversarial-robustness"} <= set(values["tags"])
    assert "license" not in values


def test_it_says_classes_settings_training_and_limits():
    text = card()
    assert '["neg", "pos"]' in text
    assert f"| noise_std | `{CONFIG.noise_std}` |" in text
    assert "| learning_rate | `0.001` |" in text
    assert "1,500 training texts; 859 dev texts; best dev accuracy 0.720" in text
    assert "| seed | `7` |" in text
    assert "is not a guarantee" in text
    assert "covers what it names and nothing else" in text
    assert "RsmiClassifier.from_pretrained" in text


def test_an_undefended_model_is_not_called_defended():
    text = card(config=RsmiConfig.variant("plain"))
    assert "adversarial-robustness" not in text
    assert "is not a guarantee" not in text
    assert "Nothing here resists an attacker" in text


def test_a_model_not_trained_by_rsmi_says_so():
    text = card(training={})
    assert "Not known: the classifier was not trained by rsmi." in text
    assert "base_model" not in text


@pytest.mark.parametrize(
    "base", ["/home/me/secret/model", "~/secret", "../secret", "C:\\secret\\model", "a/b/secret", "file:///secret", 3]
)
def test_no_path_of_the_machine_is_in_it(base):
    settings = {**TRAIN.to_dict(), "report_to": str(base) if "secret" in str(base) else "none"}
    text = card(training={**TRAINED, "base": base, "train_config": settings})
    assert "base_model" not in text
    if base not in ("../secret", "a/b/secret"):  # what is neither absolute nor at home tells nothing
        assert "secret" not in text


def test_a_relative_folder_is_no_hub_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert front_matter(card(training={"base": "runs/mr"}))["base_model"] == "runs/mr"
    (tmp_path / "runs" / "mr").mkdir(parents=True)
    assert "base_model" not in card(training={"base": "runs/mr"})


def test_labels_and_settings_cannot_break_out_of_their_place():
    nasty = ("```\n# owned", "a | b", "---\nlicense: mit")
    text = card(classes=nasty, config=RsmiConfig(mask_token="x` | y\n## owned"))
    assert "\n# owned" not in text
    assert "\n## owned" not in text
    assert "license" not in front_matter(text)
    assert json.dumps(list(nasty)) in text


@pytest.mark.parametrize("history", [None, 3, [3], [{}], [{"dev_accuracy": "x"}]])
def test_a_strange_record_of_training_is_no_error(history):
    assert "best dev accuracy" not in card(training={**TRAINED, "history": history})


def test_saving_writes_the_same_card_twice(classifier, tmp_path):
    for name in ("one", "two"):
        classifier.save_pretrained(tmp_path / name)
    one, two = ((tmp_path / name / "README.md").read_bytes() for name in ("one", "two"))
    assert one == two
    assert MARKER.encode() in one
    assert str(tmp_path).encode() not in one


def test_a_trained_model_says_how(tiny_folder, tmp_path):
    base = tiny_folder("bert", num_layers=2, dropout=0.0)
    RsmiClassifier(str(base), CONFIG, TRAIN, seed=0).fit(TEXTS, LABELS).save_pretrained(tmp_path / "model")
    text = (tmp_path / "model" / "README.md").read_text()
    assert "| epochs | `1` |" in text
    assert str(base) not in text
    assert "base_model" not in text  # it was a folder
    RsmiClassifier.from_pretrained(tmp_path / "model").save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "README.md").read_text() == text


def test_a_card_that_somebody_made_his_own_is_kept_and_another_is_renewed(classifier, tmp_path):
    folder = tmp_path / "model"
    classifier.save_pretrained(folder)
    card = folder / "README.md"
    fresh = card.read_bytes()
    card.write_bytes(fresh + b"\nstale")
    classifier.save_pretrained(folder)
    assert card.read_bytes() == fresh
    own = b"# My model\n\xff not even UTF-8\n"
    card.write_bytes(own)
    classifier.save_pretrained(folder)
    assert card.read_bytes() == own


def test_a_save_cut_off_anywhere_is_no_checkpoint(classifier, tmp_path, monkeypatch):
    """The folder that is renamed in the end is complete before; one that is not lacks its settings."""
    replaced = []

    def interrupted(fresh, target):
        replaced.append(Path(shutil.copytree(fresh, tmp_path / "whole")))
        raise KeyboardInterrupt

    monkeypatch.setattr("rsmi.method.checkpoint._swap", interrupted)
    with pytest.raises(KeyboardInterrupt):
        classifier.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    whole = replaced[0]
    times = {path.name: os.stat(path).st_mtime_ns for path in whole.iterdir()}
    assert max(times, key=times.__getitem__) == "rsmi_config.json"
    (whole / "rsmi_config.json").unlink()
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="expected a new or empty folder"):
        classifier.save_pretrained(whole)


def test_a_model_without_its_card_loads(classifier, tmp_path):
    classifier.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "README.md").unlink()
    assert RsmiClassifier.from_pretrained(tmp_path / "model", seed=0).predict(["good"]).shape == (1,)
