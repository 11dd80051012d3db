"""`rsmi attack` on models that are not ours."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from endpoint import endpoint, hub_answer, own_answer, positive_share
from rsmi.evaluation.attacking import read_run
from rsmi.evaluation.runs import Run, cautions
from rsmi.report import Report
from toy import LABELS, TEXTS

SMALL = ("--attack", "deepwordbug", "--num", 6)
OWN = "/v1/predict"


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    """The toy texts with 0 and 1 as labels."""
    path = tmp_path_factory.mktemp("numbered") / "rows.jsonl"
    rows = [{"text": text, "label": int(label == "pos")} for text, label in zip(TEXTS, LABELS, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_pipeline_is_attacked_like_our_own_model_with_the_same_weights(run, keyword_folder, holdout, tmp_path):
    ours, foreign = tmp_path / "ours.jsonl", tmp_path / "foreign.jsonl"
    words = ("--attack", "deepwordbug", "--num", 12)
    assert run("attack", keyword_folder, holdout, *words, "--no-evidence", "--out", ours)[0] == 0
    code, stdout, stderr = run("attack", f"pipeline:{keyword_folder}", holdout, *words, "--out", foreign)
    assert code == 0, stderr
    assert "accuracy under attack" in stdout
    (about, records), (expected_about, expected) = read_run(foreign), read_run(ours)
    scores = {"gold_before": 0.0, "gold_after": 0.0, "confidence_before": 0.0}  # other batches, other last digits
    assert {place: replace(record, **scores) for place, record in records.items()} == {
        place: replace(record, **scores) for place, record in expected.items()
    }
    assert about["model"]["kind"] == "pipeline"
    assert about["model"]["fingerprint"] == expected_about["model"]["fingerprint"]
    two = tmp_path / "two.jsonl"
    assert run("attack", f"pipeline:{keyword_folder}", holdout, *words, "--out", two, "--workers", 2)[0] == 0
    assert [record.adversarial for record in read_run(two)[1].values()] == [
        record.adversarial for record in records.values()
    ]


def test_an_endpoint_is_attacked_and_recorded_by_its_address(run, table, tmp_path):
    out = tmp_path / "run.jsonl"
    with endpoint(own_answer, f"{OWN}?token=hidden") as asked:
        code, stdout, stderr = run("attack", asked.url, table, *SMALL, "--out", out, "--json")
        assert code == 0, stderr
        assert json.loads(stdout)["accuracy"]["value"] == 1.0
        about, records = read_run(out)
        assert about["model"]["name"] == f"{asked.url.partition('?')[0]}?…"
        assert "fingerprint" not in about["model"]
        assert "hidden" not in out.read_text() + stdout + stderr
        assert all(record.evidence is None for record in records.values())
        assert len(records) == 6
        assert any(record.outcome == "succeeded" for record in records.values())
        lines = out.read_text().splitlines(keepends=True)
        out.write_text("".join(lines[:3]))
        assert run("attack", asked.url, table, *SMALL, "--out", out, "--resume")[0] == 0
    assert read_run(out)[1] == records
    report = Report.from_runs([Run.read(out)])
    assert any("no fingerprint of its weights" in warning for warning in report.warnings)
    assert cautions([Run.read(out)])


def test_classes_get_the_names_of_the_data(run, table, numbered, tmp_path):
    with endpoint(hub_answer) as asked:
        code, _, stderr = run("attack", asked.url, table, *SMALL, "--out", tmp_path / "no.jsonl")
        assert code == 1
        assert "got 'LABEL_" in stderr
        assert not (tmp_path / "no.jsonl").exists()  # nothing is begun before the model answers
        words = ("--rename", "LABEL_0=neg", "--rename", "LABEL_1=pos")
        code, stdout, stderr = run("attack", asked.url, table, *SMALL, "--out", tmp_path / "a.jsonl", *words, "--json")
        assert code == 0, stderr
        assert json.loads(stdout)["accuracy"]["value"] == 1.0
        words = ("--rename", "LABEL_0=0", "--rename", "LABEL_1=1")
        code, stdout, stderr = run(
            "attack", asked.url, numbered, *SMALL, "--out", tmp_path / "b.jsonl", *words, "--json"
        )
        assert code == 0, stderr
        assert json.loads(stdout)["accuracy"]["value"] == 1.0


def test_body_answer_classes_and_key_are_options(run, table, tmp_path, monkeypatch):
    monkeypatch.setenv("THEIR_KEY", "s3cret")

    def answer(body):
        return {"rows": [{"p": [positive_share(row["t"]), 1 - positive_share(row["t"]), 0.0]} for row in body["rows"]]}

    out = tmp_path / "run.jsonl"
    with endpoint(answer) as asked:
        words = ("--body", '{"rows": [{"t": "{text}"}]}', "--answer", "rows.*.p", "--classes", "pos,neg,none")
        words = (*words, "--key-variable", "THEIR_KEY", "--key-header", "X-Key", "--batch-size", 4, "--timeout", 9)
        code, stdout, stderr = run("attack", asked.url, table, *SMALL, "--out", out, *words, "--retries", 1, "--json")
    assert code == 0, stderr
    assert json.loads(stdout)["accuracy"]["value"] == 1.0
    assert all(headers["x-key"] == "s3cret" for headers, _ in asked)
    assert max(len(body["rows"]) for _, body in asked) == 4
    assert "s3cret" not in out.read_text()
    assert read_run(out)[0]["model"]["config"]["classes"] == ["pos", "neg", "none"]


def test_a_random_endpoint_must_be_declared_and_is_then_asked_again(run, table, tmp_path):
    state = {"calls": 0}

    def noisy(body):
        state["calls"] += 1
        shift = 0.04 if state["calls"] % 2 else -0.04
        answer = own_answer(body)
        for result in answer["results"]:
            share = min(max(result["probabilities"]["pos"] + shift, 0.0), 1.0)
            result["probabilities"] = {"neg": 1 - share, "pos": share}
        return answer

    out = tmp_path / "run.jsonl"
    with endpoint(noisy, OWN) as asked:
        code, _, stderr = run("attack", asked.url, table, *SMALL, "--out", out)
        assert code == 1
        assert "pass randomised (--randomised)" in stderr
        assert not out.exists()
        words = ("--randomised", "--fresh-draws", 4)
        code, stdout, stderr = run("attack", asked.url, table, *SMALL, "--out", out, *words)
        assert code == 0, stderr
        assert "asked again, other draws" in stdout
        about, records = read_run(out)
        assert about["randomised"] is True
        assert {record.fresh_draws for record in records.values() if record.outcome == "succeeded"} == {4}
        words = ("--protocol", "eot", "--draws", 2, *words)
        code, stdout, stderr = run("attack", asked.url, table, *SMALL, "--out", tmp_path / "eot.jsonl", *words)
        assert code == 0, stderr


@pytest.mark.parametrize("protocol", ["vote", "fixed-noise", "transfer", "white-box", "mask-aware"])
def test_protocols_that_look_into_a_model_refuse_another_one(run, table, tmp_path, protocol):
    words = ("attack", "http://127.0.0.1:1/", table, *SMALL, "--out", tmp_path / "no.jsonl")
    code, _, stderr = run(*words, "--protocol", protocol)
    assert code == 1
    assert "expected one of paper, eot, temperature, persistent for a model that is not ours" in stderr
    assert stderr.count("\n") == 1


def test_what_does_not_fit_the_kind_of_model_is_refused(run, table, keyword_folder, tmp_path):
    out = ("--out", tmp_path / "no.jsonl")
    address = "http://127.0.0.1:1/"
    for model, words, message in (
        (address, ("--attack", "hotflip"), "got hotflip, which differentiates it"),
        (address, ("--variant", "plain"), "variant: expected none for a model that is not ours"),
        (address, ("--backend", "int8"), "backend: expected none"),
        (address, ("--device", "cpu"), "device, dtype: expected none"),
        (keyword_folder, ("--randomised",), "randomised: expected a model that is not ours"),
        (f"pipeline:{keyword_folder}", ("--body", "{}"), "body: expected an address"),
        (address, ("--rename", "pos"), "--rename: expected THEIRS=OURS"),
        (address, ("--classes", "[1"), "--classes: expected names with commas"),
        ("http://me:pw@host/", (), "without a password"),
    ):
        code, _, stderr = run("attack", model, table, *SMALL, *out, *words)
        assert code == 1, (model, words, stderr)
        assert message in stderr
    assert not (tmp_path / "no.jsonl").exists()


@pytest.mark.parametrize("command", ["certify", "evaluate", "predict"])
def test_commands_that_need_our_model_say_so(run, table, tmp_path, command):
    words = {
        "certify": (table, "--out", tmp_path / "c.jsonl"),
        "evaluate": (table,),
        "predict": ("a good film",),
    }[command]
    code, _, stderr = run(command, "https://host/v1/predict?key=hidden", *words)
    assert code == 1
    assert "models that are not ours can be attacked" in stderr
    assert "hidden" not in stderr
