"""Long texts are cut between words, nothing is lost, and no window is longer than the model reads."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmi.method.tokens import encode
from rsmi.method.windows import Cut, Window, Windower, merge
from rsmi.records import Prediction, Token
from tiny import WORDS, tiny_tokenizer

FAMILIES = ("bert", "roberta", "t5")
MAX = 12


def windower(family):
    return Windower(tiny_tokenizer(family), MAX)


def read_at_once(family, text):
    (row,) = encode(tiny_tokenizer(family), [text], MAX)
    return not row.truncated


@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_that_is_read_at_once_is_left_as_it_is(family):
    cut = windower(family).cut("  good film\n")
    assert cut.whole
    assert cut.windows == (Window("  good film\n", ((0, 12),)),)
    assert windower(family).cut("good film").tokens == 2


@pytest.mark.parametrize("family", FAMILIES)
@given(st.lists(st.sampled_from([*WORDS, "unheard", "\U0001f600"]), min_size=1, max_size=80), st.integers(0, 3))
def test_windows_cover_the_text_overlap_and_are_read_at_once(family, words, spaces):
    text = (" " * (1 + spaces)).join(words)
    cut = windower(family).cut(text)
    spans = [window.spans[0] for window in cut.windows]
    assert all(read_at_once(family, window.text) for window in cut.windows)
    assert all(text[start:end] == window.text for (start, end), window in zip(spans, cut.windows, strict=True))
    assert text[: spans[0][0]].strip() == text[spans[-1][1] :].strip() == ""
    for (start, end), (later, last) in pairwise(spans):
        assert start < later < end < last  # overlapping, and always going on
        assert text[later - 1].isspace() or text[later].isspace()
        assert text[end - 1].isspace() or text[end].isspace()


def test_every_window_is_as_long_as_can_be_and_shares_a_quarter_with_the_one_before():
    text = " ".join(f"w{i}" for i in range(35))  # room for 10
    words = [window.text.split() for window in windower("bert").cut(text).windows]
    assert [len(own) for own in words] == [10] * len(words)
    assert len(words) == 5  # of 4 with a quarter shared, 34 words could be read
    for before, after in pairwise(words):
        assert 2 <= len(set(before) & set(after)) <= 6


def test_a_window_of_nothing_but_spaces_is_left_out():
    cut = windower("t5").cut("good film" + " " * 100 + "bad end")
    assert cut.tokens > 100
    assert [window.text.split() for window in cut.windows] == [["good", "film"], ["bad", "end"]]


def test_a_word_longer_than_a_window_is_cut_somewhere():
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    pieces = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "##a": 5}
    tokenizer = Tokenizer(WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    cut = Windower(fast, MAX).cut("a" * 35)
    assert [len(window.text) for window in cut.windows] == [10] * len(cut.windows)
    assert cut.windows[-1].spans == ((25, 35),)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_longer_text_of_a_pair_is_cut_and_the_shorter_one_repeated(family):
    second = " ".join(random.Random(0).choices(WORDS, k=30))
    cut = windower(family).cut(("good film", second))
    assert len(cut.windows) > 3
    assert {window.text[0] for window in cut.windows} == {"good film"}
    assert all(read_at_once(family, window.text) for window in cut.windows)
    turned = windower(family).cut((second, "good film"))
    assert [window.text[::-1] for window in turned.windows] == [window.text for window in cut.windows]


@pytest.mark.parametrize("family", FAMILIES)
def test_of_two_long_texts_every_piece_meets_every_piece(family):
    rng = random.Random(1)
    first, second = (" ".join(rng.choices(WORDS, k=count)) for count in (9, 20))
    cut = windower(family).cut((first, second))
    ones, others = ({window.text[side] for window in cut.windows} for side in (0, 1))
    assert len(ones) > 1
    assert len(cut.windows) == len(ones) * len(others)
    assert all(read_at_once(family, window.text) for window in cut.windows)


def test_special_tokens_that_a_user_writes_are_words():
    text = "[SEP] " * 30
    cut = windower("bert").cut(text)
    assert cut.tokens == 30
    assert not cut.whole


def prediction(pos, *, label="auto", second=None):
    winner = ("pos" if pos >= 0.5 else "neg") if label == "auto" else label
    return Prediction(
        text="x",
        label=winner,
        probabilities={"neg": 1 - pos, "pos": pos},
        first_votes={"neg": 2, "pos": 3},
        second_votes=second,
        masked=(1,),
        candidates=(1, 2),
        masks_wanted=1,
        truncated=False,
        tokens=(
            Token(text="[CLS]", start=-1, end=-1, sequence=-1, saliency=0.0),
            Token(text="a", start=0, end=1, sequence=0, saliency=0.5),
            Token(text="b", start=2, end=3, sequence=0, saliency=0.25),
        ),
    )


CUT = Cut("a b c d", 4, (Window("a b", ((0, 3),)), Window("c d", ((4, 7),))))


def test_merged_decisions_are_means_sums_and_shifted_places():
    merged = merge(CUT, [prediction(0.9, second={"neg": 1, "pos": 9}), prediction(0.3)])
    assert merged.text == "a b c d"
    assert merged.label == "pos"
    assert merged.probabilities == {"neg": pytest.approx(0.4), "pos": pytest.approx(0.6)}
    assert merged.first_votes == {"neg": 4, "pos": 6}
    assert merged.second_votes == {"neg": 1, "pos": 9}
    assert merged.escalated
    assert merged.copies == 20
    assert merged.masked == (1, 4)
    assert merged.candidates == (1, 2, 4, 5)
    assert [(token.start, token.end) for token in merged.tokens] == [(-1, -1), (0, 1), (2, 3), (-1, -1), (4, 5), (6, 7)]


def test_it_abstains_where_more_than_half_of_the_windows_do():
    three = Cut(CUT.text, 4, (*CUT.windows, CUT.windows[1]))
    unsure = prediction(0.5, label=None)
    assert merge(CUT, [prediction(0.9), unsure]).label == "pos"
    assert merge(three, [prediction(0.9), unsure, unsure]).abstained


def test_one_window_is_the_decision_itself():
    whole = Cut("a b", 2, CUT.windows[:1])
    own = prediction(0.8)
    assert merge(whole, [own]) is own
