"""`rsmi report`: files of runs -> files of a report, or one sentence on what is wrong."""

from __future__ import annotations

import json

import pytest

import report_runs
from report_runs import suite, write


@pytest.fixture
def files(tmp_path):
    return [write(own, tmp_path) for own in suite()]


def test_a_report_is_written_in_every_format_asked_for(run, files, tmp_path):
    outs = [tmp_path / "out" / name for name in ("report.html", "report.md", "report.json")]
    code, stdout, stderr = run("report", *files, *(word for out in outs for word in ("--out", out)))
    assert code == 0, stderr
    assert stdout.splitlines() == [str(out) for out in outs]
    assert "warning: noisy: its answers are random" in stderr
    assert json.loads(outs[2].read_text())["samples"][0]["total"] == 8
    assert "<!DOCTYPE html>" in outs[0].read_text()
    assert "# Robustness report" in outs[1].read_text()


def test_the_number_of_examples_can_be_bounded(run, files, tmp_path):
    out = tmp_path / "report.html"
    assert run("report", files[0], "--out", out, "--max-examples", 3)[0] == 0
    assert "5 more records are in the files" in out.read_text()


def test_figures_go_to_a_folder(run, files, tmp_path):
    pytest.importorskip("matplotlib")
    code, stdout, stderr = run("report", files[0], "--figures", tmp_path / "figures")
    assert code == 0, stderr
    assert (tmp_path / "figures" / "toy-test-protocols.svg").exists()
    assert "files" in stdout


def test_what_is_missing_or_wrong_is_said_before_anything_is_read(run, files, tmp_path):
    code, _, stderr = run("report", files[0])
    assert code == 1
    assert "expected --out report.html" in stderr
    code, _, stderr = run("report", tmp_path / "none.jsonl", "--out", tmp_path / "report.docx")
    assert code == 1
    assert "expected a file ending in .html, .md, .json, got '.docx'" in stderr
    code, _, stderr = run("report", tmp_path / "none.jsonl", "--out", tmp_path / "report.md")
    assert code == 1
    assert "none.jsonl: cannot read" in stderr


def test_damaged_and_unfinished_runs_are_named_with_file_and_line(run, files, tmp_path):
    out = tmp_path / "report.html"
    lines = files[0].read_text().splitlines(keepends=True)
    files[0].write_text("".join([*lines[:3], "nonsense\n", *lines[4:]]))
    code, _, stderr = run("report", *files, "--out", out)
    assert code == 1
    assert f"{files[0]}, line 4: expected a record" in stderr
    files[0].write_text("".join(lines)[:-20])
    code, _, stderr = run("report", *files, "--out", out)
    assert code == 1
    assert str(files[0]) in stderr
    assert not out.exists()


def test_one_run_twice_is_refused(run, files, tmp_path):
    code, _, stderr = run("report", files[0], files[0], "--out", tmp_path / "report.md")
    assert code == 1
    assert "leave one of them out" in stderr


def test_the_page_survives_texts_that_look_like_markup(run, tmp_path):
    own = report_runs.run("", records=[report_runs.record("s", original="<b>\u2028</script>", adversarial="<i>")])
    assert run("report", write(own, tmp_path), "--out", tmp_path / "report.html")[0] == 0
    assert "<b>" not in (tmp_path / "report.html").read_text(encoding="utf-8")
