"""The example of a release gate: its files are what they claim to be, and their very command passes and fails."""

from __future__ import annotations

import csv
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from command import rsmi
from keyword_model import keyword_classifier, keyword_texts

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "release_gate"


def _read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def workflow_command() -> str:
    (job,) = _read("release-gate.yml")["jobs"].values()
    (command,) = [step["run"] for step in job["steps"] if "rsmi gate" in step.get("run", "")]
    return command


def hook_command() -> str:
    (repo,) = _read("pre-commit-config.yaml")["repos"]
    (hook,) = repo["hooks"]
    return hook["entry"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository as the example expects it, its model one that typing errors make answer `neg`."""
    root = tmp_path_factory.mktemp("repository")
    keyword_classifier("plain").save_pretrained(root / "models" / "reviews")
    (root / "data").mkdir()
    return root


@pytest.fixture(params=["passes", "fails"])
def case(request, repository):
    """The repository with held-out texts that the model keeps right under attack, or does not, and the exit code."""
    texts, labels = keyword_texts(60, seed=5)
    rows = [row for row in zip(texts, labels, strict=True) if request.param == "passes" or row[1] == "pos"]
    rows = [row for row in rows if row[1] == "neg"] + [row for row in rows if row[1] == "pos"][:8]
    with (repository / "data" / "holdout.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    for made in ("gate.html", "gate.jsonl"):
        (repository / made).unlink(missing_ok=True)
    return repository, 0 if request.param == "passes" else 3


def test_the_workflow_is_one_that_github_runs():
    workflow = _read("release-gate.yml")
    assert {"pull_request", "workflow_dispatch"} <= set(workflow[True])  # YAML 1.1 reads the key `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    assert job["runs-on"]
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    kept = next(step for step in job["steps"] if "upload-artifact" in step.get("uses", ""))
    assert kept["if"] == "always()"  # the report of a failed gate is the one that is read
    words = shlex.split(workflow_command())
    for option in ("--report", "--out"):
        assert words[words.index(option) + 1] in kept["with"]["path"].split()


def test_the_hook_is_one_that_pre_commit_takes():
    from pre_commit.clientlib import load_config

    (repo,) = load_config(str(FOLDER / "pre-commit-config.yaml"))["repos"]
    (hook,) = repo["hooks"]
    assert hook["pass_filenames"] is False


def test_both_run_one_command():
    assert workflow_command().startswith(hook_command())


def test_the_command_of_the_workflow_passes_and_fails(case):
    root, expected = case
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", workflow_command()]  # as GitHub runs a step
    done = subprocess.run(shell, cwd=root, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == expected, done.stderr
    assert ("gate passed" if expected == 0 else "gate FAILED") in done.stdout
    assert (root / "gate.html").read_text().startswith("<!DOCTYPE html>")
    assert (root / "gate.jsonl").is_file()


def test_the_command_of_the_hook_passes_and_fails(case, monkeypatch, capfd):
    root, expected = case
    monkeypatch.chdir(root)
    before = set(root.rglob("*"))
    program, *words = shlex.split(hook_command())
    assert program == "rsmi"
    code, _, stderr = rsmi(monkeypatch, capfd, *words)
    assert code == expected, stderr
    assert set(root.rglob("*")) == before  # a hook that left files would be in the way of the next commit
