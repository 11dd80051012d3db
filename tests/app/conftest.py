"""Fixtures of the command line: the command itself, a table of texts, a tiny base and a saved model."""

from __future__ import annotations

import csv
import json
from functools import partial

import pytest

from command import rsmi
from keyword_model import keyword_classifier, keyword_texts
from rsmi import RsmiClassifier
from toy import CONFIG, LABELS, TEXTS


@pytest.fixture
def run(monkeypatch, capfd):
    """(*words) -> exit code, stdout, stderr of `rsmi words`."""

    return partial(rsmi, monkeypatch, capfd)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "reviews.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label"])
        rows.writerows(zip(TEXTS, LABELS, strict=True))
    return path


@pytest.fixture(scope="module")
def base(tiny_folder):
    return tiny_folder("bert", num_layers=2, dropout=0.0)


@pytest.fixture(scope="module")
def model(base, tmp_path_factory):
    """A folder with a classifier, not trained by the command."""
    folder = tmp_path_factory.mktemp("model") / "model"
    RsmiClassifier.from_pretrained(base, CONFIG, classes=["neg", "pos"]).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def keyword_folder(tmp_path_factory):
    """A folder with a plain classifier that knows some words."""
    folder = tmp_path_factory.mktemp("keywords") / "model"
    keyword_classifier("plain").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def holdout(tmp_path_factory):
    """Twelve texts with these words."""
    path = tmp_path_factory.mktemp("holdout") / "holdout.jsonl"
    rows = zip(*keyword_texts(12, seed=5), strict=True)
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    return path
