"""`rsmi predict --file --out`: results on stdout, killed runs that go on, memory that does not grow."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rsmi import RsmiClassifier
from scored_files import ROWS, read_rows, write_rows


def test_a_file_is_scored_and_the_result_named_on_stdout(run, model, tmp_path):
    file, out = write_rows(tmp_path / "in.csv", ROWS), tmp_path / "out.parquet"
    code, stdout, stderr = run("predict", model, "--file", file, "--out", out, "--seed", 0)
    assert code == 0, stderr
    assert stdout == f"saved {out}: 40 rows\n"
    assert "score: 100%" in stderr
    expected = RsmiClassifier.from_pretrained(model, seed=0).predict([row["text"] for row in ROWS]).tolist()
    assert [row["label"] for row in read_rows(out)] == expected
    code, _, stderr = run("predict", model, "--file", file, "--out", out, "--seed", 0)
    assert code == 1
    assert f"rsmi: {out}: exists already" in stderr


def test_bad_rows_can_be_skipped(run, model, tmp_path):
    file, out = tmp_path / "in.csv", tmp_path / "out.jsonl"
    file.write_text("text\ngood film\n \nbad film\n")
    code, stdout, stderr = run("predict", model, "--file", file, "--out", out)
    assert (code, stdout) == (1, "")
    assert stderr.splitlines()[-1].startswith("rsmi: in.csv, row 2 (line 3): expected a text")
    code, stdout, stderr = run("predict", model, "--file", file, "--out", out, "--on-error", "skip", "--json")
    assert code == 0, stderr
    assert json.loads(stdout) == {"out": str(out), "rows": 3, "skipped": 1, "resumed": 0}


def test_options_without_their_partner_are_refused(run, model, tmp_path):
    code, _, stderr = run("predict", model, "good film", "--out", tmp_path / "out.csv")
    assert code == 2
    assert "--file" in stderr
    for option in (("--resume",), ("--on-error", "skip"), ("--prefix", "p_"), ("--workers", 2), ("--cluster", "auto")):
        code, _, stderr = run("predict", model, "good film", *option)
        assert code == 2, option
        assert "--out" in stderr


def test_ctrl_c_says_where_the_work_is_and_resume_goes_on(run, model, tmp_path, monkeypatch):
    file, out = write_rows(tmp_path / "in.csv", ROWS), tmp_path / "out.csv"
    whole = tmp_path / "whole.csv"
    words = ("predict", model, "--file", file, "--seed", 0, "--chunk-rows", 8)
    assert run(*words, "--out", whole)[0] == 0
    explain_iter, left = RsmiClassifier.explain_iter, [2]

    def interrupted(self, texts):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return explain_iter(self, texts)

    with monkeypatch.context() as patch:
        patch.setattr(RsmiClassifier, "explain_iter", interrupted)
        code, stdout, stderr = run(*words, "--out", out)
    assert (code, stdout) == (130, "")
    assert f"interrupted; the chunks done are in {out}.parts, --resume goes on" in stderr
    code, stdout, stderr = run(*words, "--out", out, "--resume")
    assert code == 0, stderr
    assert stdout == f"saved {out}: 40 rows, 16 of them before the interruption\n"
    assert out.read_bytes() == whole.read_bytes()


def _command(model, file, out, *more):
    start = [sys.executable, "-m", "rsmi", "predict", str(model), "--file", str(file), "--out", str(out)]
    return [*start, "--seed", "0", "--chunk-rows", "16", *more]


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "kills"), [(1, (2, 9, 17)), (2, (5,))])
def test_a_run_killed_again_and_again_ends_with_the_file_of_an_uninterrupted_one(model, tmp_path, workers, kills):
    file = write_rows(tmp_path / "in.jsonl", ROWS * 12)
    whole, out, parts = tmp_path / "whole.parquet", tmp_path / "out.parquet", tmp_path / "out.parquet.parts"
    subprocess.run(_command(model, file, whole), check=True, capture_output=True)
    for reached in kills:
        words = _command(model, file, out, "--resume", "--workers", str(workers))
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 120
        while process.poll() is None and len(list(parts.glob("part-*"))) < reached and time.monotonic() < deadline:
            time.sleep(0.002)
        for child in [*psutil.Process(process.pid).children(recursive=True), process]:
            child.send_signal(signal.SIGKILL)
        _, stderr = process.communicate()
        assert process.returncode == -signal.SIGKILL, stderr.decode()
        assert not out.exists()
    done = subprocess.run(_command(model, file, out, "--resume"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "before the interruption" in done.stdout
    assert out.read_bytes() == whole.read_bytes()
    assert not parts.exists()


_PEAKS = """
import sys
from pathlib import Path
from rsmi import RsmiClassifier, score_file
model, *files = sys.argv[1:]
clf = RsmiClassifier.from_pretrained(model, seed=0, token_budget=512, progress=False)
for file in files:
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    score_file(clf, file, file + ".scored.parquet", chunk_rows=32)
    (peak,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    print(peak.split()[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
def test_memory_does_not_grow_with_the_file(model, tmp_path):
    """A row carries 64 KiB that are not its text: the first file holds 32 MiB in one row group, the second 160 MiB."""
    files = []
    for rows in (512, 2560):
        table = pa.table(
            {"text": [f"good film {i}" for i in range(rows)], "payload": [f"{i:08d}" * 8192 for i in range(rows)]}
        )
        files.append(str(tmp_path / f"{rows}.parquet"))
        small_pages = {"write_batch_size": 16, "data_page_size": 2**20}  # a page is the least that can be read
        pq.write_table(table, files[-1], row_group_size=rows, compression="none", use_dictionary=False, **small_pages)
    done = subprocess.run([sys.executable, "-c", _PEAKS, model, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    small, large = (int(line) / 1024 for line in done.stdout.split())
    assert large - small < 48, f"{small:.0f} MiB, then {large:.0f} MiB for a file of 128 MiB more"
    assert pq.ParquetFile(files[1] + ".scored.parquet").metadata.num_rows == 2560
