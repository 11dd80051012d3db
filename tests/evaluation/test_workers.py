"""Jobs in several processes and on a real Ray cluster of this machine, with workers that are killed."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ray_cluster import ray_cluster
from rsmi import RsmiClassifier
from rsmi.errors import ConfigError, WorkerError
from rsmi.evaluation.attacking import describe_run, read_run
from rsmi.evaluation.jobs import Job
from rsmi.evaluation.recordfile import records_to_file
from rsmi.evaluation.workers import run_in_processes, run_on_ray
from rsmi.records import AttackRecord
from toy import CONFIG, LABELS, TEXTS, TRAIN


@pytest.fixture(scope="module")
def job(tiny_folder, tmp_path_factory):
    """An attack on a defended classifier, whose model and data are files."""
    folder = tmp_path_factory.mktemp("job")
    base = str(tiny_folder("bert", num_layers=2, dropout=0.0))
    config = replace(CONFIG, noise_std=0.3)
    RsmiClassifier(base, config, replace(TRAIN, epochs=4), seed=0).fit(TEXTS, LABELS).save_pretrained(folder / "model")
    rows = [{"text": f"{text} {i}", "label": label} for i, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Job(
        model=str(folder / "model"),
        data=str(folder / "data.jsonl"),
        attack="deepwordbug",
        num=24,
        fresh_draws=5,
        together=4,
    )


def comparable(records) -> dict:
    """Records without their scores, whose last bits depend on the batch."""
    scores = {"gold_before": 0.0, "gold_after": 0.0, "confidence_before": 0.0, "evidence": None}
    return {place: replace(record, **scores) for place, record in dict(records).items()}


@pytest.fixture(scope="module")
def expected(job):
    return comparable(job.open().run(range(24)))


def children() -> list[psutil.Process]:
    workers = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "spawn_main" in " ".join(process.cmdline()):
                workers.append(process)
        except psutil.Error:
            continue
    return workers


def test_several_processes_give_the_records_of_one(job, expected):
    assert comparable(run_in_processes(job, range(24), 2)) == expected


def test_what_a_killed_process_was_at_is_done_again(job, expected):
    found = {}
    for place, record in run_in_processes(job, range(24), 2):
        if not found:
            os.kill(children()[0].pid, signal.SIGKILL)
        found[place] = record
    assert comparable(found) == expected


def test_processes_that_always_die_are_given_up(job, monkeypatch):
    stop = threading.Event()

    def kill_all() -> None:
        while not stop.wait(0.05):
            for process in children():
                process.kill()

    killer = threading.Thread(target=kill_all)
    killer.start()
    try:
        with pytest.raises(WorkerError, match="5 in a row were lost"):
            list(run_in_processes(job, range(4), 1))
    finally:
        stop.set()
        killer.join()


def test_an_error_of_a_worker_is_the_error_of_the_run(job):
    with pytest.raises(ConfigError, match="protocol: expected one of"):
        dict(replace(job, protocol="none").open().run([0]))
    broken = replace(job, attack_settings={"no_such_setting": 1})
    with pytest.raises(ConfigError, match="no_such_setting"):
        list(run_in_processes(broken, [0], 2))


def test_a_run_resumed_by_more_workers_ends_with_the_same_file(job, expected, tmp_path: Path):
    opened = job.open()
    header = describe_run(opened.setup.target, opened.setup.attack, opened.sample, job.seed, {})
    out = tmp_path / "run.jsonl"
    begun = records_to_file(header, 24, out, opened.run, AttackRecord.from_dict)
    for _ in range(7):
        next(begun)
    begun.close()
    list(records_to_file(header, 24, out, lambda left: run_in_processes(job, left, 2), AttackRecord.from_dict))
    assert comparable(read_run(out)[1]) == expected
    assert [json.loads(line).get("place") for line in out.read_text().splitlines()] == [None, *range(24)]


@pytest.fixture(scope="module")
def cluster():
    with ray_cluster() as started:
        yield started


def test_a_cluster_gives_the_same_records_although_a_worker_is_killed(job, expected, cluster):
    found = {}
    for place, record in run_on_ray(job, range(24), cluster.address, workers=2):
        if not found:
            killed = cluster.actors()
            assert killed
            killed[0].send_signal(signal.SIGKILL)
        found[place] = record
    assert comparable(found) == expected


def test_no_cluster_is_an_error_that_says_how_to_start_one(job):
    with pytest.raises(WorkerError, match="ray start --head"):
        list(run_on_ray(job, [0], "127.0.0.1:1"))
