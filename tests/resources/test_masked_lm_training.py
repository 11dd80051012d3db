from __future__ import annotations

import json
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForMaskedLM

from rsmi.data import embedded_dataset
from rsmi.errors import ConfigError, DataError
from rsmi.method.encoder import open_encoder
from rsmi.resources import masked_lm_training
from rsmi.resources.hub_models import Opened
from rsmi.resources.masked_lm_corpus import HELD_OUT_BOOKS, Corpus, Hider, batches, corpora, mixture
from rsmi.resources.masked_lm_snapshot import Snapshot
from rsmi.resources.masked_lm_training import HeadSettings, build_head, judge, judge_unigram, train_head
from rsmi.resources.masked_lm_weights import HEAD_FILE, RECORD_FILE, apply_head
from rsmi.seeds import derive, generator
from tiny import WORDS, tiny_tokenizer

SETTINGS = HeadSettings(
    num_tokens=20_000, rank=4, learning_rate=1e-2, batch_tokens=64, hidden_share=0.15, num_judged=60, seed=1
)


def tiny_bert() -> BertForMaskedLM:
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    with torch.random.fork_rng():
        model = BertForMaskedLM(BertConfig(vocab_size=len(WORDS) + 5, pad_token_id=0, **shape)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                std = 0.5 if "embeddings" in name else 0.2
                rng = generator(derive(0, name))
                parameter.copy_(torch.empty(parameter.shape).normal_(0.0, std, generator=rng))
    return model


def rows_of_words(count: int, seed: int) -> list[str]:
    """Texts of words that always follow one another in the same order: the neighbours tell a hidden one."""
    words = [word for word in WORDS if word.isalpha()][:18]
    starts = torch.randint(len(words) - 6, (count,), generator=generator(seed)).tolist()
    return [" ".join(words[start : start + 6]) for start in starts]


@pytest.fixture
def hider() -> Hider:
    return Hider(tiny_tokenizer("bert"))


def test_training_learns_what_frequencies_cannot_tell(hider: Hider) -> None:
    rows, model = hider.encode(rows_of_words(800, 1)), tiny_bert()
    before = {name: parameter.clone() for name, parameter in tiny_bert().named_parameters()}
    judged = [hider.hide_one(hider.encode(rows_of_words(200, 2)), 3)]
    unigram = judge_unigram(hider.counts(rows), hider, judged)
    start = judge(model, hider, judged)
    tensors = train_head(model, hider, rows, SETTINGS)
    matrices = [name for name, p in before.items() if p.dim() == 2 and not name.startswith("cls.predictions.t")]
    trained = dict(model.named_parameters())
    assert all(torch.equal(trained[name], before[name]) for name in matrices)  # only the factors were trained
    assert not any(module._forward_hooks for module in model.modules())

    fresh = tiny_bert()
    apply_head(fresh, tensors)
    scores = judge(fresh, hider, judged)
    assert scores["n"] == unigram["n"] == 200
    assert scores["perplexity"] < 0.7 * unigram["perplexity"] < start["perplexity"]
    assert scores["top1"] > 2 * unigram["top1"]


def test_rank_zero_trains_the_head_alone(hider: Hider) -> None:
    rows, model = hider.encode(rows_of_words(60, 1)), tiny_bert()
    tensors = train_head(model, hider, rows, HeadSettings(rank=0, batch_tokens=128))
    assert {name.split(".")[0] for name in tensors} == {"cls"}
    before = tiny_bert().bert.state_dict()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.bert.state_dict().items())


def test_a_stopped_run_goes_on_to_the_same_weights(hider: Hider, tmp_path: Path) -> None:
    rows = hider.encode(rows_of_words(120, 1))
    whole = train_head(tiny_bert(), hider, rows, SETTINGS)

    class Stopped(Exception):
        pass

    class StoppingSnapshot(Snapshot):
        def save(self, done: int, *args: Any) -> None:
            super().save(done, *args)
            if done == 5:
                raise Stopped

    path = tmp_path / ".training.safetensors"
    with pytest.raises(Stopped):
        train_head(tiny_bert(), hider, rows, SETTINGS, StoppingSnapshot(path, {"a": 1}, 2))
    assert path.is_file()
    snapshot = Snapshot(path, {"a": 1}, 2)
    steps: list[int] = []
    load = snapshot.load
    snapshot.load = lambda *args: steps.append(load(*args)) or steps[-1]  # type: ignore[method-assign]
    resumed = train_head(tiny_bert(), hider, rows, SETTINGS, snapshot)
    assert steps == [4]
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)

    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])
    assert Snapshot(path, {"a": 2}, 2).load({}, optimizer) == 0  # other settings
    path.write_bytes(path.read_bytes()[:100])
    assert Snapshot(path, {"a": 1}, 2).load({}, optimizer) == 0  # cut short


def test_build_head_writes_a_head_and_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (
        Corpus(name="reviews", source="r", train=tuple(rows_of_words(100, 1)), held_out=tuple(rows_of_words(30, 2))),
        Corpus(name="books", source="b", train=tuple(rows_of_words(100, 3)), held_out=tuple(rows_of_words(30, 4))),
    )
    opened = partial(lambda _device: Opened(open_encoder(tiny_bert()), tiny_tokenizer("bert"), ()))
    monkeypatch.setattr(masked_lm_training, "_encoder", opened)
    monkeypatch.setattr(masked_lm_training, "corpora", lambda _seed: parts)
    out = tmp_path / "new" / "head"
    record = build_head(out, progress=False, num_tokens=600, batch_tokens=128, num_judged=20, seed=5)
    assert sorted(path.name for path in out.iterdir()) == sorted([HEAD_FILE, RECORD_FILE])
    assert json.loads((out / RECORD_FILE).read_text()) == record
    assert record["seed"] == 5
    assert record["held_out"]["books"]["n"] == record["untrained"]["books"]["n"] == 20
    assert 600 <= record["tokens_read"] < 620
    tensors = load_file(out / HEAD_FILE)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    again = build_head(out, progress=False, num_tokens=600, batch_tokens=128, num_judged=20, seed=5)
    assert again["sha256"] == record["sha256"]


def test_settings_and_folders_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected counts"):
        HeadSettings(rank=-1)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="expected a folder that can be written"):
        build_head(tmp_path / "file" / "head", progress=False)


def test_only_whole_words_of_one_token_are_hidden() -> None:
    tokenizer = tiny_tokenizer("bert")
    tokenizer.add_tokens(["##ish", "42"])
    hider = Hider(tokenizer)
    rows = hider.encode(["good ##ish film , 42 !", ", . !"])
    assert len(rows) == 1  # nothing to hide in the other
    names = {tuple(tokenizer.convert_ids_to_tokens(hider.hide(rows, 1.0, key).targets.tolist())) for key in range(5)}
    assert names == {("film",)}
    shown = {int(hider.hide(rows, 1.0, key).input_ids[0, 3]) for key in range(200)}
    film = tokenizer.convert_tokens_to_ids("film")
    assert {tokenizer.mask_token_id, film} < shown  # hidden, kept, or replaced by some other word
    assert (hider.hide_one(rows * 3, 1).input_ids[:, 3] == tokenizer.mask_token_id).all()


def test_batches_hold_every_row_once_within_the_budget() -> None:
    lengths = [(7 * i) % 50 + 3 for i in range(1000)]
    plan = batches([[0] * length for length in lengths], 256, seed=0)
    assert sorted(i for group in plan for i in group) == list(range(1000))
    assert all(len(group) * max(lengths[i] for i in group) <= 256 for group in plan)
    assert sum(len(group) * max(lengths[i] for i in group) for group in plan) < 1.1 * sum(lengths)  # little padding


def test_the_corpora_keep_held_out_texts_apart() -> None:
    reviews, books = corpora(0)
    assert not any("<br" in passage for passage in reviews.train[:500])
    assert {len(passage.split()) for passage in books.train} <= set(range(1, 201))
    tests = " ".join(" ".join(text.replace("<br />", " ").split()) for text in embedded_dataset("imdb", "test").texts)
    assert all(passage in tests for passage in reviews.held_out[:50])
    assert not any(passage in tests for passage in reviews.train[:50])
    assert sum("Alice" in passage for passage in books.held_out) > 50
    assert not any("Alice" in passage and "Hatter" in passage for passage in books.train)
    assert all(name in books.source for name in HELD_OUT_BOOKS)
    own = set(reviews.train[:400])
    drawn = [passage in own for passage in islice(mixture((reviews, books), 0.75, 0), 400)]
    assert 0.65 < sum(drawn) / 400 < 0.85
