from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel, WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer, WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from rsmi.errors import InputError, UnsupportedModelError
from rsmi.method.tokens import by_length, check_text, collate, encode, mask_token_id
from tiny import FAMILIES, WORDS, is_t5, some_texts, tiny_tokenizer

SPECIAL_WORDS = "[MASK] [SEP] [CLS] [PAD] <mask> <s> </s> <pad> <extra_id_0> <extra_id_1>".split()  # noqa: SIM905


@pytest.mark.parametrize("family", FAMILIES)
def test_special_tokens_and_padding_are_never_maskable(family):
    tokenizer = tiny_tokenizer(family)
    for texts in (some_texts(6), [("good film", "a dull plot with no end"), ("bad", "it was")]):
        rows = encode(tokenizer, texts, 32)
        batch = collate(rows, tokenizer.pad_token_id)
        specials = torch.tensor(sorted(set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}))
        assert torch.equal(batch.maskable, ~torch.isin(batch.input_ids, specials))
        assert not batch.maskable[batch.attention_mask == 0].any()
        assert batch.attention_mask.sum(1).tolist() == list(batch.lengths) == [len(row) for row in rows]
        words = [len((" ".join(text) if isinstance(text, tuple) else text).split()) for text in texts]
        assert batch.maskable.sum(1).tolist() == words == [len(row.maskable_positions) for row in rows]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("word", SPECIAL_WORDS)
def test_a_written_special_token_is_never_read_as_one(family, word):
    tokenizer = tiny_tokenizer(family)
    forbidden = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    forbidden |= set(tokenizer.convert_tokens_to_ids(["<extra_id_0>", "<extra_id_1>"])) - {tokenizer.unk_token_id}
    clean = encode(tokenizer, ["good film"], 32)[0]
    for text in (f"good {word} film", word, f"{word}{word} good", f"good film{word}", (f"good {word}", f"{word} film")):
        row = encode(tokenizer, [text], 32)[0]
        assert not forbidden & {token for token, free in zip(row.ids, row.maskable, strict=True) if free}
        if isinstance(text, str):  # the special tokens around the text are those of any other text
            assert [i for i, free in zip(row.ids, row.maskable, strict=True) if not free] == [
                i for i, free in zip(clean.ids, clean.maskable, strict=True) if not free
            ]


def test_a_written_special_token_is_split_by_word_pieces():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[", "]", "MASK", "good"]
    tokenizer = Tokenizer(WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = BertPreTokenizer()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]", sep_token="[SEP]"
    )
    (row,) = encode(fast, ["good [MASK]"], 16)
    assert [words[i] for i in row.ids] == ["good", "[", "MASK", "]"]
    assert row.maskable == (True,) * 4


def test_a_pair_keeps_its_segments_offsets_and_sides():
    (row,) = encode(tiny_tokenizer("bert"), [("good film", "a plot")], 32)
    assert row.type_ids == (0, 0, 0, 0, 1, 1, 1)
    assert row.sequence == (-1, 0, 0, -1, 1, 1, -1)
    assert row.maskable == (False, True, True, False, True, True, False)
    assert row.offsets[1:3] == ((0, 4), (5, 9))
    assert row.offsets[4:6] == ((0, 1), (2, 6))
    (row,) = encode(tiny_tokenizer("roberta"), [("good film", "a plot")], 32)
    assert row.type_ids == ()
    assert row.maskable_positions == (1, 2, 5, 6)


def test_texts_and_pairs_are_not_mixed():
    tokenizer = tiny_tokenizer("bert")
    with pytest.raises(InputError, match="all"):
        encode(tokenizer, ["good film", ("bad", "plot")], 32)
    with pytest.raises(InputError, match="all"):
        encode(tokenizer, [("bad", "plot"), "good film"], 32)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cut_text_says_so_and_keeps_its_special_tokens(family):
    tokenizer = tiny_tokenizer(family)
    long, short = " ".join(WORDS[:20]), "good film"
    cut, whole = encode(tokenizer, [long, short], 10)
    assert len(cut) == 10
    assert cut.truncated
    assert not whole.truncated
    assert not cut.maskable[-1]
    room = 9 if is_t5(family) else 8
    exact, over = encode(tokenizer, [" ".join(WORDS[:room]), " ".join(WORDS[: room + 1])], 10)
    assert (exact.truncated, over.truncated) == (False, True)
    (pair,) = encode(tokenizer, [(long, long)], 12)
    assert len(pair) == 12
    assert pair.truncated


def test_a_very_long_pair_is_cut_in_little_time_and_memory():
    words = " ".join(["good"] * 20_000)
    (row,) = encode(tiny_tokenizer("bert"), [(words, words)], 32)
    assert len(row) == 32
    assert row.truncated


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("lengths", [(90, 90), (3, 90), (90, 3), (40, 25)])
def test_a_long_pair_is_read_as_its_plain_truncation(family, lengths):
    tokenizer = tiny_tokenizer(family)
    pair = tuple(some_texts(1, n, n, seed=n)[0] for n in lengths)
    (row,) = encode(tokenizer, [pair], 12)
    assert list(row.ids) == tokenizer(*pair, truncation=True, max_length=12)["input_ids"]
    assert row.truncated


def test_no_texts_give_no_rows():
    assert encode(tiny_tokenizer("bert"), [], 32) == []


def test_a_slow_tokenizer_is_refused():
    with pytest.raises(UnsupportedModelError, match="expected a fast tokenizer"):
        encode(SimpleNamespace(is_fast=False), ["good"], 32)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_mask_token_is_the_tokenizers_own_or_the_first_sentinel(family):
    tokenizer = tiny_tokenizer(family)
    expected = "<extra_id_0>" if is_t5(family) else tokenizer.mask_token
    assert tokenizer.convert_ids_to_tokens(mask_token_id(tokenizer)) == expected
    assert mask_token_id(tokenizer, tokenizer.unk_token.replace("unk", "pad").replace("UNK", "PAD")) == (
        tokenizer.pad_token_id
    )


@pytest.mark.parametrize("unk", ["[UNK]", None])
def test_a_missing_mask_token_is_an_error_with_a_way_out(unk):
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "good": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **({"unk_token": unk} if unk else {}))
    with pytest.raises(UnsupportedModelError, match=r"mask_token=\.\.\."):
        mask_token_id(fast)
    with pytest.raises(UnsupportedModelError, match=r"\[HIDE\]"):
        mask_token_id(fast, "[HIDE]")
    assert mask_token_id(fast, "good") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "text 3 is empty"),
        (" \t\n", "text 3 is empty"),
        (("good", " "), "second text of text 3 is empty"),
        ("good \ud800", r"text 3 holds a lone surrogate \(U\+D800 at character 5\)"),
        (None, "text 3: expected a str or a pair of str, got NoneType"),
        (float("nan"), "got NaN"),
        (np.float64("nan"), "got NaN"),
        (3, "got int"),
        (b"ab", "got bytes"),
        (["a"], "got a list of 1"),
        (("a", "b", "c"), "got a tuple of 3"),
        (("a", 1), "got a tuple of 2"),
        (np.array(["a", "b"]), "got ndarray"),
        ({"a": "b"}, "got dict"),
    ],
)
def test_what_cannot_be_classified_is_named(text, message):
    with pytest.raises(InputError, match=message):
        check_text(text, "text 3")


def test_a_text_or_pair_of_any_sequence_type_is_kept():
    assert check_text(np.str_("good"), "text") == "good"
    assert type(check_text(np.str_("good"), "text")) is str
    assert check_text(["good", "film"], "text") == ("good", "film")


@given(st.lists(st.integers(0, 40), max_size=40), st.integers(1, 200))
def test_groups_hold_every_index_once_within_the_budget(lengths: Sequence[int], budget: int):
    groups = list(by_length(lengths, budget))
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[i] for i in group) <= budget
    longest = [max(lengths[i] for i in group) for group in groups]
    assert longest == sorted(longest, reverse=True)


def test_repeat_puts_the_copies_of_a_row_side_by_side():
    tokenizer = tiny_tokenizer("bert")
    batch = collate(encode(tokenizer, ["good", "bad film"], 32), tokenizer.pad_token_id)
    twice = batch.repeat(2)
    assert twice.lengths == (3, 3, 4, 4)
    for field in ("input_ids", "attention_mask", "token_type_ids", "maskable"):
        assert torch.equal(getattr(twice, field), getattr(batch, field)[[0, 0, 1, 1]])
