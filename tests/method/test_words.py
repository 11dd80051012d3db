from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from rsmi.errors import UnsupportedModelError
from rsmi.method.tokens import encode, mask_token_id
from rsmi.method.words import WordEncoder, draw_deleted, draw_hidden, num_hidden, split_words
from tiny import FAMILIES

TEXTS = ["a good film , and a warm end !", "joy", "unknownword in the plot", ("a good plot", "the bad end . no")]


def encoder(tokenizer, limit: int = 40) -> WordEncoder:
    return WordEncoder(tokenizer, limit, mask_token_id(tokenizer))


@pytest.mark.parametrize("family", FAMILIES)
def test_with_nothing_hidden_rows_are_those_of_the_tokenizer(tiny_of, family):
    tokenizer = tiny_of(family).tokenizer
    words = encoder(tokenizer)
    for text in TEXTS:
        (row,) = encode(tokenizer, [text], 40)
        own = words.row(split_words(text))
        for name in ("ids", "type_ids", "maskable", "sequence", "truncated"):
            assert getattr(own, name) == getattr(row, name)


@pytest.mark.parametrize("family", ["bert", "roberta", "t5"])
def test_a_hidden_word_leaves_one_mask_and_no_other_trace(tiny_of, family):
    tokenizer = tiny_of(family).tokenizer
    words = encoder(tokenizer)
    one = words.row(split_words("a good film"), hidden=frozenset({1}))
    two = words.row(split_words("a veryunknownlongword film"), hidden=frozenset({1}))
    assert one == two
    assert one.ids.count(mask_token_id(tokenizer)) == 1
    place = one.ids.index(mask_token_id(tokenizer))
    assert not one.maskable[place]


def test_a_deleted_word_leaves_nothing(tiny_of):
    words = encoder(tiny_of("roberta").tokenizer)
    shorter = words.row(split_words("good film"))
    assert words.row(split_words("a good film"), deleted=frozenset({0})) == shorter
    assert words.row(split_words("good plot film"), deleted=frozenset({1})) == shorter
    empty = words.row(split_words("good"), deleted=frozenset({0}))
    assert not any(empty.maskable)
    pair = words.row(split_words(("a b", "good film")), deleted=frozenset({0, 1}))
    assert pair.sequence.count(1) == 2


def test_long_texts_are_cut_from_the_longer_side(tiny_of):
    tokenizer = tiny_of("bert").tokenizer
    words = encoder(tokenizer, 10)
    long = ("a good film " * 9).strip()
    (row,) = encode(tokenizer, [long], 10)
    own = words.row(split_words(long))
    assert own.ids == row.ids
    assert own.truncated
    pair = words.row(split_words((long, "the end")))
    assert len(pair) == 10
    assert pair.sequence.count(1) == 2
    assert not words.row(split_words("a film")).truncated


def test_every_set_of_hidden_words_is_as_likely():
    drawn = Counter(draw_hidden(5, 0.4, key) for key in range(4000))
    assert set(drawn) == {frozenset(own) for own in combinations(range(5), 2)}
    assert max(abs(count - 400) for count in drawn.values()) < 5 * 400**0.5
    assert [num_hidden(n, 0.7) for n in (1, 2, 3, 10)] == [0, 1, 2, 7]
    assert num_hidden(4, 0.99) == 3  # never all


def test_words_are_deleted_one_by_one():
    sizes = [len(draw_deleted(6, 0.3, key)) for key in range(3000)]
    assert sum(sizes) / 3000 == pytest.approx(1.8, abs=0.1)
    together = sum({0, 1} <= draw_deleted(6, 0.3, key) for key in range(3000)) / 3000
    assert together == pytest.approx(0.09, abs=0.02)


def test_a_tokenizer_that_joins_words_is_refused(tiny_of, monkeypatch):
    words = encoder(tiny_of("bert").tokenizer)
    monkeypatch.setattr(WordEncoder, "_plain", lambda self, text: (len(text) * 7,))
    with pytest.raises(UnsupportedModelError, match="word by word"):
        words.row(split_words("a b"))
