from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    ElectraConfig,
    ElectraForMaskedLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedModel,
    RobertaConfig,
    RobertaForMaskedLM,
)

from rsmi.errors import CheckpointError, ConfigError, InputError, MissingResourceError, UnsupportedModelError
from rsmi.resources import masked_lm, masked_lm_weights
from rsmi.resources.masked_lm import MaskedLM
from rsmi.resources.masked_lm_weights import HEAD_FILE, RECORD_FILE, SHIPPED, read_record
from rsmi.seeds import derive, generator
from tiny import WORDS, some_texts, tiny_tokenizer

ADJECTIVES = """
good bad great awful terrible horrible funny boring interesting poor nice amazing excellent stupid beautiful
entertaining enjoyable dull scary sad weird disappointing fun wonderful fantastic cool weak slow long short violent
strange dark original predictable cheap hilarious ridiculous silly annoying painful creepy perfect brilliant bizarre
different simple real true strong intense powerful worst better fine pathetic lame
"""
FAMILIES = ("bert", "roberta", "distilbert", "electra", "albert", "modernbert")


def tiny_lm(family: str) -> PreTrainedModel:
    tokenizer = tiny_tokenizer(family)
    shape: dict[str, Any] = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    shape |= {"max_position_embeddings": 520, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"intermediate_size": 48}
    build: dict[str, Callable[[], PreTrainedModel]] = {
        "bert": lambda: BertForMaskedLM(BertConfig(**shape)),
        "roberta": lambda: RobertaForMaskedLM(RobertaConfig(**shape, type_vocab_size=1)),
        "distilbert": lambda: DistilBertForMaskedLM(
            DistilBertConfig(
                dim=32,
                n_layers=2,
                n_heads=4,
                hidden_dim=48,
                max_position_embeddings=520,
                vocab_size=len(tokenizer),
                pad_token_id=tokenizer.pad_token_id,
            )
        ),
        "electra": lambda: ElectraForMaskedLM(ElectraConfig(**shape, embedding_size=16)),
        "albert": lambda: AlbertForMaskedLM(AlbertConfig(**shape, embedding_size=16)),
        "modernbert": lambda: ModernBertForMaskedLM(
            ModernBertConfig(**shape, local_attention=8, cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3)
        ),
    }
    with torch.random.fork_rng():
        model = build[family]().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            rng = generator(derive(0, name))
            std = 1.0 if "embeddings" in name else 0.3
            if parameter.dim() > 1 or name.endswith("bias"):
                parameter.copy_(torch.empty(parameter.shape).normal_(0.0, std, generator=rng))
    return model


@pytest.fixture(scope="module")
def lm_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def folder(family: str) -> Path:
        path = tmp_path_factory.mktemp(f"lm-{family}")
        tiny_lm(family).save_pretrained(path)
        tiny_tokenizer(family).save_pretrained(path)
        return path

    return folder


@pytest.fixture(scope="module")
def embedded() -> MaskedLM:
    return MaskedLM.open()


def masked_texts(mask: str, count: int = 12) -> list[str]:
    """Texts with a mask at every kind of place; one has it beyond 512 tokens, one twice, two are equal."""
    texts = [text.split() for text in some_texts(count, longest=30)]
    texts = [[*words[: i % len(words)], mask, *words[i % len(words) + 1 :]] for i, words in enumerate(texts)]
    texts += [WORDS[:50] * 11 + [mask], [mask], [mask, "is", mask], WORDS[:50] * 9 + [mask] + WORDS * 3, texts[0]]
    return [" ".join(words) for words in texts]


def textattack_fill(model: PreTrainedModel, tokenizer: Any, text: str, allowed: set[int], count: int) -> list[int]:
    """WordSwapMaskedLM._bae_replacement_words of TextAttack 0.3.11, with its checks of words made a set."""
    inputs = tokenizer(text, max_length=512, truncation=True, padding="max_length", return_tensors="pt")
    with torch.no_grad():
        preds = model(**inputs)[0]
    try:
        place = inputs["input_ids"].tolist()[0].index(tokenizer.mask_token_id)
    except ValueError:
        return []
    ranked = torch.argsort(torch.softmax(preds[0, place], dim=0), descending=True)
    return [i for i in ranked.tolist() if i in allowed][:count]


@pytest.mark.parametrize("family", FAMILIES)
def test_fill_gives_what_textattack_would(family: str, lm_folder: Callable[[str], Path]) -> None:
    lm, model, tokenizer = MaskedLM.open(lm_folder(family), "cpu"), tiny_lm(family), tiny_tokenizer(family)
    allowed = np.arange(len(lm.tokens)) % 3 != 0
    texts = masked_texts(lm.mask_token)
    expected = [textattack_fill(model, tokenizer, text, set(np.flatnonzero(allowed)), 7) for text in texts]
    assert lm.fill(texts, allowed, 7) == expected
    assert expected[12] == []  # cut off
    assert len({tuple(ids) for ids in expected}) > 8  # the model is not one that always says the same
    assert lm.tokens[tokenizer.convert_tokens_to_ids("good")] == "good"
    assert lm.model_type == model.config.model_type


@pytest.mark.parametrize("family", FAMILIES)
def test_the_head_reads_one_place_only(
    family: str, lm_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = MaskedLM.open(lm_folder(family), "cpu")
    shapes = []
    real = MaskedLM._logits
    monkeypatch.setattr(
        MaskedLM, "_logits", lambda self, *args: shapes.append((logits := real(self, *args)).shape) or logits
    )
    texts = masked_texts(lm.mask_token)
    quick = lm.fill(texts, np.ones(len(lm.tokens), bool), 5)
    assert {shape[1] for shape in shapes} == {1}
    assert sum(shape[0] for shape in shapes) == len(set(texts)) - 1  # the equal ones once, the cut one not at all
    lm._at_one_place = False  # as for a family whose head wants every place
    assert lm.fill(texts, np.ones(len(lm.tokens), bool), 5) == quick


def test_a_head_that_wants_every_place_is_given_them(
    lm_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = MaskedLM.open(lm_folder("bert"), "cpu")
    texts, allowed = masked_texts(lm.mask_token), np.ones(len(lm.tokens), bool)
    expected = lm.fill(texts, allowed, 5)

    @masked_lm.contextmanager
    def wrong(base: Any, places: Any) -> Any:
        raise IndexError("no such place")
        yield

    monkeypatch.setattr(masked_lm, "_only_at", wrong)
    other = MaskedLM.open(lm_folder("bert"), "cpu")
    assert other.fill(texts, allowed, 5) == expected


def test_no_hook_is_left_behind(lm_folder: Callable[[str], Path]) -> None:
    lm = MaskedLM.open(lm_folder("bert"), "cpu")
    lm.fill(["a [MASK]"], np.ones(len(lm.tokens), bool), 5)
    assert not any(module._forward_hooks for module in lm._opened.encoder.model.modules())


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_predict_reads_every_token_with_its_place(family: str, lm_folder: Callable[[str], Path]) -> None:
    lm, model, tokenizer = MaskedLM.open(lm_folder(family), "cpu"), tiny_lm(family), tiny_tokenizer(family)
    texts = [*some_texts(6, longest=40), " ".join(WORDS[:50] * 12)]
    texts.append(texts[0])
    for text, reading in zip(texts, lm.predict(texts, 8), strict=True):
        inputs = tokenizer(text, truncation=True, max_length=512, return_tensors="pt")
        with torch.no_grad():
            values, ids = model(**inputs).logits[0].log_softmax(-1).topk(8)
        assert reading.ids == tuple(inputs["input_ids"][0].tolist())
        np.testing.assert_array_equal(reading.top, ids.numpy())
        np.testing.assert_allclose(reading.log_probs, values.numpy(), atol=1e-4)
        spans = [text[start:end] for start, end in reading.offsets]
        assert spans[0] == spans[-1] == ""
        assert spans[1:-1] == text.split()[:510]


def test_what_cannot_be_filled_is_refused(lm_folder: Callable[[str], Path]) -> None:
    lm = MaskedLM.open(lm_folder("bert"), "cpu")
    every = np.ones(len(lm.tokens), bool)
    assert lm.fill([], every, 5) == []
    assert lm.fill(["no mask here"], every, 5) == [[]]
    assert lm.fill(["[MASK]"], np.zeros(len(lm.tokens), bool), 5) == [[]]
    with pytest.raises(InputError, match="put it in a list"):
        lm.fill("a [MASK]", every, 5)
    with pytest.raises(InputError, match=r"allowed: expected shape"):
        lm.fill(["a [MASK]"], every[:-1], 5)
    with pytest.raises(ConfigError, match="count: expected 1 or more"):
        lm.predict(["a"], 0)


def test_a_checkpoint_without_a_head_names_the_way_out(tiny_folder: Callable[..., Path]) -> None:
    with pytest.raises(CheckpointError, match=r"cls\.predictions.*rsmi resources build mlm.*bert-base-uncased"):
        MaskedLM.open(tiny_folder("bert"))
    with pytest.raises(CheckpointError, match=r"cannot load .*bert-base-uncased"):
        MaskedLM.open(tiny_folder("t5"))


def test_a_tokenizer_without_a_mask_token_is_refused(lm_folder: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(lm_folder("bert"), tmp_path / "lm")
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        path = tmp_path / "lm" / file
        if path.is_file():
            path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "mask_token"}))
    with pytest.raises(UnsupportedModelError, match="expected a tokenizer with a mask token"):
        MaskedLM.open(tmp_path / "lm")


def test_the_embedded_model_fills_in_sensible_words(embedded: MaskedLM) -> None:
    whole = np.array([token.isalpha() for token in embedded.tokens])
    (ids,) = embedded.fill(["The movie was really [MASK]."], whole, 10)
    found = {embedded.tokens[i] for i in ids}
    assert len(found & set(ADJECTIVES.split())) >= 5, found
    assert embedded.name.startswith("all-MiniLM-L6-v2 with rsmi's masked-LM head")
    assert embedded.model_type == "bert"


def test_the_shipped_head_is_the_one_its_record_describes() -> None:
    record = read_record()
    assert (SHIPPED / HEAD_FILE).stat().st_size < 2**20
    assert record["held_out"]["reviews"]["top5"] > record["unigram"]["reviews"]["top5"]
    assert record["seed"] == 0


def test_a_damaged_or_missing_head_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in (HEAD_FILE, RECORD_FILE):
        shutil.copy(SHIPPED / file, tmp_path)
    content = bytearray((tmp_path / HEAD_FILE).read_bytes())
    content[-1] ^= 1
    (tmp_path / HEAD_FILE).write_bytes(content)
    with pytest.raises(CheckpointError, match=r"expected sha256 .*rsmi resources build mlm"):
        MaskedLM.open(tmp_path)
    (tmp_path / RECORD_FILE).write_text("{")
    with pytest.raises(CheckpointError, match="expected JSON with sha256"):
        MaskedLM.open(tmp_path)
    monkeypatch.setattr(masked_lm, "SHIPPED", tmp_path / "none")
    with pytest.raises(MissingResourceError, match="rsmi resources build mlm"):
        MaskedLM.open()
    assert masked_lm_weights.is_head_folder(SHIPPED)
