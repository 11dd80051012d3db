"""`rsmi certify`, and its certificates in a report."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

import rsmi.app.certify as command
from rsmi import RsmiClassifier, RsmiConfig
from rsmi.evaluation import audit
from rsmi.evaluation.audit import audit_records
from rsmi.evaluation.certifying import read_certificates
from rsmi.evaluation.recordfile import write_records
from toy import LABELS, TEXTS, TRAIN

SMALL = ("--samples", 100, "--selection", 10, "--failure-prob", 0.01, "--num", 8)


@pytest.fixture(scope="module")
def masked(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked") / "model"
    classifier = RsmiClassifier(base, RsmiConfig.variant("ranmask", word_mask_rate=0.4, max_length=32), seed=0)
    classifier.fit(TEXTS, LABELS, replace(TRAIN, method="finetune", epochs=8)).save_pretrained(folder)
    return folder


def falsified(run, masked, table, out):
    """Write certificates that claim too much."""
    assert run("certify", masked, table, *SMALL, "--out", out)[0] == 0
    header, records = read_certificates(out)
    false = {
        place: replace(own, certificate=replace(own.certificate, radius=4, label=own.gold))
        for place, own in records.items()
    }
    write_records(out, header, false)


def test_the_command_trains_certifies_attacks_and_reports(run, base, masked, table, tmp_path):
    out, attacked = tmp_path / "certificates.jsonl", tmp_path / "run.jsonl"
    code, stdout, stderr = run("certify", masked, table, *SMALL, "--out", out, "--audit")
    assert code == 0, stderr
    assert "certified for the true class" in stdout
    assert "1 words" in stdout
    assert "broken 0" in stdout or "attacked from inside" not in stdout
    header, records = read_certificates(out)
    assert header["certify"]["kind"] == "l0-mask"  # what the model was trained for
    assert len(records) == 8
    code, stdout, stderr = run("certify", masked, table, *SMALL, "--out", out, "--resume", "--json")
    assert code == 0, stderr
    assert json.loads(stdout)["total"] == 8
    assert run("attack", masked, table, "--attack", "deepwordbug", "--num", 8, "--out", attacked)[0] == 0
    code, _, stderr = run("certify", masked, table, *SMALL, "--out", out, "--resume", "--against", attacked)
    assert code == 0, stderr
    page = tmp_path / "report.md"
    code, _, stderr = run("report", attacked, out, "--out", page)
    assert code == 0, stderr
    assert "Certified accuracy" in page.read_text()
    alone = tmp_path / "alone.html"
    assert run("report", out, "--out", alone)[0] == 0
    assert "Certified accuracy" in alone.read_text()


def test_an_interrupted_audit_keeps_what_it_did_and_goes_on(run, masked, table, tmp_path, monkeypatch):
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    falsified(run, masked, table, whole)
    shutil.copy(whole, cut)
    assert run("certify", masked, table, *SMALL, "--out", whole, "--resume", "--audit")[0] == 1
    assert all(own.audits for own in read_certificates(whole)[1].values())
    monkeypatch.setattr(command, "_AUDITED_TOGETHER", 3)
    given: list[int] = []

    def stopped(*arguments, **settings):
        for few in audit_records(*arguments, **settings):
            if len(given) == 2:
                raise KeyboardInterrupt
            given.append(len(few))
            yield few

    with monkeypatch.context() as own:
        own.setattr(audit, "audit_records", stopped)
        code, _, stderr = run("certify", masked, table, *SMALL, "--out", cut, "--resume", "--audit")
    assert code == 130
    assert "--resume" in stderr
    assert given == [3, 3]
    kept, done = read_certificates(cut)[1], read_certificates(whole)[1]
    assert [kept[i].audits for i in range(6)] == [done[i].audits for i in range(6)]
    assert not kept[6].audits
    assert run("certify", masked, table, *SMALL, "--out", cut, "--resume", "--audit")[0] == 1
    assert cut.read_text() == whole.read_text()


def test_a_broken_certificate_fails_the_report_loudly(run, masked, table, tmp_path):
    out = tmp_path / "certificates.jsonl"
    falsified(run, masked, table, out)
    code, _, stderr = run("certify", masked, table, *SMALL, "--out", out, "--resume", "--audit")
    assert code == 1
    assert "A CERTIFICATE IS WRONG" in stderr
    page = tmp_path / "report.md"
    code, _, stderr = run("report", out, "--out", page)
    assert code == 1
    assert "FALSE CERTIFICATES" in stderr
    assert "FALSE CERTIFICATES" in page.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kind", "theorem-1"), "Theorem 1 of the paper is false"),
        (("--masking", "gradient"), "no radius"),
        (("--kind", "l2-embedding"), "no noise at its word embeddings"),
        (("--bound", "sequential"), "expected a radius"),
        (("--kind", "nonsense"), "kind: expected one of"),
        (("--set", "word_mask_rate=2"), "word_mask_rate"),
    ],
)
def test_what_cannot_be_certified_is_one_sentence(run, masked, table, tmp_path, words, message):
    code, _, stderr = run("certify", masked, table, *SMALL, "--out", tmp_path / "c.jsonl", *words)
    assert code == 1
    assert message in stderr
    assert "Traceback" not in stderr
    assert not (tmp_path / "c.jsonl").exists()


def test_a_simultaneous_claim_is_stricter(run, masked, table, tmp_path):
    assert run("certify", masked, table, *SMALL, "--out", tmp_path / "a.jsonl", "--simultaneous")[0] == 0
    header, _ = read_certificates(tmp_path / "a.jsonl")
    assert header["certify"]["failure_prob"] == pytest.approx(0.01 / 8)
    code, _, stderr = run("certify", masked, table, *SMALL, "--out", tmp_path / "a.jsonl")
    assert code == 1
    assert "--resume" in stderr
