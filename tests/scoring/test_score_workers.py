"""Chunks in several processes and on a real Ray cluster of this machine, with workers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from ray_cluster import ray_cluster
from rsmi import RsmiClassifier, score_file
from rsmi.errors import CheckpointError, WorkerError
from rsmi.scoring.answers import Answering, answer
from rsmi.workers import in_processes, on_ray
from scored_files import ROWS, write_rows

pytestmark = pytest.mark.slow  # every worker is a process that imports torch
TEXTS = [row["text"] for row in ROWS]
PARTS = [(number, TEXTS[start : start + 5]) for number, start in enumerate(range(0, 40, 5))]


@pytest.fixture(scope="module")
def work(clf):
    return Answering.of(clf)


@pytest.fixture(scope="module")
def expected(clf):
    return {number: answer(clf, texts) for number, texts in PARTS}


def spawned() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [process for process in children if "spawn_main" in " ".join(process.cmdline())]


def test_several_processes_write_the_file_of_one(clf, tmp_path):
    file = write_rows(tmp_path / "in.parquet", ROWS)
    for workers in (1, 2):
        score_file(clf, file, tmp_path / f"{workers}.parquet", chunk_rows=6, workers=workers)
    assert (tmp_path / "1.parquet").read_bytes() == (tmp_path / "2.parquet").read_bytes()


def test_what_a_killed_process_was_at_is_done_again_and_tasks_are_taken_as_workers_become_free(work, expected):
    found, taken = {}, []

    def tasks(_workers):
        for part in PARTS:
            taken.append(part)
            yield part

    for (number, _), cells in in_processes(work, tasks, 2):
        assert len(taken) <= len(found) + 3  # two at work and the next one
        if not found:
            os.kill(spawned()[0].pid, signal.SIGKILL)
        assert number not in found
        found[number] = cells
    assert found == expected


def test_a_model_that_workers_cannot_load_is_their_error_not_a_riddle(clf, model, tmp_path):
    gone = RsmiClassifier.from_pretrained(model, seed=0, progress=False)
    gone.base = str(tmp_path / "gone")
    file = write_rows(tmp_path / "in.csv", ROWS[:3])
    with pytest.raises(CheckpointError, match="expected a model folder, found none"):
        score_file(gone, file, tmp_path / "out.csv", workers=2)
    score_file(clf, file, tmp_path / "out.csv", resume=True)  # nothing is lost, and the run can go on


_ORPHAN = """
import sys
from rsmi.scoring.answers import Answering
from rsmi import RsmiClassifier
from rsmi.workers import in_processes
if __name__ == "__main__":
    work = Answering.of(RsmiClassifier.from_pretrained(sys.argv[1], seed=0, progress=False))
    for _ in in_processes(work, lambda _: iter([(0, ["good film"])] * 10**6), 1):
        print("working", flush=True)
"""


def test_workers_end_when_the_process_that_started_them_is_killed(model, tmp_path):
    (tmp_path / "run.py").write_text(_ORPHAN)
    command = [sys.executable, str(tmp_path / "run.py"), str(model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"working\n"
        workers = psutil.Process(process.pid).children(recursive=True)
        assert workers
        process.kill()
    assert psutil.wait_procs(workers, timeout=30)[1] == []


@pytest.fixture(scope="module")
def cluster():
    with ray_cluster() as started:
        yield started


def test_a_cluster_gives_the_same_answers_although_a_worker_is_killed(work, expected, cluster):
    found = {}
    for (number, _), cells in on_ray(work, lambda _: iter(PARTS), cluster.address, workers=2):
        if not found:
            workers = cluster.actors()
            assert workers
            workers[0].send_signal(signal.SIGKILL)
        found[number] = cells
    assert found == expected


def test_a_cluster_writes_the_file_of_one_process(clf, tmp_path, cluster):
    file = write_rows(tmp_path / "in.csv", ROWS)
    score_file(clf, file, tmp_path / "here.csv", chunk_rows=6)
    score_file(clf, file, tmp_path / "there.csv", chunk_rows=6, cluster=cluster.address)
    assert (tmp_path / "here.csv").read_bytes() == (tmp_path / "there.csv").read_bytes()


def test_no_cluster_is_an_error_and_the_run_can_go_on_without(clf, tmp_path):
    file = write_rows(tmp_path / "in.csv", ROWS)
    with pytest.raises(WorkerError, match="ray start --head"):
        score_file(clf, file, tmp_path / "out.csv", cluster="127.0.0.1:1")
    assert score_file(clf, file, tmp_path / "out.csv", resume=True).rows == 40
