"""`rsmi train --resume` after `kill -9`, in processes of their own."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

from toy import LABELS, TEXTS

UPDATES = 18  # 3 epochs of 43 texts, 8 an update


@pytest.fixture
def command(tiny_folder, tmp_path):
    """(folder, *words) -> the words of a training command in a process of its own."""
    table = tmp_path / "reviews.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *zip(TEXTS, LABELS, strict=True)])
    base = tiny_folder("bert", num_layers=2, dropout=0.2)
    settings = [
        "--epochs",
        "3",
        "--batch-size",
        "8",
        "--learning-rate",
        "1e-3",
        "--save-every",
        "1",
        "--num-masks",
        "1",
    ]
    settings += ["--noise-layers", "2", "--base", str(base)]

    def words(out, *more, processes=1):
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        start = [sys.executable, *(launcher if processes > 1 else ()), "-m", "rsmi", "train", str(table)]
        return [*start, "--out", str(out), *settings, *more]

    return words


def _newest(folder):
    updates = [int(path.name.split("-")[1]) for path in folder.glob("update-*")]
    return max(updates, default=0)


def _run_until_killed(words, folder, update, moment):
    """Run a command and kill it `moment` seconds after it has saved `update`."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while process.poll() is None and _newest(folder) < update and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(moment)
    for child in [*psutil.Process(process.pid).children(recursive=True), process]:  # all processes of the run
        child.send_signal(signal.SIGKILL)
    _, stderr = process.communicate()
    return process.returncode, stderr.decode()


@pytest.mark.slow
def test_weights_after_any_number_of_kills_are_those_of_an_uninterrupted_run(command, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = subprocess.run(command(whole), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rng, reached = random.Random(0), 0
    for _ in range(3):  # each kill falls somewhere between two saves, or into one
        reached = rng.randint(reached + 1, min(reached + 5, UPDATES - 1))
        code, stderr = _run_until_killed(
            command(killed, "--resume"), tmp_path / "killed.run", reached, rng.random() / 50
        )
        assert code == -signal.SIGKILL, stderr
        assert not killed.exists()
        reached = max(reached, _newest(tmp_path / "killed.run"))
    refused = subprocess.run(command(killed), capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "pass --resume" in refused.stderr
    done = subprocess.run(command(killed, "--resume"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    records = [json.loads((folder / "rsmi_config.json").read_text())["training"] for folder in (whole, killed)]
    assert records[0]["history"] == [pytest.approx(epoch, rel=1e-6) for epoch in records[1]["history"]]
    assert sorted(os.listdir(tmp_path)) == ["killed", "reviews.csv", "whole"]


@pytest.mark.slow
def test_two_processes_killed_go_on_to_the_weights_of_an_uninterrupted_run(command, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = subprocess.run(command(whole, processes=2), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    code, stderr = _run_until_killed(command(killed, processes=2), tmp_path / "killed.run", 8, 0.01)
    assert code == -signal.SIGKILL, stderr
    assert not killed.exists()
    done = subprocess.run(command(killed, "--resume", processes=2), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
