"""Two processes on one batch against one process on the same batch (gloo, CPU)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file
from together import NUM_TEXTS, SCENARIOS

from rsmi import RsmiClassifier
from rsmi.errors import ConfigError
from toy import CONFIG, LABELS, TEXTS, TRAIN

QUIET = [scenario.name for scenario in SCENARIOS if scenario.noise_std == 0 and scenario.method != "infobert"]
UPDATES_PER_EPOCH = 6

pytestmark = pytest.mark.slow


def _run(folder, bases, launcher):
    folder.mkdir()
    script = str(Path(__file__).with_name("together.py"))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, *launcher, script, json.dumps(bases), str(folder)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank-*.json"))]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("distributed")
    return root / "alone", root / "together"


@pytest.fixture(scope="module")
def runs(tiny_folder, folders):
    """-> what one process saw, what each of two saw."""
    bases = {family: str(tiny_folder(family, num_layers=2, dropout=0.0)) for family in ("bert", "t5")}
    (alone,) = _run(folders[0], bases, [])
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    together = _run(folders[1], bases, launcher)
    assert len(together) == 2
    return alone, together


def _losses(record):
    """Loss of each update: parts are summed, as `Trainer` has divided them already."""
    losses = {}
    for step in record["steps"]:
        losses[step["update"]] = losses.get(step["update"], 0.0) + step["loss"]
    return [losses[update] for update in sorted(losses)]


def _inputs(records):
    """(epoch, text) -> the ids, masked, that trained the model; each text once an epoch."""
    found = {}
    for record in records:
        for step in record["steps"]:
            for place, ids in zip(step["places"], step["ids"], strict=True):
                if place < NUM_TEXTS:
                    assert (step["update"] // UPDATES_PER_EPOCH, place) not in found
                    found[step["update"] // UPDATES_PER_EPOCH, place] = ids
    return found


@pytest.mark.parametrize("name", QUIET)
def test_the_loss_curve_is_that_of_one_process(runs, name):
    alone, together = runs
    one = _losses(alone[name])
    two = [(a + b) / 2 for a, b in zip(*(_losses(rank[name]) for rank in together), strict=True)]
    assert len(one) == 2 * UPDATES_PER_EPOCH
    assert two == pytest.approx(one, rel=2e-4)
    assert together[0][name]["history"] == [pytest.approx(epoch, rel=2e-4) for epoch in alone[name]["history"]]


@pytest.mark.parametrize("name", QUIET)
def test_masks_and_texts_are_those_of_one_process(runs, name):
    alone, together = runs
    one, two = _inputs([alone[name]]), _inputs([rank[name] for rank in together])
    assert len(one) == 2 * NUM_TEXTS
    assert one == two


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_all_processes_end_with_the_same_weights_and_one_saves_them(runs, folders, name):
    _, (first, second) = runs
    assert first[name]["weights"] == second[name]["weights"]
    saved = load_file(folders[1] / name.replace(" ", "-") / "model.safetensors")
    assert sum(value.double().square().sum().item() for value in saved.values()) == pytest.approx(
        first[name]["weights"][1], rel=1e-9
    )


def test_noise_is_independent_between_processes_and_follows_the_seed(runs):
    _, (first, second) = runs
    keys = [[step["key"] for step in rank["noise"]["steps"]] for rank in (first, second)]
    assert not set(keys[0]) & set(keys[1])
    assert len(set(keys[0])) == len(keys[0])
    for rank in (first, second):
        assert [step["loss"] for step in rank["noise again"]["steps"]] == [
            step["loss"] for step in rank["noise"]["steps"]
        ]
    assert _losses(first["noise"]) != _losses(first["rsmi"])


def test_without_a_seed_processes_still_agree_on_one(runs):
    _, (first, second) = runs
    keys = [[step["key"] for step in rank["no seed"]["steps"]] for rank in (first, second)]
    assert not set(keys[0]) & set(keys[1])
    places = [sorted(place for step in rank["no seed"]["steps"][:6] for place in step["places"]) for rank in runs[1]]
    assert not set(places[0]) & set(places[1])  # one order, of which each has its part


@pytest.mark.parametrize("family", ["roberta", "t5"])
def test_a_step_of_weights_spread_over_processes_is_that_of_whole_ones(runs, family):
    for rank in runs[1]:
        step = rank["sharded"][family]
        assert step["spread"]
        assert step["losses"][0] == pytest.approx(step["losses"][1], rel=1e-5)
        assert step["names"][0] == step["names"][1]
        assert step["furthest"] < 1e-5
        assert step["whole"]


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[2].glob("configs/*.yaml")), ids=lambda path: path.name)
def test_launch_configs_are_read_by_accelerate(path, monkeypatch):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser
    from accelerate.utils import DistributedType

    config = load_config_from_file(str(path))
    assert config.distributed_type in (DistributedType.FSDP, DistributedType.DEEPSPEED)
    assert config.num_processes == 2
    options = {f"--{name}" for action in launch_command_parser()._actions for name in [action.dest]}
    assert {f"--{name}" for name in config.fsdp_config} <= options
    file = config.deepspeed_config.get("deepspeed_config_file")
    if file is not None:
        settings = json.loads((path.parents[1] / file).read_text())
        assert settings["zero_optimization"]["stage"] == 2


def test_deepspeed_and_several_backward_passes_are_refused(monkeypatch, tiny_folder):
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    folder = str(tiny_folder("bert", num_layers=2, dropout=0.0))
    with pytest.raises(ConfigError, match="without DeepSpeed"):
        RsmiClassifier(folder, CONFIG, replace(TRAIN, method="freelb"), seed=0).fit(TEXTS, LABELS)
