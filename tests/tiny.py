"""Tiny random classifiers of every family, with a fast tokenizer of some sixty words: milliseconds, no network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import Unigram, WordLevel
from tokenizers.pre_tokenizers import Metaspace, WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from torch import nn
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    ElectraConfig,
    ElectraForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    MPNetConfig,
    MPNetForSequenceClassification,
    MT5Config,
    MT5ForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    T5Config,
    T5ForSequenceClassification,
)

from rsmi.method.encoder import Encoder, open_encoder
from rsmi.method.noise import NoisePlan
from rsmi.method.t5 import MT5EncoderForSequenceClassification, T5EncoderForSequenceClassification
from rsmi.method.tokens import Batch, Encoded, encode, mask_token_id
from rsmi.method.voting import Smoothed
from rsmi.seeds import derive, generator

_SENTENCE = (
    "a the an this that it is was were be not no never very too so good bad great poor fine dull warm cold joy bore "
    "movie film plot cast scene story actor music end start watch like love hate feel think saw made gave took and or "
    "but of in on with for to from , . !"
)
WORDS = _SENTENCE.split()

FAMILIES = (
    "bert",
    "roberta",
    "distilbert",
    "electra",
    "deberta-v2",
    "albert",
    "albert-groups",
    "modernbert",
    "mpnet",
    "t5",
    "mt5",
    "t5-encoder",
    "mt5-encoder",
)
ENCODER_DECODERS = ("t5", "mt5")

_BERT_SPECIALS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
# RoBERTa counts positions from padding_idx + 1, so its padding must not be id 0 if that is to be tested
_ROBERTA_SPECIALS = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}


def is_t5(family: str) -> bool:
    return family.removesuffix("-encoder") in ENCODER_DECODERS


def tiny_tokenizer(family: str) -> PreTrainedTokenizerBase:
    """A fast tokenizer, one token a word. Its special tokens are ordinary words too: the hard case for `encode`."""
    if is_t5(family):
        return _t5_tokenizer()
    specials = _ROBERTA_SPECIALS if family in ("roberta", "mpnet") else _BERT_SPECIALS
    vocabulary = {word: i for i, word in enumerate([*specials.values(), *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=specials["unk"]))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    cls, sep = specials["cls"], specials["sep"]
    segment = "" if family in ("roberta", "mpnet") else ":1"
    middle = f"{sep} {sep}" if family in ("roberta", "mpnet") else sep
    tokenizer.post_processor = TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {middle} $B{segment} {sep}{segment}",
        special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
    )
    segments = family in ("bert", "electra", "albert", "albert-groups")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"],
        **{f"{name}_token": token for name, token in specials.items()},
    )


def _t5_tokenizer() -> PreTrainedTokenizerBase:
    sentinels = ["<extra_id_0>", "<extra_id_1>"]
    pieces = ["<pad>", "</s>", "<unk>", *sentinels, "\u2581", *(f"\u2581{word}" for word in WORDS)]
    tokenizer = Tokenizer(Unigram([(piece, -1.0 - 0.01 * i) for i, piece in enumerate(pieces)], unk_id=2))
    tokenizer.pre_tokenizer = Metaspace()
    tokenizer.post_processor = TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "attention_mask"],
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=sentinels,
    )


def tiny_model(
    family: str, num_labels: int = 2, num_layers: int = 4, dropout: float = 0.1, seed: int = 0
) -> PreTrainedModel:
    """A random classifier in eval mode, the same for the same arguments; classes are balanced over `some_texts`."""
    tokenizer = tiny_tokenizer(family)
    with torch.random.fork_rng():
        model = _build(family, len(tokenizer), tokenizer.pad_token_id, num_labels, num_layers, dropout).eval()
    _redraw(model, seed)
    _balance(model, tokenizer, num_labels)
    return model


def _build(family: str, vocab: int, pad: int, labels: int, layers: int, dropout: float) -> PreTrainedModel:
    if is_t5(family):
        config_class = MT5Config if family.startswith("mt5") else T5Config
        config = config_class(
            vocab_size=vocab,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_heads=4,
            num_layers=layers,
            num_decoder_layers=2,
            relative_attention_num_buckets=8,
            relative_attention_max_distance=32,
            feed_forward_proj="gated-gelu",  # of T5 1.1 and mT5; T5 1.0's kinks would defeat finite differences
            dropout_rate=dropout,
            classifier_dropout=dropout,
            pad_token_id=pad,
            eos_token_id=1,
            decoder_start_token_id=pad,
            num_labels=labels,
        )
        classes = {
            "t5": T5ForSequenceClassification,
            "mt5": MT5ForSequenceClassification,
            "t5-encoder": T5EncoderForSequenceClassification,
            "mt5-encoder": MT5EncoderForSequenceClassification,
        }
        return classes[family](config)
    shape: dict[str, Any] = {"vocab_size": vocab, "pad_token_id": pad, "num_labels": labels}
    if family == "distilbert":
        return DistilBertForSequenceClassification(
            DistilBertConfig(
                dim=32,
                n_layers=layers,
                n_heads=4,
                hidden_dim=48,
                max_position_embeddings=40,
                dropout=dropout,
                attention_dropout=dropout,
                seq_classif_dropout=dropout,
                **shape,
            )
        )
    shape |= {
        "hidden_size": 32,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
    }
    if family == "modernbert":
        special = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
        drops = {"attention_dropout": dropout, "mlp_dropout": dropout, "embedding_dropout": dropout}
        config = ModernBertConfig(local_attention=8, global_attn_every_n_layers=2, **shape, **special, **drops)
        return ModernBertForSequenceClassification(config)
    shape |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    if family == "bert":
        return BertForSequenceClassification(BertConfig(**shape))
    if family == "roberta":
        return RobertaForSequenceClassification(RobertaConfig(type_vocab_size=1, **shape))
    if family == "electra":
        return ElectraForSequenceClassification(ElectraConfig(embedding_size=16, **shape))
    if family == "mpnet":
        return MPNetForSequenceClassification(MPNetConfig(**shape))
    if family in ("albert", "albert-groups"):
        groups = 2 if family == "albert-groups" else 1
        config = AlbertConfig(embedding_size=16, num_hidden_groups=groups, classifier_dropout_prob=dropout, **shape)
        return AlbertForSequenceClassification(config)
    assert family == "deberta-v2", family
    config = DebertaV2Config(
        relative_attention=True,
        position_buckets=8,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        type_vocab_size=0,
        pooler_hidden_size=32,
        pooler_dropout=dropout,
        **shape,
    )
    return DebertaV2ForSequenceClassification(config)


@torch.no_grad()
def _redraw(model: PreTrainedModel, seed: int) -> None:
    """Draw the weights large enough that texts differ and noise flips votes, from `seed` and each one's name."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2:
            continue
        std = 1.0 if id(parameter) in tables else 1.5 * parameter.shape[-1] ** -0.5
        if name.endswith("Attention.q.weight"):
            std *= model.config.d_kv**-0.5  # T5 does not divide by the root of the width later
        parameter.copy_(torch.empty(parameter.shape).normal_(0.0, std, generator=generator(derive(seed, name))))
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight[module.padding_idx] = 0


@torch.no_grad()
def _balance(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, num_labels: int) -> None:
    batch = tokenizer(some_texts(24), padding=True, return_tensors="pt")
    segments = getattr(model.config, "type_vocab_size", 0) > 1
    inputs = {k: v for k, v in batch.items() if k != "token_type_ids" or segments}
    logits = model(**inputs).logits
    head = [m for m in model.modules() if isinstance(m, nn.Linear) and m.out_features == num_labels][-1]
    assert head.bias is not None
    scale = 1.5 / logits.std(0).mean()
    head.weight.mul_(scale)
    head.bias.copy_((head.bias - logits.mean(0)) * scale)


def some_texts(count: int, shortest: int = 3, longest: int = 12, seed: int = 0) -> list[str]:
    """Random texts of known words, the same for the same arguments."""
    rng = generator(derive(seed, "texts"))
    lengths = torch.randint(shortest, longest + 1, (count,), generator=rng).tolist()
    return [" ".join(WORDS[i] for i in torch.randint(len(WORDS), (n,), generator=rng).tolist()) for n in lengths]


def save_tiny(family: str, path: Path | str, num_labels: int = 2, **settings: Any) -> Path:
    """Save a tiny model as an ordinary folder: config.json, model.safetensors, tokenizer.json."""
    folder = Path(path)
    tiny_model(family, num_labels, **settings).save_pretrained(folder)
    tiny_tokenizer(family).save_pretrained(folder)
    return folder


@dataclass(frozen=True)
class Tiny:
    """A tiny model and what the tests of the method need around it."""

    family: str
    model: PreTrainedModel
    encoder: Encoder
    tokenizer: PreTrainedTokenizerBase

    def rows(self, texts: Any, max_length: int = 32) -> list[Encoded]:
        return encode(self.tokenizer, list(texts), max_length)

    def smoothed(
        self,
        std: float = 0.5,
        layers: tuple[int, ...] = (0, 2),
        embedding_std: float = 0.0,
        token_budget: int = 4096,
        per_row: bool = True,
    ) -> Smoothed:
        return Smoothed(
            self.encoder,
            NoisePlan(layers, std, embedding_std),
            mask_token_id(self.tokenizer),
            self.tokenizer.pad_token_id,
            token_budget,
            per_row,
        )


def tiny(family: str, num_labels: int = 2, **settings: Any) -> Tiny:
    model = tiny_model(family, num_labels, **settings)
    return Tiny(family, model, open_encoder(model), tiny_tokenizer(family))


def own_ids(model: PreTrainedModel, batch: Batch) -> tuple[Batch, torch.Tensor, torch.Tensor]:
    """Give every maskable token of `batch` a vocabulary entry of its own, with the same embedding.

    What is then added to an entry of the table is added to that token's embedding wherever the model looks it up: a
    way to move embeddings that shares no code with the library. Changes `model`.

    Returns:
        The batch with the new ids, the table (to be changed in place), and the entry of each token: (batch, tokens).
    """
    words = model.get_input_embeddings()
    size = words.num_embeddings
    entries = size + torch.arange(batch.input_ids.numel()).view_as(batch.input_ids)
    table = torch.cat([words.weight.detach(), words.weight.detach()[batch.input_ids.flatten()]])
    shared = nn.Parameter(table, requires_grad=False)
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.weight.shape == (size, words.embedding_dim):
            module.weight = shared
    ids = torch.where(batch.maskable, entries, batch.input_ids)
    return replace(batch, input_ids=ids), shared, entries
