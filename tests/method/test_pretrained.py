from __future__ import annotations

import json
import logging
import random
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import T5Config, T5EncoderModel, T5ForConditionalGeneration

from rsmi.errors import CheckpointError, MissingResourceError, UnsupportedModelError
from rsmi.method.pretrained import EMBEDDED, load_pretrained
from rsmi.method.t5 import T5EncoderForSequenceClassification, encoder_only_class
from rsmi.method.tokens import collate, encode
from tiny import FAMILIES, is_t5, save_tiny, some_texts, tiny, tiny_model

CPU = torch.device("cpu")
ALL = pytest.mark.parametrize("family", FAMILIES)


def load(source, num_labels=2, key=0, dtype=torch.float32, **settings):
    return load_pretrained(str(source), num_labels, key, CPU, dtype, **settings)


def edit_weights(folder, change) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file(change(weights), folder / "model.safetensors", metadata={"format": "pt"})


def without_head(weights):
    return {name: w for name, w in weights.items() if "classif" not in name and "pooler" not in name}


@ALL
def test_a_saved_classifier_is_loaded_as_it_was(family, tiny_folder):
    loaded = load(tiny_folder(family, 3), 3, trained=True)
    t = tiny(family, 3)
    assert not loaded.new_head
    assert type(loaded.encoder.model) is type(t.model)
    assert not loaded.encoder.model.training
    texts = some_texts(4)
    rows = encode(loaded.tokenizer, texts, 32)
    assert rows == t.rows(texts)
    batch = collate(rows, loaded.tokenizer.pad_token_id)
    with torch.no_grad():
        torch.testing.assert_close(loaded.encoder.logits(batch), t.encoder.logits(batch))


@ALL
def test_a_new_head_is_drawn_from_the_key_alone(family, tmp_path):
    folder = save_tiny(family, tmp_path)
    edit_weights(folder, without_head)
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    one, again, other = (load(folder, 4, key) for key in (1, 1, 2))
    assert random.getstate() == states[0]
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert torch.equal(torch.get_rng_state(), states[2])
    assert one.new_head
    assert one.encoder.model.config.num_labels == 4
    drawn = 0
    saved = dict(tiny_model(family).named_parameters())
    others = dict(other.encoder.model.named_parameters())
    for (name, a), b in zip(one.encoder.model.named_parameters(), again.encoder.model.parameters(), strict=True):
        assert torch.equal(a, b), name
        assert a.isfinite().all()
        if "classif" not in name and "pooler" not in name:
            assert torch.equal(a, saved[name]), name
        elif a.dim() >= 2:
            assert not torch.equal(a, others[name]), name
            assert 0 < a.std() < 0.5
            drawn += 1
        elif name.endswith("bias"):
            assert a.eq(0).all(), name
    assert drawn >= 1


def test_a_head_for_other_classes_is_replaced_not_kept(tiny_folder):
    loaded = load(tiny_folder("bert", 2), 5)
    assert loaded.new_head
    batch = collate(encode(loaded.tokenizer, ["good film"], 32), loaded.tokenizer.pad_token_id)
    with torch.no_grad():
        assert loaded.encoder.logits(batch).shape == (1, 5)


@ALL
def test_a_trained_classifier_must_have_its_head(family, tmp_path):
    folder = save_tiny(family, tmp_path)
    edit_weights(folder, without_head)
    with pytest.raises(CheckpointError, match=r"every weight of a trained classifier.*classif|pooler"):
        load(folder, trained=True)


def test_a_trained_classifier_must_have_its_number_of_classes(tiny_folder):
    with pytest.raises(CheckpointError, match="every weight of a trained classifier"):
        load(tiny_folder("bert", 2), 3, trained=True)


@ALL
def test_missing_layers_are_an_error(family, tmp_path):
    folder = save_tiny(family, tmp_path)
    edit_weights(
        folder, lambda weights: {n: w for n, w in weights.items() if "attention" not in n.lower() and "attn" not in n}
    )
    with pytest.raises(CheckpointError, match="expected a pretrained encoder"):
        load(folder)


@pytest.mark.parametrize("part", ["word_embeddings", "position_embeddings", "embeddings.LayerNorm"])
def test_missing_embeddings_are_an_error(part, tmp_path):
    folder = save_tiny("bert", tmp_path)
    edit_weights(folder, lambda weights: {n: w for n, w in weights.items() if part not in n})
    with pytest.raises(CheckpointError, match="expected a pretrained encoder"):
        load(folder)


def test_weights_of_another_shape_are_an_error(tmp_path):
    folder = save_tiny("bert", tmp_path)
    edit_weights(
        folder, lambda weights: {n: torch.cat([w, w]) if "word_embeddings" in n else w for n, w in weights.items()}
    )
    with pytest.raises(CheckpointError, match="expected a pretrained encoder"):
        load(folder)


def one_message(error: pytest.ExceptionInfo, folder) -> None:
    message = str(error.value)
    assert str(folder) in message
    assert "\n" not in message
    assert len(message) < 700


def test_a_missing_folder_is_one_clear_message(tmp_path):
    with pytest.raises(CheckpointError, match="expected a model folder, found none") as error:
        load(tmp_path / "nowhere")
    one_message(error, tmp_path)


def test_an_unreachable_hub_id_is_one_clear_message():
    with pytest.raises(CheckpointError, match="hub id that can be reached") as error:
        load("nobody/no-such-model")
    one_message(error, "nobody/no-such-model")


def test_a_folder_without_a_config_is_one_clear_message(tmp_path):
    with pytest.raises(CheckpointError, match=r"model folder with config\.json, found none") as error:
        load(tmp_path)
    one_message(error, tmp_path)


def test_a_broken_config_is_one_clear_message(tmp_path):
    folder = save_tiny("bert", tmp_path)
    (folder / "config.json").write_text("{")
    with pytest.raises(CheckpointError) as error:
        load(folder)
    one_message(error, tmp_path)


def test_truncated_weights_are_one_clear_message(tmp_path):
    folder = save_tiny("bert", tmp_path)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(CheckpointError) as error:
        load(folder)
    one_message(error, tmp_path)


def test_pickled_weights_alone_are_refused(tmp_path):
    folder = save_tiny("bert", tmp_path)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="safetensors") as error:
        load(folder)
    one_message(error, tmp_path)


@pytest.mark.parametrize("family", ["bert", "roberta", "t5", "albert", "modernbert"])
def test_a_missing_tokenizer_is_one_clear_message(family, tmp_path):
    """transformers makes one up that knows no word."""
    folder = save_tiny(family, tmp_path)
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(CheckpointError, match="tokenizer") as error:
        load(folder)
    one_message(error, tmp_path)


def test_a_missing_decoder_is_an_error(tmp_path):
    folder = save_tiny("t5", tmp_path)
    edit_weights(folder, lambda weights: {n: w for n, w in weights.items() if "decoder" not in n})
    with pytest.raises(CheckpointError, match="expected a pretrained encoder"):
        load(folder)


def test_remote_code_is_never_run(tmp_path):
    folder = save_tiny("bert", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "evil"
    config["auto_map"] = {"AutoConfig": "evil.EvilConfig", "AutoModelForSequenceClassification": "evil.Evil"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(CheckpointError):
        load(folder)
    assert not (tmp_path / "ran").exists()


def test_a_tokenizer_without_padding_is_refused(tmp_path):
    folder = save_tiny("bert", tmp_path)
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text())
    config.pop("pad_token")
    file.write_text(json.dumps(config))
    with pytest.raises(UnsupportedModelError, match="padding token"):
        load(folder)


def test_weights_take_the_type_asked_for(tiny_folder):
    loaded = load(tiny_folder("bert"), dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in loaded.encoder.model.parameters()} == {torch.bfloat16}


def test_loading_is_quiet_and_leaves_logging_as_it_was(tmp_path, capfd):
    folder = save_tiny("bert", tmp_path)
    edit_weights(folder, without_head)
    level = logging.getLogger("transformers").level
    capfd.readouterr()
    load(folder)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
    assert logging.getLogger("transformers").level == level


def test_a_t5_language_model_gets_a_new_head_on_its_own_body(tmp_path):
    """The usual T5 checkpoint: encoder, decoder, language-model head; no classifier."""
    folder = save_tiny("t5", tmp_path / "tiny")
    config = T5Config.from_pretrained(folder)
    with torch.random.fork_rng():
        T5ForConditionalGeneration(config).save_pretrained(tmp_path / "lm")
    for file in folder.glob("tokenizer*"):
        shutil.copy(file, tmp_path / "lm")
    loaded = load(tmp_path / "lm", 3)
    assert loaded.new_head
    assert type(loaded.encoder.model).__name__ == "T5ForSequenceClassification"
    assert loaded.encoder.num_layers == 4


def test_an_encoder_of_t5_alone_gets_a_mean_pooled_head(tmp_path):
    folder = save_tiny("t5", tmp_path / "tiny")
    with torch.random.fork_rng():
        T5EncoderModel(T5Config.from_pretrained(folder)).save_pretrained(tmp_path / "encoder")
    for file in folder.glob("tokenizer*"):
        shutil.copy(file, tmp_path / "encoder")
    loaded = load(tmp_path / "encoder", 3)
    assert loaded.new_head
    assert isinstance(loaded.encoder.model, T5EncoderForSequenceClassification)


@ALL
def test_only_t5_encoders_have_a_class_of_ours(family):
    model = tiny_model(family)
    model.config.architectures = [type(model).__name__]
    ours = encoder_only_class(model.config)
    assert (ours is type(model)) if family.endswith("-encoder") else (ours is None)
    assert is_t5(family) or ours is None


def test_the_embedded_encoder_loads_where_its_package_is_installed():
    try:
        loaded = load(EMBEDDED)
    except MissingResourceError as error:
        pytest.skip(str(error))
    assert loaded.new_head
    assert loaded.encoder.num_layers == 6
    assert loaded.encoder.max_tokens == 512
    batch = collate(encode(loaded.tokenizer, ["a joy to watch", "[MASK] dull"], 32), loaded.tokenizer.pad_token_id)
    assert (batch.input_ids == loaded.tokenizer.mask_token_id).sum() == 0
    with torch.no_grad():
        assert loaded.encoder.logits(batch).shape == (2, 2)
