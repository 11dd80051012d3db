"""Words and their replacements as tokens, against tokenizing the whole text again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE, WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer, WordPieceTrainer
from transformers import PreTrainedTokenizerFast

from rsmi.attacks.spelling import Spelling, token_places
from rsmi.attacks.words import Words
from rsmi.method.tokens import Encoded, encode
from rsmi.records import TextInput
from tiny import tiny_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CORPUS = ["unbelievable films believe in filming", "the film was well-made , the cast can't act"] * 3


def trained(kind: str) -> PreTrainedTokenizerFast:
    """A tokenizer that cuts words into pieces: WordPiece as BERT's, or byte-level BPE as RoBERTa's."""
    if kind == "wordpiece":
        tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = BertPreTokenizer()
        tokenizer.train_from_iterator(CORPUS, WordPieceTrainer(vocab_size=70, special_tokens=SPECIAL))
    else:
        tokenizer = Tokenizer(BPE(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = ByteLevel.alphabet()
        tokenizer.train_from_iterator(
            CORPUS, BpeTrainer(vocab_size=300, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False)
        )
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


TOKENIZERS = {"wordpiece": trained("wordpiece"), "bytes": trained("bytes"), "t5": tiny_tokenizer("t5")}


def encoder(kind: str, limit: int = 256):
    def encoded(texts: Sequence[TextInput]) -> list[Encoded]:
        return encode(TOKENIZERS[kind], texts, limit)

    return encoded


pieces = st.sampled_from(["film", "filming", "unbelievable", "cast", "well-made", "can't", "good", "x"])
gaps = st.sampled_from([" ", ", ", "  ", " (", ") ", "\n", ".", "/"])
texts = st.lists(st.tuples(pieces, gaps), min_size=1, max_size=6).map(lambda own: "".join(w + g for w, g in own))


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(first=texts, second=st.none() | texts, other=pieces, data=st.data())
def test_a_replacement_is_read_as_it_is_in_the_whole_text(kind, first, second, other, data):
    words = Words.of(first if second is None else (first, second))
    index = data.draw(st.integers(0, len(words) - 1))
    (ids,) = Spelling(encoder(kind)).tokens(words, index, [other])
    after = words.with_word(index, other)
    (row,) = encoder(kind)([after.text])
    # a replacement of the same single word stands at the same place
    expected = tuple(row.ids[place] for place in token_places(row, after)[index])
    assert ids == expected


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(first=texts, second=st.none() | texts)
def test_the_tokens_of_a_word_are_those_that_cover_it(kind, first, second):
    words = Words.of(first if second is None else (first, second))
    (row,) = encoder(kind)([words.text])
    found = token_places(row, words)
    offset = [0, len(first) + 1]
    for index, places in enumerate(found):
        covered = {
            position + offset[row.sequence[place]] for place in places for position in range(*row.offsets[place])
        }
        start, end = words.span(index)
        assert covered >= set(range(start, end))
        side = 0 if second is None or words.in_first(index) else 1
        assert {row.sequence[place] for place in places} == {side}
        for place in places:  # and nothing but what touches it
            low, high = row.offsets[place]
            assert low + offset[side] < end
            assert high + offset[side] > start


def test_words_that_were_cut_off_have_no_tokens():
    words = Words.of("film film film film film")
    (row,) = encoder("wordpiece", limit=5)([words.text])
    counts = [len(places) for places in token_places(row, words)]
    assert row.truncated
    assert counts[0] >= 1
    assert counts[-1] == 0


def test_a_word_of_several_pieces_has_several_tokens():
    words = Words.of("the unbelievable film")
    (row,) = encoder("wordpiece")([words.text])
    places = token_places(row, words)[1]
    cut = TOKENIZERS["wordpiece"].tokenize("unbelievable")
    assert len(cut) > 1
    assert TOKENIZERS["wordpiece"].convert_ids_to_tokens([row.ids[place] for place in places]) == cut


def test_a_word_outside_the_vocabulary_is_the_unknown_token():
    assert Spelling(encoder("wordpiece")).tokens(Words.of("the film"), 1, ["zzz"]) == [(SPECIAL.index("[UNK]"),)]


def test_what_was_asked_before_is_not_tokenized_again():
    asked = []

    def counting(given):
        asked.extend(given)
        return encoder("wordpiece")(given)

    spelling = Spelling(counting)
    words = Words.of("a film, a film")
    first = spelling.tokens(words, 1, ["cast", "x"])
    assert spelling.tokens(words, 1, ["x", "cast"]) == first[::-1]
    assert asked == [" cast,", " x,"]
