"""Cutting into words, replacing, deleting and windows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmi.attacks.words import Words, edit_distance, split_words, words_changed

# TextAttack's own list of homoglyphs, by code point
HOMOGLYPHS = (
    "\u02d7\u09ed\u0222\U0001d7d5\u0431\u01bc\u13ce\u01b7\u14bflO`\u0251\u042c\u03f2\u0501\u0435\U0001d68f\u0261\u0570"
    "\u0456\u03f3\U0001d48c\u217c\uff4d\u0578\u043e\u0440\u051b\u2c85\u0455\U0001d69d\u057d\u0475\u051d\u00d7\u0443\u1d22"
)
texts = st.text(st.sampled_from("ab C'-_*@.,! \n\u00e9`"), max_size=40)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A great, 'quoted' film!", ["A", "great", "quoted", "film"]),
        ("well-known don't @user --", ["well-known", "don't", "user"]),
        ("u.s. 3.5% e-mail_x", ["u", "s", "3", "5", "e-mail_x"]),
        ("  ", []),
        ("na\u00efve `tick` a\u00d7b", ["na\u00efve", "`tick`", "a\u00d7b"]),
    ],
)
def test_words_are_cut_as_textattack_cuts_them(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_every_homoglyph_of_textattack_is_part_of_a_word() -> None:
    assert split_words(HOMOGLYPHS) == [HOMOGLYPHS]


@given(texts, texts)
def test_spans_hold_the_words_and_all_else_is_kept(first: str, second: str) -> None:
    for text in (first, (first, second)):
        cut = Words.of(text)
        assert cut.text == text
        for index, word in enumerate(cut.words):
            start, end = cut.span(index)
            assert cut.joined[start:end] == word
            assert cut.as_inputs(index, cut.variants(index, [word])) == [text]


@given(texts, texts, st.sampled_from(["x", "long-word", "two words", "u.s.", ""]))
def test_a_replacement_changes_one_text_of_a_pair_at_one_place(first: str, second: str, new: str) -> None:
    cut = Words.of((first, second))
    for index in range(len(cut)):
        (made,) = cut.as_inputs(index, cut.variants(index, [new]))
        changed = cut.with_word(index, new)
        assert changed.text == made
        side = 0 if cut.in_first(index) else 1
        assert made[1 - side] == (first, second)[1 - side]
        assert len(made[side]) == len((first, second)[side]) + len(new) - len(cut.words[index])


@pytest.mark.parametrize(
    ("text", "index", "without"),
    [
        ("one two three", 0, "two three"),
        ("one two three", 1, "one three"),
        ("one two three", 2, "one two "),
        ("(one) two", 0, "() two"),
        ("one, two. three", 1, "one,. three"),
        ("alone", 0, ""),
        (("one two", "three four"), 1, ("one", "three four")),
        (("one two", "three four"), 2, ("one two", " four")),
        (("one", "two"), 1, ("one", "")),
    ],
)
def test_deleting_takes_one_space_as_textattack_does(text: object, index: int, without: object) -> None:
    assert Words.of(text).without(index) == without  # type: ignore[arg-type]


def test_places_changed_shift_with_words_added_and_removed() -> None:
    cut = Words.of("a b c d").with_word(3, "x").with_word(1, "y z")
    assert cut.words == ("a", "y", "z", "c", "x")
    assert cut.modified == {1, 2, 4}
    assert cut.with_word(0, "...").modified == {0, 1, 3}
    assert cut.with_word(1, "w").modified == {1, 2, 4}


@pytest.mark.parametrize(("index", "window"), [(0, "a b c"), (1, "a b c"), (3, "c d e"), (5, "d e f"), (4, "d e f")])
def test_a_window_is_cut_at_the_edges_without_getting_shorter(index: int, window: str) -> None:
    cut = Words.of("-a b c d e f.")
    assert cut.window(index, 3) == window
    assert cut.window(index, None) == cut.joined
    assert cut.window(index, 99) == "a b c d e f"


def test_changed_words_are_counted_by_place_or_by_edits() -> None:
    assert words_changed(Words.of("a b c"), Words.of("a x y")) == 2
    assert words_changed(Words.of("a b c"), Words.of("b c")) == 1
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == 3
