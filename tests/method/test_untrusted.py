"""Model folders that others made: nothing in them runs, and nothing beside them is read."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from rsmi import RsmiClassifier
from rsmi.errors import CheckpointError
from rsmi.method.pretrained import load_pretrained
from rsmi.resources.hub_models import open_model
from tiny import save_tiny
from toy import CONFIG


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self):
        return os.mkdir, (str(self.made),)


@pytest.fixture
def folder(tiny_folder, tmp_path):
    return Path(shutil.copytree(tiny_folder("bert", num_layers=2, dropout=0.0), tmp_path / "model"))


@pytest.fixture
def ran(tmp_path):
    """What a trap would make."""
    return tmp_path / "ran"


def edit(path: Path, **changes) -> None:
    values = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**values, **changes}))


def refused(folder: Path, ran: Path, match: str) -> None:
    for load in (
        lambda: RsmiClassifier.from_pretrained(folder),
        lambda: load_pretrained(str(folder), 2, 0, torch.device("cpu"), torch.float32),
        lambda: open_model(AutoModel, folder, torch.device("cpu"), "a hint"),
    ):
        with pytest.raises(CheckpointError, match=match) as error:
            load()
        assert "\n" not in str(error.value)
        assert str(folder) in str(error.value)
        assert not ran.exists()


def test_the_folder_of_these_tests_loads_as_it_is(folder):
    assert RsmiClassifier.from_pretrained(folder, CONFIG, seed=0).predict(["good film"]).shape == (1,)


def test_a_pickle_in_the_place_of_the_weights_is_refused_unread(folder, ran):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(ran)))
    refused(folder, ran, r"got pytorch_model\.bin, a pickle, which may run any code")


def test_a_pickle_beside_safetensors_is_not_read(folder, ran):
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(ran)))
    RsmiClassifier.from_pretrained(folder)
    assert not ran.exists()


def test_a_pickle_named_like_safetensors_is_refused_unrun(folder, ran):
    (folder / "model.safetensors").write_bytes(pickle.dumps(Trap(ran)))
    refused(folder, ran, "cannot load")


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("known", [True, False], ids=["known architecture", "unknown architecture"])
def test_code_of_its_own_is_refused(folder, ran, file, known):
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(ran)!r})\n")
    edit(folder / file, auto_map={"AutoConfig": "evil.Evil", "AutoTokenizer": ["evil.Evil", None]})
    if not known:
        edit(folder / "config.json", model_type="evil")
    refused(folder, ran, f"{file.replace('.', '[.]')}, auto_map")


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "experts_implementation"])
def test_kernels_from_a_hub_are_refused(folder, ran, key):
    edit(folder / "config.json", **{key: "evil/kernel"})
    refused(folder, ran, "expected no code from a hub")


def test_such_a_kernel_is_found_in_a_part_of_the_config_too(folder, ran):
    edit(folder / "config.json", text_config={"deeper": [{"_attn_implementation": "evil/kernel@main"}]})
    refused(folder, ran, "expected no code from a hub")


def test_an_ordinary_kind_of_attention_is_no_code(folder):
    edit(folder / "config.json", attn_implementation="eager")
    RsmiClassifier.from_pretrained(folder)


OUTSIDE = ["../secret.safetensors", "/etc/secret.safetensors", "sub/part.safetensors", r"..\secret.safetensors"]


def sharded(folder: Path, name: str) -> None:
    """Make the folder one whose index names its only shard."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(weights, name)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    if "/" not in name and "\\" not in name:
        save_file(weights, folder / name, metadata={"format": "pt"})


@pytest.mark.parametrize("name", OUTSIDE)
def test_shards_outside_the_folder_are_refused(folder, ran, name):
    shutil.copy(folder / "model.safetensors", folder.parent / "secret.safetensors")
    sharded(folder, name)
    refused(folder, ran, "expected safetensors files in its own folder")


def test_an_index_that_names_a_pickle_is_refused_unread(folder, ran):
    sharded(folder, "pytorch_model.bin")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(ran)))
    refused(folder, ran, "expected safetensors files in its own folder")


def test_an_index_of_shards_in_the_folder_loads(folder):
    sharded(folder, "model-00001-of-00001.safetensors")
    assert RsmiClassifier.from_pretrained(folder, CONFIG, seed=0).predict(["good film"]).shape == (1,)


@pytest.mark.parametrize("broken", ["[1]", "{", '{"weight_map": [1]}', "[" * 100_000])
def test_an_index_that_is_none_is_one_clear_error(folder, ran, broken):
    sharded(folder, "model-00001-of-00001.safetensors")
    (folder / "model.safetensors.index.json").write_text(broken)
    refused(folder, ran, r"model\.safetensors\.index\.json")


@pytest.mark.parametrize("value", ["../secret.safetensors", "/etc/passwd", "adapter_model.bin"])
def test_weights_that_the_config_names_are_its_own_safetensors(folder, ran, value):
    edit(folder / "config.json", transformers_weights=value)
    refused(folder, ran, "transformers_weights")


@pytest.mark.parametrize("key", ["vocab_file", "tokenizer_file", "merges_file", "spm_file"])
@pytest.mark.parametrize("value", ["/etc/passwd", "../../secret", "C:\\secret"])
def test_files_that_a_tokenizer_names_are_its_own(folder, ran, key, value):
    edit(folder / "tokenizer_config.json", **{key: value})
    refused(folder, ran, f"expected names of files in its own folder, got {key}")


def test_versioned_files_are_its_own(folder, ran):
    edit(folder / "tokenizer_config.json", fast_tokenizer_files=["tokenizer.4.0.json", "../tokenizer.5.0.json"])
    refused(folder, ran, "fast_tokenizer_files")


def test_a_stale_path_that_nothing_reads_is_no_error(folder):
    edit(folder / "tokenizer_config.json", special_tokens_map_file="/home/maker/.cache/map.json", tokenizer_file=None)
    RsmiClassifier.from_pretrained(folder)


def test_an_adapter_that_would_load_another_model_is_refused(folder, ran, tmp_path):
    other = save_tiny("bert", tmp_path / "other", num_layers=2)
    edit(folder / "adapter_config.json", peft_type="LORA", base_model_name_or_path=str(other))
    (folder / "adapter_model.bin").write_bytes(pickle.dumps(Trap(ran)))
    refused(folder, ran, "got an adapter")


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("broken", ["[]", "{", "[" * 100_000, '"text"'])
def test_a_config_that_is_no_object_is_one_clear_error(folder, ran, file, broken):
    (folder / file).write_text(broken)
    refused(folder, ran, file)


@pytest.mark.parametrize("file", ["rsmi_config.json", "synonyms.json"])
def test_json_too_deep_to_read_is_one_clear_error(folder, file):
    saved = folder.parent / "saved"
    RsmiClassifier.from_pretrained(folder, classes=["neg", "pos"]).save_pretrained(saved)
    (saved / file).write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match=file):
        RsmiClassifier.from_pretrained(saved)
