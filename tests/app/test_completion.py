"""Shell completion: what Tab offers is what the library knows, and it comes without loading the library."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from rsmi.app import completion
from rsmi.attacks.catalogue import ATTACKS
from rsmi.certify.settings import Bound, Kind
from rsmi.config import PROFILES, VARIANTS, Method
from rsmi.data.folder import FOLDER_SETS
from rsmi.evaluation.protocols import PROTOCOLS
from rsmi.evaluation.suite import SUITES
from rsmi.experiments.items import ITEMS
from rsmi.experiments.scales import SCALES
from rsmi.method.backends import BACKENDS
from rsmi.method.pretrained import as_dtype
from rsmi.presets import PRESETS


def test_names_are_those_of_the_library():
    assert tuple(ATTACKS) == completion.ATTACKS
    assert tuple(BACKENDS) == completion.BACKENDS
    assert get_args(Bound) == completion.BOUNDS
    assert set(completion.ITEMS) == {"all", *ITEMS}
    assert get_args(Kind) == completion.KINDS
    assert get_args(Method) == completion.METHODS
    assert tuple(PROFILES) == completion.PROFILES
    assert tuple(PROTOCOLS) == completion.PROTOCOLS
    assert set(completion.SCALES) == set(SCALES)
    assert tuple(FOLDER_SETS) == completion.SETS
    assert tuple(SUITES) == completion.SUITES
    assert tuple(VARIANTS) == completion.VARIANTS
    assert all(as_dtype(name) for name in completion.DTYPES)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("rsmi pre", ["predict"]),
        ("rsmi analyse l", ["layers"]),
        ("rsmi train mr --ep", ["--epochs"]),
        ("rsmi train mr --method f", ["finetune", "freelb"]),
        ("rsmi train mr --preset minilm/", [name for name in PRESETS if name.startswith("minilm/")]),
        ("rsmi train i", ["imdb"]),
        ("rsmi attack runs/mr m", ["mr"]),
        ("rsmi attack runs/mr mr --attack text", ["textfooler"]),
        ("rsmi gate runs/mr mr --protocol p", ["paper", "persistent"]),
        ("rsmi predict runs/mr --variant no-", ["no-mask", "no-two-step"]),
        ("rsmi certify runs/mr mr --kind l2", ["l2-hidden", "l2-embedding"]),
        ("rsmi reproduce figure", ["figure2", "figure3", "figure4"]),
    ],
)
def test_tab_offers_names(run, monkeypatch, typed, offered):
    words = typed.split(" ")
    monkeypatch.setenv("_RSMI_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    code, stdout, stderr = run()
    assert (code, stderr) == (0, "")
    assert stdout.split() == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_after_the_script_is_read(tmp_path):
    command = tmp_path / "rsmi"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -X importtime -m rsmi "$@" 2> {tmp_path}/imported\n')
    command.chmod(0o755)
    lines = (
        f"export PATH={tmp_path}:$PATH",
        'eval "$(rsmi --show-completion)"',
        'COMP_WORDS=(rsmi attack runs/mr mr --attack "pw"); COMP_CWORD=5',
        "_rsmi_completion rsmi",
        'echo "${COMPREPLY[@]}"',
        "complete -p rsmi",
    )
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.splitlines()[0] == "pwws", done.stdout + done.stderr
    assert "-o default" in done.stdout.splitlines()[1]  # file names where no name fits
    assert " torch\n" not in (tmp_path / "imported").read_text()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_completion_can_be_installed(tmp_path):
    words = [sys.executable, "-m", "rsmi", "--install-completion"]
    line = " ".join(words) + "; true"  # not the last command, which bash would become
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, timeout=120, env=environment
    )
    assert "installed" in done.stdout, done.stdout + done.stderr
    script = Path(tmp_path, ".bash_completions", "rsmi.sh")
    assert "_RSMI_COMPLETE" in script.read_text()
    assert "rsmi.sh" in Path(tmp_path, ".bashrc").read_text()
