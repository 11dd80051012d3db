"""`rsmi attack`, `augment` and the generation of `train --method advaug`."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from rich.console import Console

from rsmi import RsmiClassifier, RsmiConfig, load_data
from rsmi.app.live import AttackView, changes
from rsmi.evaluation import suite
from rsmi.evaluation.attacking import read_run
from rsmi.evaluation.robustness import Robustness
from toy import LABELS, TEXTS, TRAIN

SMALL = ("--attack", "deepwordbug", "--num", 12)


@pytest.fixture(scope="module")
def victim(base, tmp_path_factory):
    """An accurate plain classifier of the toy task."""
    folder = tmp_path_factory.mktemp("victim") / "model"
    classifier = RsmiClassifier(base, RsmiConfig.variant("plain", max_length=32), seed=0)
    classifier.fit(TEXTS, LABELS, replace(TRAIN, method="finetune", epochs=6)).save_pretrained(folder)
    return folder


def test_an_attack_writes_records_and_prints_the_numbers_of_the_paper(run, victim, table, tmp_path):
    out = tmp_path / "run.jsonl"
    code, stdout, stderr = run("attack", victim, table, *SMALL, "--out", out, "--json")
    assert code == 0, stderr
    printed = json.loads(stdout)
    about, records = read_run(out)
    assert len(records) == 12
    assert printed["robust_accuracy"] == Robustness.of(list(records.values())).to_dict()["robust_accuracy"]
    assert about["attack"]["name"] == "deepwordbug"
    assert about["model"]["fingerprint"] == RsmiClassifier.from_pretrained(victim).fingerprint
    assert about["versions"]["torch"]
    assert "12/12 texts" in stderr
    succeeded = [record for record in records.values() if record.outcome == "succeeded"]
    assert succeeded  # a typing error makes a known word unknown to this model


def test_evidence_can_be_left_out(run, victim, table, tmp_path):
    for words, kept in (((), True), (("--no-evidence",), False)):
        out = tmp_path / f"{kept}.jsonl"
        assert run("attack", victim, table, *SMALL, "--out", out, *words)[0] == 0
        assert any(record.evidence for record in read_run(out)[1].values()) is kept


def test_the_text_output_names_the_intervals_and_the_file(run, victim, table, tmp_path):
    out = tmp_path / "run.jsonl"
    code, stdout, _ = run("attack", victim, table, *SMALL, "--out", out, "--max-queries", 3)
    assert code == 0
    assert "accuracy under attack" in stdout
    assert "ran out of queries" in stdout
    assert str(out) in stdout


def test_nothing_that_was_not_counted_is_printed_as_a_number(run, model, victim, table, tmp_path):
    # answers of `model` are random; `victim` finds an attack without changes harmless
    for place, (name, words) in enumerate(
        [(model, ("--fresh-draws", 0)), (model, ()), (victim, ("--max-queries", 1)), (victim, ())]
    ):
        code, stdout, stderr = run("attack", name, table, *SMALL, "--out", tmp_path / f"{place}.jsonl", *words)
        assert code == 0, stderr
        assert "nan" not in stdout
        assert ("not asked (--fresh-draws 0)" in stdout) is (place == 0)
        assert ("still wrong" in stdout) is (place == 1)


def test_resuming_goes_on_and_without_it_nothing_is_overwritten(run, victim, table, tmp_path):
    out, whole = tmp_path / "run.jsonl", tmp_path / "whole.jsonl"
    assert run("attack", victim, table, *SMALL, "--out", whole)[0] == 0
    out.write_text("".join(whole.read_text().splitlines(keepends=True)[:4]))
    code, _, stderr = run("attack", victim, table, *SMALL, "--out", out)
    assert code == 1
    assert "--resume" in stderr
    assert run("attack", victim, table, *SMALL, "--out", out, "--resume", "--together", 3)[0] == 0
    (about, records), (same, expected) = read_run(out), read_run(whole)
    assert about == same
    # the last bits of a score depend on the shape of the batch it was computed in
    scores = {"gold_before": 0.0, "gold_after": 0.0}
    assert {place: replace(record, **scores) for place, record in records.items()} == {
        place: replace(record, **scores) for place, record in expected.items()
    }
    for place, record in records.items():
        assert record.gold_after == pytest.approx(expected[place].gold_after, abs=1e-5)


@pytest.mark.parametrize("backend", ["torch", "int8"])
def test_a_resumed_run_ends_with_the_same_bytes(run, model, table, tmp_path, backend):
    out, whole = tmp_path / "run.jsonl", tmp_path / "whole.jsonl"
    words = ("attack", model, table, *SMALL, "--backend", backend)
    assert run(*words, "--out", whole)[0] == 0
    lines = whole.read_text().splitlines(keepends=True)
    assert len(lines) > 4
    for kept in (1, 3):  # in 8 bits everything that shares a batch shares its scale: texts must not
        out.write_text("".join([lines[0], *lines[-kept:]]))
        assert run(*words, "--out", out, "--resume")[0] == 0
        assert out.read_text() == whole.read_text()


def test_unknown_attacks_and_settings_are_named(run, victim, table, tmp_path):
    out = tmp_path / "run.jsonl"
    code, _, stderr = run("attack", victim, table, "--attack", "magic", "--out", out)
    assert code == 1
    assert "expected one of bae" in stderr
    code, _, stderr = run("attack", victim, table, *SMALL, "--set", "max_typos=3", "--out", out)
    assert code == 1
    assert "max_typos" in stderr
    assert not out.exists()


def test_augment_keeps_what_fooled_the_model_with_its_true_label(run, victim, table, tmp_path):
    out = tmp_path / "added.jsonl"
    code, stdout, stderr = run("augment", table, "--model", victim, "--split", "all", *SMALL, "--out", out, "--json")
    assert code == 0, stderr
    counts = json.loads(stdout)
    added = load_data(str(out), "all")
    assert len(added) == counts["added"] > 0
    predicted = RsmiClassifier.from_pretrained(victim, seed=0).predict(added.texts)
    assert all(label != answer for label, answer in zip(added.labels, predicted, strict=True))


def test_advaug_makes_its_texts_itself(run, base, table, tmp_path):
    out = tmp_path / "model"
    words = ("--base", base, "--method", "advaug", "--epochs", 6, "--learning-rate", 1e-3, "--batch-size", 8)
    words = (*words, "--attack", "deepwordbug", "--attack-num", 16, "--max-length", 32, "--json")
    code, stdout, stderr = run("train", table, "--out", out, *words)
    assert code == 0, stderr
    report = json.loads(stdout)
    added = load_data(str(tmp_path / "model.added.jsonl"), "all")
    assert report["num_added_texts"] == len(added) > 0
    assert "advaug 2/3: deepwordbug on 16 training texts" in stderr
    assert RsmiClassifier.from_pretrained(tmp_path / "model.victim").config_ == RsmiConfig.variant(
        "plain", max_length=32
    )
    code, _, stderr = run("train", table, "--out", out, *words, "--set", "weight_decay=0.1")
    assert code == 1
    assert "expected a victim trained with these settings" in stderr


def test_what_an_earlier_run_did_does_not_count_for_the_speed(run, victim, table, tmp_path):
    out = tmp_path / "run.jsonl"
    run("attack", victim, table, *SMALL, "--out", out)
    records = list(read_run(out)[1].values())
    view = AttackView(len(records), already=10, console=Console(quiet=True))
    for record in records:
        view.show(record)
    assert view.queries == records[-2].queries + records[-1].queries
    assert view.done == 12


def test_the_live_view_shows_counts_speed_and_the_changed_words(run, victim, table, tmp_path):
    out = tmp_path / "run.jsonl"
    run("attack", victim, table, *SMALL, "--out", out)
    records = list(read_run(out)[1].values())
    console = Console(force_terminal=True, width=100, record=True)
    with AttackView(len(records), console=console) as view:
        for record in records:
            view.show(record)
    shown = console.export_text()
    assert "12/12" in shown
    assert "queries/s" in shown
    fooled = next(record for record in records if record.outcome == "succeeded")
    line = changes(fooled)
    struck = [line.plain[span.start : span.end] for span in line.spans if "strike" in str(span.style)]
    assert len(struck) == fooled.words_changed
    assert all(word in fooled.original for word in struck)


def test_doctor_plans_an_attack_and_predictions(run, victim, table):
    code, stdout, stderr = run(
        "doctor", "--plan", victim, table, "--attack", "deepwordbug", "--num", 12, "--calibrate", 4, "--json"
    )
    assert code == 0, stderr
    plan = json.loads(stdout)
    assert (plan["inputs"], plan["calibrated"]) == (12, 4)
    assert 0 < plan["low"] <= plan["seconds"] <= plan["high"]
    assert plan["queries"] > 12
    assert "deepwordbug, protocol paper: 4 of 12 texts" in stderr  # as rsmi attack runs it
    code, stdout, _ = run("doctor", "--plan", victim, table, "--num", 12)
    assert code == 0
    assert "time" in stdout
    assert "queries" not in stdout


def test_doctor_says_what_a_plan_needs(run, victim):
    code, _, stderr = run("doctor", "--plan", victim)
    assert code == 2
    assert "expected MODEL and DATA" in stderr
    code, _, stderr = run("doctor", victim)
    assert code == 2
    assert "without --plan" in stderr


def test_the_backend_is_part_of_a_run(run, victim, table, tmp_path):
    out = tmp_path / "run.jsonl"
    assert run("attack", victim, table, *SMALL, "--backend", "int8", "--out", out)[0] == 0
    assert read_run(out)[0]["backend"] == "int8"
    code, _, stderr = run("attack", victim, table, *SMALL, "--out", out, "--resume")
    assert code == 1
    assert "other backend" in stderr
    code, _, stderr = run("predict", victim, "a good film", "--backend", "onnx")
    assert code == 1
    assert "backend: expected one of torch, int8, compile, got 'onnx'" in stderr


def test_protocols_are_chosen_by_name_and_recorded(run, victim, table, tmp_path):
    out = tmp_path / "run.jsonl"
    code, stdout, stderr = run("attack", victim, table, *SMALL, "--protocol", "temperature", "--out", out, "--json")
    assert code == 0, stderr
    about = read_run(out)[0]["protocol"]
    assert about["name"] == json.loads(stdout)["protocol"]["name"] == "temperature"
    assert about["temperature"] > 0
    code, _, stderr = run("attack", victim, table, *SMALL, "--protocol", "magic", "--out", tmp_path / "other.jsonl")
    assert code == 1
    assert "expected one of paper, vote" in stderr


def test_two_processes_write_the_same_file(run, victim, table, tmp_path):
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    assert run("attack", victim, table, *SMALL, "--out", one)[0] == 0
    assert run("attack", victim, table, *SMALL, "--out", two, "--workers", 2)[0] == 0
    scores = {"gold_before": 0.0, "gold_after": 0.0, "confidence_before": 0.0, "evidence": None}
    (about, records), (same, expected) = read_run(one), read_run(two)
    assert about == same
    assert {place: replace(record, **scores) for place, record in records.items()} == {
        place: replace(record, **scores) for place, record in expected.items()
    }


def test_a_suite_attacks_every_model_and_ends_in_a_report(run, victim, table, tmp_path, monkeypatch):
    def few(name, job, _target):
        assert name == "standard"
        return [replace(job, attack="deepwordbug", protocol=protocol) for protocol in ("paper", "temperature")]

    monkeypatch.setattr(suite, "jobs_of", few)
    out, other = tmp_path / "suite", tmp_path / "elsewhere" / "model"
    shutil.copytree(victim, other)
    words = ("evaluate", victim, other, table, "--suite", "standard", "--num", 6, "--out", out)
    code, stdout, stderr = run(*words)
    assert code == 0, stderr
    assert "RAcc" in stdout
    assert (out / "report.html").is_file()
    names = {str(path.relative_to(out)) for path in out.rglob("*.jsonl")}
    protocols = ("paper", "temperature")
    assert names == {f"model-{i}/deepwordbug.{protocol}.jsonl" for i in (1, 2) for protocol in protocols}
    assert json.loads((out / "report.json").read_text())["samples"]
    code, _, stderr = run(*words)  # nothing is attacked again
    assert code == 0
    assert "6/6 texts" in stderr
    code, _, stderr = run("evaluate", victim, table, "--suite", "standard")
    assert code == 1
    assert "expected --out FOLDER" in stderr
    monkeypatch.undo()
    code, _, stderr = run("evaluate", victim, table, "--suite", "huge", "--out", tmp_path / "none")
    assert code == 1
    assert "suite: expected one of standard, full" in stderr


def test_analyses_of_a_model_and_its_records(run, victim, table, tmp_path):
    out = tmp_path / "run.jsonl"
    assert run("attack", victim, table, *SMALL, "--out", out)[0] == 0
    code, stdout, stderr = run("analyse", "layers", victim, out, "--json")
    assert code == 0, stderr
    assert json.loads(stdout)["pairs"] > 0
    code, stdout, stderr = run("analyse", "stability", victim, out, "--runs", 3)
    assert code == 0, stderr
    assert "adversarial" in stdout
    code, stdout, _ = run("analyse", "seeds", out, out, "--json")
    assert code == 0
    assert json.loads(stdout)["RAcc"]["std"] == 0
    code, stdout, stderr = run("analyse", "time", victim, victim, table, "--num", 4, "--repeats", 1)
    assert code == 0, stderr
    copies = ("analyse", "copies", victim, table, "--attack", "deepwordbug", "--num", 3, "--out", tmp_path / "copies")
    code, stdout, stderr = run(*copies, "--counts", "1,3")
    assert code == 0, stderr
    assert "two-step-3" in stdout
    code, _, stderr = run(*copies, "--counts", "1,x")
    assert code == 1
    assert "--counts: expected whole numbers" in stderr
