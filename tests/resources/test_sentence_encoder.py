from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from rsmi.data import encoder_folder
from rsmi.errors import CheckpointError, InputError
from rsmi.method.pretrained import quiet
from rsmi.resources.sentence import BAE_THRESHOLD, TEXTFOOLER_THRESHOLD, SentenceEncoder, similarity
from tiny import some_texts

TEXTS = ["A joy to watch.", "", "It was the dullest film I have seen in years, and far too long.", "A joy to watch."]


@pytest.fixture(scope="module")
def minilm() -> SentenceEncoder:
    return SentenceEncoder.open()


def test_rows_are_unit_vectors_and_equal_for_equal_texts(minilm: SentenceEncoder) -> None:
    vectors = minilm(TEXTS)
    assert vectors.shape == (4, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (vectors[0] == vectors[3]).all()
    assert minilm([]).shape == (0, 384)
    assert minilm.name == "all-MiniLM-L6-v2"


def test_it_is_the_masked_mean_of_the_last_layer(minilm: SentenceEncoder) -> None:
    with quiet():
        model, tokenizer = AutoModel.from_pretrained(encoder_folder()), AutoTokenizer.from_pretrained(encoder_folder())
    inputs = tokenizer([TEXTS[2]], padding=False, truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        mean = model.eval()(**inputs).last_hidden_state[0].mean(0)
    np.testing.assert_allclose(minilm([TEXTS[2]])[0], (mean / mean.norm()).numpy(), atol=1e-5)


def test_a_row_does_not_depend_on_the_others(minilm: SentenceEncoder) -> None:
    texts = [*TEXTS, "word " * 400, "short", *(f"{i} of them" for i in range(40))]
    alone = np.concatenate([minilm([text]) for text in texts])
    np.testing.assert_allclose(minilm(texts), alone, atol=2e-5)
    np.testing.assert_allclose(minilm(texts[::-1]), alone[::-1], atol=2e-5)


def test_equal_texts_are_encoded_once(minilm: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    real = SentenceEncoder._encode
    monkeypatch.setattr(
        SentenceEncoder, "_encode", lambda self, batch: rows.append(len(batch.lengths)) or real(self, batch)
    )
    minilm(["one", "two", "one", "ONE", "one "] * 10)  # the tokenizer takes ONE and "one " for the same
    assert sum(rows) == 2


def test_paraphrases_are_nearer_than_other_sentences(minilm: SentenceEncoder) -> None:
    vectors = minilm(["A man is eating food.", "A man eats a meal.", "The stock market fell sharply."])
    near, far = similarity(vectors[0], vectors[1:], "cosine")
    assert near > 0.7 > 0.2 > far


def test_the_thresholds_are_those_the_benchmark_found() -> None:
    path = Path(__file__).parents[2] / "benchmarks" / "results" / "sentence_threshold.json"
    found = json.loads(path.read_text(encoding="utf-8"))["attacks"]
    assert found["textfooler"]["minilm_threshold"] == TEXTFOOLER_THRESHOLD
    assert found["bae"]["minilm_threshold"] == BAE_THRESHOLD


def test_angular_similarity_is_one_minus_the_angle_over_pi() -> None:
    a = np.array([[1, 0], [1, 0], [1, 0], [0.6, 0.8]], dtype=np.float32)
    b = np.array([[1, 0], [0, 1], [-1, 0], [0.6, 0.8]], dtype=np.float32)
    np.testing.assert_allclose(similarity(a, b, "cosine"), [1, 0, -1, 1], atol=1e-6)
    np.testing.assert_allclose(similarity(a, b, "angular"), [1, 0.5, 0, 1], atol=2e-4)
    assert similarity(a[0], b, "angular").shape == (4,)


@pytest.mark.parametrize("family", ["roberta", "distilbert", "mpnet"])
def test_other_encoders_open_from_a_folder(family: str, tiny_folder: Callable[..., Path]) -> None:
    encoder = SentenceEncoder.open(tiny_folder(family), device="cpu")
    texts = ["", *some_texts(5)]
    vectors = encoder(texts)
    assert vectors.shape == (6, 32)
    np.testing.assert_allclose(vectors, np.concatenate([encoder([text]) for text in texts]), atol=1e-5)
    assert encoder.name == str(tiny_folder(family))


def test_what_cannot_be_encoded_is_refused(
    minilm: SentenceEncoder, tiny_folder: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="put it in a list"):
        minilm("one text")
    with pytest.raises(CheckpointError, match=r"expected a model folder with config\.json.*sentence-transformers/"):
        SentenceEncoder.open(tmp_path)
    with pytest.raises(CheckpointError, match="expected a model folder, found none"):
        SentenceEncoder.open(tmp_path / "none")
    damaged = tmp_path / "damaged"
    shutil.copytree(tiny_folder("bert"), damaged)
    (damaged / "model.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="cannot load"):
        SentenceEncoder.open(damaged)
    shutil.copy(tiny_folder("distilbert") / "config.json", damaged)
    shutil.copy(tiny_folder("roberta") / "model.safetensors", damaged)  # of another architecture
    with pytest.raises(CheckpointError, match="weights are missing"):
        SentenceEncoder.open(damaged)
