"""Ctrl-C: exit code 130, what is kept, and how to go on."""

from __future__ import annotations

import pytest

from command import complaint
from rsmi import RsmiClassifier
from rsmi.app import exits
from rsmi.attacks.deepwordbug import DeepWordBug
from rsmi.evaluation import certifying
from rsmi.evaluation.attacking import read_run
from rsmi.training.progress import ProgressBar

SMALL = ("--attack", "deepwordbug", "--num", 12)


@pytest.fixture
def interrupted(monkeypatch, tmp_path):
    """Ctrl-C comes with the second text that is attacked."""
    search, attacked = DeepWordBug.search, []

    def stopped(self, *args, **kwargs):
        attacked.append(1)
        if len(attacked) > 1:
            raise KeyboardInterrupt
        return (yield from search(self, *args, **kwargs))

    monkeypatch.setattr(DeepWordBug, "search", stopped)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _told(ended, *words):
    code, out, err = ended
    assert code == exits.INTERRUPTED == 130
    assert out == ""
    assert "Traceback" not in err
    last = err.strip().splitlines()[-1]
    assert last.startswith("interrupted; ")
    for word in words:
        assert word in last, last


def test_an_attack_keeps_its_records(run, model, table, interrupted):
    _told(
        run("attack", model, table, *SMALL, "--fresh-draws", 0, "--together", 1, "--out", "run.jsonl"),
        "run.jsonl",
        "--resume",
    )
    assert read_run("run.jsonl")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gate", "{model}", "{table}", *SMALL, "--fresh-draws", 0, "--min-accuracy", 0), ("lost", "--out")),
        (("augment", "{table}", "--model", "{model}", *SMALL, "--out", "a.jsonl"), ("a.jsonl.records", "goes on")),
        (("analyse", "copies", "{model}", "{table}", *SMALL, "--out", "copies"), ("copies", "goes on")),
    ],
    ids=["gate", "augment", "copies"],
)
def test_commands_that_attack(run, model, table, interrupted, words, said):
    _told(run(*(str(word).format(model=model, table=table) for word in words)), *said)


def test_commands_that_do_not(run, model, table, base, tmp_path, monkeypatch):
    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(RsmiClassifier, "fit", stopped)
    _told(run("train", table, "--base", base, "--out", "new"), "--resume")
    monkeypatch.setattr("rsmi.scoring.score_file", stopped)
    score = ("predict", model, "--file", table, "--prefix", "p_", "--out", "scored.csv")
    code, _, err = run(*score)
    assert (code, "interrupted" in err) == (130, True)
    monkeypatch.setattr(certifying, "certify_to_file", stopped)
    code, _, err = run("certify", model, table, "--out", "c.jsonl")
    assert (code, "Traceback" in err) == (130, False)
    monkeypatch.setattr(RsmiClassifier, "explain_iter", stopped)
    code, _, err = run("predict", model, "good")
    assert (code, "Traceback" in err) == (130, False)


def test_training_goes_on_with_the_same_settings_only(run, table, base, tmp_path, monkeypatch):
    def stopped(self, args, state, control, **kwargs):
        if state.global_step == 2:
            raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    train = ("train", table, "--base", base, "--noise-layers", 2, "--num-masks", 99, "--epochs", 1, "--save-every", 1)
    with monkeypatch.context() as patch:
        patch.setattr(ProgressBar, "on_step_end", stopped)
        ended = run(*train, "--out", "new")
    _told(ended, "--resume")
    assert "99 masks hide every word" in ended[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.run"]
    complaint(run(*train, "--out", "new"), 1, "new.run", "was interrupted", "--resume")
    other = run(*train, "--out", "new", "--resume", "--learning-rate", 0.5)
    complaint(other, 1, "new.run", "learning_rate", "use the old settings")
    assert run(*train, "--out", "new", "--resume")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]


def test_a_training_that_diverges_ends_in_a_line_of_its_own(run, table, base, tmp_path):
    words = ("--base", base, "--method", "finetune", "--learning-rate", 1e30, "--out", tmp_path / "new")
    complaint(run("train", table, *words), 1, "diverged", "lower learning_rate")
