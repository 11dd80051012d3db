from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from transformers import GPT2Config, GPT2ForSequenceClassification

from rsmi.errors import UnsupportedModelError
from rsmi.method.encoder import Encoder, map_hidden, noise_positions, open_encoder, spread, tokens_that_fit
from rsmi.seeds import generator
from tiny import ENCODER_DECODERS, FAMILIES, is_t5, own_ids, some_texts

ALL = pytest.mark.parametrize("family", FAMILIES)


@pytest.mark.parametrize(
    ("count", "depth", "expected"),
    [
        (3, 12, (0, 4, 8)),
        (4, 12, (0, 3, 6, 9)),
        (5, 12, (0, 2, 4, 7, 9)),
        (3, 24, (0, 8, 16)),
        (4, 24, (0, 6, 12, 18)),
        (3, 6, (0, 2, 4)),
        (1, 12, (0,)),
        (12, 12, tuple(range(12))),
    ],
)
def test_noise_layers_are_spread_evenly_from_layer_0(count, depth, expected):
    assert spread(count, depth) == noise_positions(count, depth) == expected


def test_layers_the_model_lacks_are_refused():
    for count in (0, 13):
        with pytest.raises(UnsupportedModelError, match="count from 1 to 12"):
            noise_positions(count, 12)
    with pytest.raises(UnsupportedModelError, match=r"below 12, got \[12, 20\]"):
        noise_positions((3, 12, 20), 12)
    assert noise_positions((7, 0), 12) == (0, 7)


@ALL
def test_every_layer_is_found_once_in_order(family, tiny_of):
    encoder = tiny_of(family).encoder
    numbers = [number for layer in encoder.layers for number in layer.numbers]
    assert numbers == list(range(encoder.num_layers)) == [0, 1, 2, 3]
    shared = {"albert": 1, "albert-groups": 2}
    assert len(encoder.layers) == shared.get(family, 4)
    assert len({id(layer.module) for layer in encoder.layers}) == len(encoder.layers)
    assert encoder.embedding_width == (16 if family in ("electra", "albert", "albert-groups") else 32)


@ALL
def test_logits_are_the_models_own(family, tiny_of):
    t = tiny_of(family, 3)
    texts = some_texts(5)
    batch = t.smoothed().batch(t.rows(texts))
    inputs = t.tokenizer(texts, padding=True, return_tensors="pt")
    if not t.encoder.uses_segments:
        inputs.pop("token_type_ids", None)
    with torch.no_grad():
        logits = t.encoder.logits(batch)
        torch.testing.assert_close(logits, t.model(**inputs).logits)
    assert logits.shape == (5, 3)


@pytest.mark.parametrize("family", ["bert", "electra", "albert"])
def test_segments_of_a_pair_reach_the_model(family, tiny_of):
    t = tiny_of(family)
    batch = t.smoothed().batch(t.rows([("good film", "a dull plot")]))
    with torch.no_grad():
        with_segments = t.encoder.logits(batch)
        without = t.encoder.logits(replace(batch, token_type_ids=torch.zeros_like(batch.token_type_ids)))
    assert t.encoder.uses_segments
    assert not torch.allclose(with_segments, without)


@ALL
def test_pairs_are_classified(family, tiny_of):
    t = tiny_of(family)
    batch = t.smoothed().batch(t.rows([("good film", "a dull plot"), ("bad", "it is"), ("a the", "no end")]))
    with torch.no_grad():
        assert t.encoder.logits(batch).isfinite().all()


@ALL
def test_padding_does_not_change_the_logits(family, tiny_of):
    t = tiny_of(family)
    short, long = t.rows(["good film", " ".join(["bad"] * 25)])
    smoothed = t.smoothed()
    with torch.no_grad():
        alone = t.encoder.logits(smoothed.batch([short]))
        padded = t.encoder.logits(smoothed.batch([short, long]))[:1]
    torch.testing.assert_close(alone, padded, rtol=1e-4, atol=1e-5)


@ALL
def test_a_text_of_the_longest_length_fits(family, tiny_of):
    t = tiny_of(family)
    expected = {"roberta": 38, "mpnet": 38}.get(family, None if is_t5(family) else 40)
    assert t.encoder.max_tokens == expected
    rows = t.rows([" ".join(["good"] * 80)], max_length=t.encoder.max_tokens or 80)
    with torch.no_grad():
        assert t.encoder.logits(t.smoothed().batch(rows)).isfinite().all()


@ALL
def test_a_shift_moves_the_word_embeddings_wherever_they_are_read(family, tiny_of):
    t = tiny_of(family)
    batch = t.smoothed().batch(t.rows(some_texts(4)))
    shift = torch.randn(*batch.input_ids.shape, t.encoder.embedding_width, generator=generator(0))
    shift *= batch.maskable.unsqueeze(-1)
    model = deepcopy(t.model)
    renamed, table, entries = own_ids(model, batch)
    with torch.no_grad():
        table[entries] += shift
        expected = open_encoder(model).logits(renamed)
        torch.testing.assert_close(t.encoder.logits(batch, shift), expected, rtol=1e-4, atol=1e-5)
        assert not torch.allclose(t.encoder.logits(batch), expected, atol=1e-2)
    for table_module in t.encoder.embeddings:
        assert not table_module._forward_hooks


@pytest.mark.parametrize("family", ENCODER_DECODERS)
def test_a_shift_of_other_ids_is_refused(family, tiny_of):
    t = tiny_of(family)
    batch = t.smoothed().batch(t.rows(["good film", "bad plot"]))
    shift = torch.zeros(*batch.input_ids.shape, t.encoder.embedding_width)

    def call(input_ids, attention_mask):
        return t.model(input_ids=input_ids.flip(0) + 1, attention_mask=attention_mask)

    with pytest.raises(UnsupportedModelError, match="look up its input ids"):
        t.encoder.logits(batch, shift, model=call)
    assert not any(table._forward_hooks for table in t.encoder.embeddings)


def test_half_precision_gives_float32_logits(tiny_of):
    t = tiny_of("bert")
    encoder = open_encoder(deepcopy(t.model).to(torch.bfloat16))
    batch = t.smoothed().batch(t.rows(["good film"]))
    shift = torch.zeros(*batch.input_ids.shape, encoder.embedding_width)
    with torch.no_grad():
        assert encoder.logits(batch, shift).dtype == torch.float32


def test_an_unknown_family_is_named():
    with torch.random.fork_rng():
        model = GPT2ForSequenceClassification(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=10))
    with pytest.raises(UnsupportedModelError, match=r"BERT, RoBERTa.*got GPT2ForSequenceClassification"):
        open_encoder(model)


def test_only_hidden_states_of_a_layer_output_are_changed():
    hidden, other = torch.zeros(1, 2, 3), torch.zeros(4)
    changed = map_hidden((hidden, other), lambda h: h + 1)
    assert changed[0].eq(1).all()
    assert changed[1] is other
    assert map_hidden(hidden, lambda h: h + 1).eq(1).all()
    with pytest.raises(UnsupportedModelError, match=r"got \(2, 3\).*sdpa"):
        map_hidden(torch.zeros(2, 3), lambda h: h)
    with pytest.raises(UnsupportedModelError, match="got str"):
        map_hidden("state", lambda h: h)


def test_a_pass_on_a_gpu_takes_what_its_memory_holds(tiny_of, monkeypatch):
    t = tiny_of("bert")
    free = 24 * 2**30
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free - 2**30, free))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3 * 2**30)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2 * 2**30)
    for device, threads, tokens in (("cpu", 8, 2048), ("cpu", 1, 1024), ("mps", 1, 8192), ("cuda:0", 1, 65536)):
        monkeypatch.setattr(Encoder, "device", torch.device(device))
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert t.encoder.token_budget == tokens
    large = tokens_that_fit(free, 1024, 24, 4)
    assert large * 17 * 1024 * 24 * 4 / 3 <= free / 2 < (large + 1) * 17 * 1024 * 24 * 4 / 3
    assert tokens_that_fit(free, 1024, 24, 2) == pytest.approx(2 * large, abs=2)
    assert tokens_that_fit(0, 1024, 24, 4) == 1024
