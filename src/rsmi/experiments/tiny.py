"""A small random model for each encoder of the paper, and some texts: what a smoke test runs on."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    T5Config,
    T5ForSequenceClassification,
)

from rsmi.method.pretrained import quiet
from rsmi.seeds import derive, generator, global_state_kept

_PARTS = (
    ("a warm film that i love", "a dull film that i hate"),
    ("good story and great music", "bad story and poor music"),
    ("the actors are fine here", "the actors are cold here"),
    ("this was a joy to watch", "this was a bore to watch"),
)
_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ROWS = 40
_LAYERS = 5  # Table 4 puts noise after as many
# The others pass on what they get at first: a few texts teach a deeper model nothing.
_IDLE = re.compile(r"\bencoder\.(?:layer|block)\.[2-9]\..*(?:output\.dense|\.o|\.wo)\.weight$")


def write_models(folder: Path, encoders: tuple[str, ...]) -> dict[str, str]:
    """Save a tiny model under the name of each encoder and return its folder."""
    return {name: str(_write_model(folder / name)) for name in encoders}


def _write_model(folder: Path) -> Path:
    tokenizer = _tokenizer()
    with global_state_kept():  # transformers draws weights globally
        model = _model(folder.name.split("-")[0], len(tokenizer))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if _IDLE.search(name):
                parameter.zero_()
            elif parameter.dim() > 1:
                parameter.normal_(0.0, 0.3, generator=generator(derive("tiny", name)))
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def _tokenizer() -> PreTrainedTokenizerFast:
    words = sorted({word for pair in _PARTS for text in pair for word in text.split()} | {"world", "sport", "is", "?"})
    vocabulary = {word: number for number, word in enumerate((*_SPECIALS, *words))}
    own = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    own.pre_tokenizer = Whitespace()
    marks = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    own.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=marks
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=own,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        eos_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "attention_mask"],
    )


def _model(family: str, words: int) -> PreTrainedModel:
    if family == "t5":
        return T5ForSequenceClassification(
            T5Config(
                vocab_size=words,
                d_model=16,
                d_kv=8,
                d_ff=16,
                num_layers=_LAYERS,
                num_decoder_layers=1,
                num_heads=2,
                pad_token_id=0,
                eos_token_id=3,
                decoder_start_token_id=0,
            )
        )
    shape = {"vocab_size": words, "hidden_size": 16, "num_hidden_layers": _LAYERS, "num_attention_heads": 2}
    shape |= {"intermediate_size": 16, "max_position_embeddings": 40, "pad_token_id": 0}
    if family == "roberta":
        return RobertaForSequenceClassification(RobertaConfig(type_vocab_size=1, **shape))
    return BertForSequenceClassification(BertConfig(**shape))


def write_data(folder: Path) -> Mapping[str, str]:
    """Write a few labelled texts under the names of the paper's sets and return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [(_PARTS[i % 4][i % 2], i % 2) for i in range(_ROWS)]
    topics = ("world", "sport", "music", "film")
    numbered = list(enumerate(texts))
    rows: dict[str, tuple[tuple[str, ...], list[tuple[object, ...]]]] = {
        "imdb": (("text", "label"), [(text, ("pos", "neg")[side]) for text, side in texts]),
        "ag_news": (("text", "label"), [(f"{topics[i % 4]} {text}", topics[i % 4]) for i, (text, _) in numbered]),
        "qnli": (("question", "sentence", "label"), [(f"is this {i} ?", text, side) for i, (text, side) in numbered]),
    }
    for name, (columns, lines) in rows.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(lines)
    return {name: str(folder / f"{name}.csv") for name in rows}
