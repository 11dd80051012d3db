"""`rsmi gate`: exit codes, what is printed, reports, and going on after an interruption."""

from __future__ import annotations

import json
import tempfile

import pytest

from rsmi.evaluation.attacking import read_run

SMALL = ("--attack", "deepwordbug", "--num", 12)


@pytest.fixture(scope="module")
def measured(keyword_folder, holdout, tmp_path_factory):
    """What `rsmi attack` finds: records and numbers."""
    from rsmi.evaluation.jobs import Job
    from rsmi.evaluation.robustness import Robustness
    from rsmi.evaluation.running import run_job

    out = tmp_path_factory.mktemp("measured") / "run.jsonl"
    job = Job(
        model=str(keyword_folder),
        data=str(holdout),
        attack="deepwordbug",
        num=12,
        attack_settings={"max_queries": None},
    )
    return out, Robustness.of(list(run_job(job.open(), out)))


def test_a_gate_passes_at_its_threshold_and_fails_above_it(run, keyword_folder, holdout, measured):
    value = measured[1].robust_accuracy.value
    assert 0 < value < 1
    code, stdout, stderr = run("gate", keyword_folder, holdout, *SMALL, "--min-robust-accuracy", value)
    assert code == 0, stderr
    assert f"passed  accuracy under attack: {100 * value:.1f} % >=" in stdout
    assert "(measured; 95 % interval [" in stdout
    assert "gate passed: 1 of 1 thresholds hold on 12 texts" in stdout
    code, stdout, stderr = run(
        "gate", keyword_folder, holdout, *SMALL, "--min-robust-accuracy", value + 0.01, "--min-accuracy", 0.5
    )
    assert code == 3
    assert "FAILED  accuracy under attack" in stdout
    assert "passed  accuracy before the attack" in stdout
    assert "gate FAILED: 1 of 2 thresholds hold" in stdout
    assert "accuracy under attack       " in stdout  # all that rsmi attack prints


def test_sure_is_stricter_than_the_measured_number(run, keyword_folder, holdout, measured):
    value = measured[1].robust_accuracy.value
    low, _ = measured[1].robust_accuracy.interval
    code, stdout, _ = run("gate", keyword_folder, holdout, *SMALL, "--min-robust-accuracy", value, "--sure", "--json")
    assert code == 3
    told = json.loads(stdout)
    assert (told["passed"], told["sure"]) == (False, True)
    assert told["thresholds"][0]["compared"] == pytest.approx(low)
    assert told["thresholds"][0]["value"] == pytest.approx(value)
    code, stdout, _ = run("gate", keyword_folder, holdout, *SMALL, "--min-robust-accuracy", low - 0.001, "--sure")
    assert code == 0
    assert "lower end of the interval" in stdout


def test_the_gate_measures_what_rsmi_attack_measures(run, keyword_folder, holdout, measured, tmp_path):
    out, report = tmp_path / "gate.jsonl", tmp_path / "pages" / "gate.html"
    words = ("--max-success-rate", 1, "--out", out, "--report", report, "--json")
    code, stdout, stderr = run("gate", keyword_folder, holdout, *SMALL, *words)
    assert code == 0, stderr
    told = json.loads(stdout)
    assert told["robust_accuracy"] == measured[1].to_dict()["robust_accuracy"]
    assert (told["out"], told["report"]) == (str(out), str(report))
    (about, records), (same, expected) = read_run(out), read_run(measured[0])
    assert about == same
    assert records == expected
    assert "deepwordbug" in report.read_text()


def test_without_a_file_no_records_are_kept(run, keyword_folder, holdout, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    report = tmp_path / "gate.md"
    code, _, stderr = run("gate", keyword_folder, holdout, *SMALL, "--min-accuracy", 0, "--report", report)
    assert code == 0, stderr
    assert [path.name for path in tmp_path.iterdir()] == ["gate.md"]
    assert "records that were not kept" in report.read_text()
    assert str(tmp_path) not in report.read_text()


def test_an_interrupted_gate_goes_on(run, keyword_folder, holdout, measured, tmp_path):
    out = tmp_path / "gate.jsonl"
    lines = measured[0].read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:5]) + lines[5][:20])
    words = ("gate", keyword_folder, holdout, *SMALL, "--min-accuracy", 0.5, "--out", out)
    code, _, stderr = run(*words)
    assert code == 1
    assert "--resume" in stderr
    code, _, stderr = run(*words, "--resume")
    assert code == 0, stderr
    assert read_run(out)[1].keys() == read_run(measured[0])[1].keys()


def test_wrong_uses_are_usage_errors(run, keyword_folder, holdout, tmp_path):
    code, _, stderr = run("gate", keyword_folder, holdout, *SMALL)
    assert code == 2
    assert "expected at least one threshold (--min-robust-accuracy" in stderr
    code, _, stderr = run("gate", keyword_folder, holdout, "--min-accuracy", 40)
    assert code == 2
    code, _, stderr = run("gate", keyword_folder, holdout, "--min-accuracy", 0.4, "--resume")
    assert code == 2
    assert "--resume: expected --out FILE" in stderr


def test_errors_keep_their_own_exit_code(run, keyword_folder, holdout, tmp_path):
    code, _, stderr = run("gate", keyword_folder, holdout, "--min-accuracy", 0.4, "--report", "gate.pdf")
    assert code == 1
    assert "gate.pdf: expected a file ending in .html" in stderr
    code, _, stderr = run("gate", tmp_path / "nowhere", holdout, "--min-accuracy", 0.4)
    assert code == 1
    assert "expected a model folder" in stderr


def test_fewer_texts_than_asked_for_are_said_aloud(run, keyword_folder, holdout):
    code, _, stderr = run(
        "gate", keyword_folder, holdout, "--attack", "deepwordbug", "--num", 50, "--min-accuracy", 0.1
    )
    assert code == 0
    assert "only 12 texts" in stderr
