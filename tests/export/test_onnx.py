"""What `rsmi export` writes, run by ONNX Runtime: on the same noise it answers as torch does."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from command import rsmi
from rsmi import RsmiClassifier, RsmiConfig
from rsmi.errors import CheckpointError, ConfigError, MissingResourceError, UnsupportedModelError
from rsmi.export import export_onnx
from rsmi.method.masking import sample_positions
from rsmi.method.noise import noisy_logits, row_noise
from rsmi.method.saliency import embedding_gradient
from rsmi.method.tokens import collate
from rsmi.seeds import derive
from tiny import some_texts

onnxruntime = pytest.importorskip("onnxruntime")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "onnx" / "predict.py"
CONFIG = RsmiConfig(noise_std=0.5, noise_layers=(0, 1), num_masks=2, num_candidates=4, second_votes=21, max_length=24)
TOLERANCE = 2e-5  # logits are of the order of 1, and their last bits depend on the order of additions


def classifier_of(folder, config=CONFIG, **settings):
    return RsmiClassifier.from_pretrained(folder, config, classes=["neg", "pos"], seed=0, **settings)


@pytest.fixture(scope="module")
def exported(tiny_folder, tmp_path_factory):
    """family -> classifier and the folder it was exported to, once."""
    made = {}

    def export(family, config=CONFIG):
        if (family, config) not in made:
            classifier = classifier_of(tiny_folder(family, num_layers=2), config)
            folder = tmp_path_factory.mktemp("onnx") / family
            export_onnx(classifier, folder)
            made[family, config] = classifier, folder
        return made[family, config]

    return export


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("onnx_predict", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outputs(folder, graph, batch, about, source):
    """Run a graph on a batch with the noise of `source`."""
    session = onnxruntime.InferenceSession(folder / about["graphs"][graph])
    given = {name: getattr(batch, name).numpy() for name in about["inputs"]}
    for own in about["noise"]:
        given[own["name"]] = source(own["layer"], torch.Size((*batch.input_ids.shape, own["width"]))).numpy()
    return dict(zip([out.name for out in session.get_outputs()], session.run(None, given), strict=True))


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_the_same_noise_gives_the_same_logits_votes_and_saliency(family, exported):
    classifier, folder = exported(family)
    engine = classifier.engine()
    about = json.loads((folder / "rsmi_onnx.json").read_text())
    encoder, plan = engine.loaded.encoder, engine.plan
    for count, longest in ((1, 3), (1, 20), (7, 20), (40, 9)):  # alone and padded, short and long
        rows = engine.encode(some_texts(count, longest=longest, seed=count))
        batch = collate(rows, engine.loaded.tokenizer.pad_token_id)
        source = row_noise([derive(count, row) for row in range(count)], batch.lengths)
        with torch.inference_mode():
            wanted = noisy_logits(encoder, plan, batch, source).numpy()
        saliency = embedding_gradient(encoder, plan, batch, source).saliency(batch.maskable).numpy()
        votes, both = (outputs(folder, graph, batch, about, source) for graph in ("votes", "saliency"))
        assert list(votes) == ["logits"]
        np.testing.assert_allclose(votes["logits"], wanted, atol=TOLERANCE, rtol=TOLERANCE)
        np.testing.assert_allclose(both["logits"], wanted, atol=TOLERANCE, rtol=TOLERANCE)
        assert votes["logits"].argmax(1).tolist() == wanted.argmax(1).tolist()
        np.testing.assert_allclose(
            np.where(batch.maskable.numpy(), both["saliency"], 0.0), saliency, atol=TOLERANCE, rtol=1e-4
        )


class SameDraws:
    """The draws of the library for one text under a seed."""

    def __init__(self, seed, text):
        self.key = derive(seed, text) if isinstance(text, str) else derive(seed, *text)

    def noise(self, step, layer, shape):
        keys = [derive(self.key, step, copy) for copy in range(shape[0])]
        return row_noise(keys, [shape[1]] * shape[0])(layer, torch.Size(shape)).numpy()

    def masks(self, step, pool, num, copies):
        return [list(own) for own in sample_positions(pool, num, copies, derive(self.key, step, "masks"))]


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("bert", {}),
        ("roberta", {}),
        ("distilbert", {"masking": "none", "embedding_noise_std": 0.2}),
        ("bert", {"masking": "random", "aggregation": "logit-average", "two_step": False}),
    ],
)
def test_the_example_decides_as_the_library_does_on_the_same_draws(family, settings, exported, example):
    config = RsmiConfig(**{**CONFIG.to_dict(), "noise_layers": (0, 1), **settings})
    classifier, folder = exported(family, config if settings else CONFIG)
    texts = [*some_texts(24, seed=1), "good " * 40, "a [MASK] film </s>"]
    pairs = list(zip(texts[:6], texts[6:12], strict=True))
    voter = example.OnnxClassifier(folder)
    escalated = 0
    for given in (texts, pairs):
        for text, wanted in zip(given, classifier.explain(given), strict=True):
            got = voter.predict(text, SameDraws(0, text))
            assert got["label"] == wanted.label
            assert got["first_votes"] == list(wanted.first_votes.values())
            assert (got["second_votes"] is not None) is wanted.escalated
            assert not wanted.escalated or got["second_votes"] == list(wanted.second_votes.values())
            assert got["probabilities"] == pytest.approx(list(wanted.probabilities.values()), abs=TOLERANCE)
            if config.masking == "gradient":
                assert got["candidates"] == list(wanted.candidates)
            escalated += wanted.escalated
    assert escalated > 3 or not config.two_step


def test_the_example_needs_no_torch(exported):
    _, folder = exported("bert")
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['predict', {str(folder)!r}, 'a good film', 'a dull plot']\n"
        f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\n"
        "assert not {'torch', 'transformers', 'rsmi'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == 2
    assert all(answer["label"] in ("neg", "pos") for answer in answers)


def test_the_folder_says_what_is_needed_and_holds_the_weights_once(exported):
    classifier, folder = exported("bert")
    assert sorted(path.name for path in folder.iterdir()) == [
        "rsmi_onnx.json",
        "saliency.onnx",
        "tokenizer.json",
        "votes.onnx",
        "weights.bin",
    ]
    about = json.loads((folder / "rsmi_onnx.json").read_text())
    assert RsmiConfig.from_dict(about["config"]) == classifier.config_
    assert about["classes"] == ["neg", "pos"]
    assert about["fingerprint"] == classifier.fingerprint
    assert [(own["name"], own["layer"], own["std"]) for own in about["noise"]] == [
        ("noise_0", 0, 0.5),
        ("noise_1", 1, 0.5),
    ]
    assert about["tokens"]["mask_id"] == classifier.engine().mask_token_id
    assert about["tokens"]["max_length"] == 24


def test_exporting_leaves_the_classifier_as_it_was(exported):
    classifier, _ = exported("bert")
    fresh = classifier_of(classifier.base)
    texts = some_texts(8)
    assert [own.to_dict() for own in classifier.explain(texts)] == [own.to_dict() for own in fresh.explain(texts)]
    assert all(weight.grad is None for weight in classifier.engine().loaded.encoder.model.parameters())


@pytest.mark.parametrize("family", ["t5", "modernbert", "albert", "deberta-v2"])
def test_other_families_are_refused_with_one_sentence(family, tiny_folder, tmp_path):
    with pytest.raises(UnsupportedModelError, match=r"export: expected a family with a fast path .* got .*; serve it"):
        export_onnx(classifier_of(tiny_folder(family, num_layers=2)), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_says_why(tiny_folder, tmp_path, monkeypatch):
    base = tiny_folder("bert", num_layers=2)
    averaged = RsmiConfig(**{**CONFIG.to_dict(), "noise_layers": (0, 1), "saliency_samples": 4})
    with pytest.raises(ConfigError, match="expected saliency_samples=1, got 4"):
        export_onnx(classifier_of(base, averaged), tmp_path / "out")
    with pytest.raises(ConfigError, match=r"expected a model on the CPU in float32, got torch\.bfloat16"):
        export_onnx(classifier_of(base, dtype="bfloat16"), tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    with pytest.raises(CheckpointError, match="expected a new or empty folder"):
        export_onnx(classifier_of(base), tmp_path / "full")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        MissingResourceError, match=r"expected onnx, onnx_ir, onnxscript, got none; pip install 'rsmi\[onnx\]'"
    ):
        export_onnx(classifier_of(base), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_the_command_writes_the_folder(tiny_folder, tmp_path, monkeypatch, capfd):
    model, out = tmp_path / "model", tmp_path / "out"
    classifier_of(tiny_folder("distilbert", num_layers=2)).save_pretrained(model)
    words = ("export", model, "--out", out, "--variant", "no-mask", "--set", "first_votes=7", "--json")
    code, stdout, stderr = rsmi(monkeypatch, capfd, *words)
    assert code == 0, stderr
    printed = json.loads(stdout)
    assert printed["files"]["weights.bin"] > 0
    about = json.loads((out / "rsmi_onnx.json").read_text())
    assert (about["config"]["first_votes"], about["config"]["masking"]) == (7, "none")
    assert about["graphs"] == {"votes": "votes.onnx", "saliency": None}
    assert stderr == ""
