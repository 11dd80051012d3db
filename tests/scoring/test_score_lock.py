"""Two runs for one result: the second is refused, what a killed one left behind is taken over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from rsmi import RsmiClassifier, score_file
from rsmi.errors import DataError
from scored_files import ROWS, read_rows, write_rows


def test_two_runs_do_not_write_the_same_result(clf, tmp_path, monkeypatch):
    file, out = write_rows(tmp_path / "in.jsonl", ROWS), tmp_path / "out.jsonl"
    explain_iter, refused = RsmiClassifier.explain_iter, []

    def explain(self, texts):
        if not refused:
            for resume in (False, True):
                with pytest.raises(DataError, match=rf"got one that is under way \(process {os.getpid()} on ") as error:
                    score_file(clf, file, out, chunk_rows=6, resume=resume)
                refused.append(error)
        return explain_iter(self, texts)

    monkeypatch.setattr(RsmiClassifier, "explain_iter", explain)
    score_file(clf, file, out, chunk_rows=6)
    assert len(refused) == 2
    assert len(read_rows(out)) == 40
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]  # no lock is left


def test_the_lock_of_a_killed_run_is_taken_over(clf, tmp_path):
    lock = tmp_path / "out.jsonl.parts.lock"
    file, out = write_rows(tmp_path / "in.jsonl", ROWS), tmp_path / "out.jsonl"
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom rsmi.scoring.lock import only_run\n"
        "with only_run(Path(sys.argv[1])):\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "out.jsonl.parts")])
    assert killed.returncode == -signal.SIGKILL
    assert lock.exists()
    assert score_file(clf, file, out, chunk_rows=6).rows == 40
    assert not lock.exists()


def test_a_lock_that_cannot_be_written_is_one_error(clf, tmp_path):
    file = write_rows(tmp_path / "in.jsonl", ROWS[:4])
    (tmp_path / "out.jsonl.parts.lock").mkdir()
    with pytest.raises(DataError, match="cannot be written: Is a directory"):
        score_file(clf, file, tmp_path / "out.jsonl")
