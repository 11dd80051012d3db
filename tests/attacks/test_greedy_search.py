"""The outer attack and the greedy search, against answers known by hand and a naive search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from keywords import CoinTarget, KeywordTarget, TableAttack
from rsmi.attacks.ranking import by_hiding, by_weighted_saliency
from rsmi.attacks.words import split_words
from rsmi.errors import ConfigError, InputError, LabelError

WEIGHTS = {"good": 2.0, "great": 1.0, "fine": 0.5, "decent": 1.0, "big": -1.0}
TABLE = {"good": ["fine", "decent"], "great": ["big"], "film": ["movie"]}
TEXT = "A good film, with a great cast."


def test_the_known_best_attack_is_found_with_the_known_number_of_queries() -> None:
    record = TableAttack(TABLE, frozenset({"A", "a", "with"}))(KeywordTarget(WEIGHTS), TEXT, "pos")
    assert record.outcome == "succeeded"
    assert record.adversarial == "A fine film, with a big cast."
    assert record.queries == 1 + 4 + 2 + 1  # the text, four free words, two options for good, one for great
    assert (record.words_changed, record.num_words) == (2, 7)
    assert (record.label_before, record.label_after) == ("pos", "neg")
    assert record.gold_before == pytest.approx(1 / (1 + np.exp(-3)), abs=1e-6)
    assert record.gold_after == pytest.approx(1 / (1 + np.exp(0.5)), abs=1e-6)


def test_pwws_ranks_by_hidden_word_times_best_replacement() -> None:
    target = KeywordTarget({"good": 2.0, "great": 1.9, "big": -3.0, "decent": 1.9})
    attack = TableAttack(
        {"good": ["decent"], "great": ["big"]}, frozenset({"A", "a", "with"}), ranking=by_weighted_saliency
    )
    record = attack(target, TEXT, "pos")
    # hiding good hurts most, but replacing great helps so much more that it comes first and is enough
    assert record.adversarial == "A good film, with a big cast."
    assert record.queries == 1 + 4 + 2 + 1


def test_hiding_a_word_puts_the_unknown_token_in_its_place() -> None:
    target = KeywordTarget(WEIGHTS)
    TableAttack(TABLE, ranking=by_hiding)(target, TEXT, "pos")
    assert "A [UNK] film, with a great cast." in [text for call in target.calls for text in call]


def test_a_text_already_wrong_is_skipped_after_one_query() -> None:
    record = TableAttack(TABLE)(KeywordTarget(WEIGHTS), TEXT, "neg")
    assert (record.outcome, record.queries, record.adversarial) == ("skipped", 1, TEXT)
    assert record.words_changed == 0


def test_a_failure_keeps_the_changes_that_helped() -> None:
    record = TableAttack(TABLE)(KeywordTarget(WEIGHTS, bias=5), TEXT, "pos")
    assert record.outcome == "failed"
    assert record.adversarial == "A fine film, with a big cast."
    assert not record.budget_hit


@pytest.mark.parametrize("budget", range(1, 12))
def test_the_budget_is_never_exceeded(budget: int) -> None:
    target = KeywordTarget(WEIGHTS)
    record = TableAttack(TABLE, max_queries=budget)(target, TEXT, "pos")
    assert record.queries <= budget
    assert record.outcome == ("succeeded" if budget >= 11 else "failed")
    assert record.budget_hit == (budget < 11)


def test_a_lone_word_may_be_deleted() -> None:
    target = KeywordTarget(WEIGHTS)
    record = TableAttack({"good": ["bad"]})(target, "good", "pos")
    assert [""] in target.calls
    assert record.queries == 3


def test_the_premise_stays_where_columns_say_that_it_is_one() -> None:
    attack = TableAttack(TABLE, frozen_columns=("premise", "hypothesis"))
    pair = ("a good film", "a great film")
    target = KeywordTarget(WEIGHTS, bias=-0.5)
    ((_, frozen),) = attack.run(target, [pair], ["pos"], columns=("premise", "hypothesis"))
    ((_, free),) = attack.run(target, [pair], ["pos"], columns=("question", "sentence"))
    assert frozen.adversarial == ("a good film", "a big movie") or frozen.adversarial == ("a good film", "a big film")
    assert isinstance(free.adversarial, tuple)
    assert free.adversarial[0] != pair[0]


def test_old_query_counts_are_had_by_ranking_all_words() -> None:
    stopwords = frozenset({"A", "a", "with"})
    new = TableAttack(TABLE, stopwords)(KeywordTarget(WEIGHTS), TEXT, "pos")
    old = TableAttack(TABLE, stopwords, rank_all_words=True)(KeywordTarget(WEIGHTS), TEXT, "pos")
    assert old.queries == new.queries + 3
    assert old.adversarial == new.adversarial


def test_a_success_against_a_randomised_target_is_asked_again_under_other_draws() -> None:
    target = CoinTarget(WEIGHTS, bias=-0.5)
    record = TableAttack(TABLE, fresh_draws=400)(target, TEXT, "pos")
    assert record.outcome == "succeeded"
    assert record.fresh_draws == 400
    # the noise has std 1, so a fresh draw is wrong with this probability
    wrong = norm.cdf(-KeywordTarget.score(target, record.adversarial, 0))
    assert abs(record.fresh_flips - 400 * wrong) < 4 * np.sqrt(400 * wrong * (1 - wrong))


def test_a_deterministic_target_is_not_asked_again() -> None:
    assert TableAttack(TABLE)(KeywordTarget(WEIGHTS), TEXT, "pos").fresh_draws == 0


WORDS = [f"w{number}" for number in range(12)]
CASED = WORDS + [word.upper() for word in WORDS[:4]]
sentences = st.lists(
    st.tuples(st.sampled_from(CASED), st.sampled_from([" ", ", ", "! ", " -"])), min_size=1, max_size=12
).map(lambda pairs: "".join(word + gap for word, gap in pairs).strip(" -"))
tables = st.dictionaries(st.sampled_from(WORDS), st.lists(st.sampled_from(WORDS), max_size=4), max_size=12)
weights = st.dictionaries(st.sampled_from(WORDS), st.integers(-8, 8).map(lambda value: value / 4), max_size=12)


@given(st.lists(sentences, min_size=1, max_size=6), tables, weights, st.integers(1, 7))
def test_records_equal_a_naive_search_and_do_not_depend_on_what_runs_beside(
    texts: list[str], table: dict[str, list[str]], own: dict[str, float], together: int
) -> None:
    stopwords = frozenset(WORDS[:2])
    target = KeywordTarget(own)
    labels = [["neg", "pos"][int(target.query([text])[0].argmax())] for text in texts]
    attack = TableAttack(table, stopwords)
    records = dict(attack.run(target, texts, labels, together=together))
    alone = dict(attack.run(target, texts, labels, together=1))
    assert records == alone
    for place, text in enumerate(texts):
        record = records[place]
        assert (record.outcome, record.adversarial, record.queries) == naive(
            target, table, stopwords, text, labels[place]
        )


@given(sentences, tables, weights)
def test_stopwords_case_and_punctuation_stay_and_no_word_changes_twice(
    text: str, table: dict[str, list[str]], own: dict[str, float]
) -> None:
    stopwords = frozenset(WORDS[:2])
    target = KeywordTarget(own)
    label = ["neg", "pos"][int(target.query([text])[0].argmax())]
    record = TableAttack(table, stopwords)(target, text, label)
    before, after = split_words(text), split_words(str(record.adversarial))
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        if old != new:
            assert old not in stopwords
            assert new in table[old.lower()]  # one step from the original: changed once
    skeleton = [str(record.adversarial), text]
    for number, words in enumerate((after, before)):
        for word in words:
            skeleton[number] = skeleton[number].replace(word, "_", 1)
    assert skeleton[0] == skeleton[1]


def naive(
    target: KeywordTarget, table: dict[str, list[str]], stopwords: frozenset[str], text: str, label: str
) -> tuple[str, str, int]:
    """TextAttack's greedy search, word by word, without any of the engine's machinery."""
    gold = ["neg", "pos"].index(label)
    asked = 0

    def loss(given: str) -> tuple[np.float32, bool]:
        nonlocal asked
        asked += 1
        row = target.query([given])[0].astype(np.float32)
        return np.float32(1) - row[gold], int(row.argmax()) != gold

    def put(given: str, index: int, word: str) -> str:
        end = 0
        for number, old in enumerate(split_words(given)):
            start = given.index(old, end)
            end = start + len(old)
            if number == index:
                left, right = given[:start], given[end:]
                if word == "" and index == 0:
                    right = right[1:] if right[:1] == " " else right
                elif word == "" and right and left[-1:] == " ":
                    left = left[:-1]
                return left + word + right
        raise AssertionError

    current_loss, wrong = loss(text)
    if wrong:
        return "skipped", text, asked
    words = split_words(text)
    free = [index for index, word in enumerate(words) if word not in stopwords]
    importance = [loss(put(text, index, ""))[0] for index in free]
    order = [free[rank] for rank in sorted(range(len(free)), key=lambda rank: -importance[rank])]
    current = text
    for index in order:
        made = [put(current, index, other) for other in table.get(words[index].lower(), []) if other != words[index]]
        results = sorted(((loss(option), option) for option in sorted(made)), key=lambda pair: -pair[0][0])
        if results and results[0][0][0] > current_loss:
            (current_loss, wrong), current = results[0]
            if wrong:
                return "succeeded", current, asked
    return "failed", current, asked


def test_bad_arguments_are_refused() -> None:
    target = KeywordTarget(WEIGHTS)
    with pytest.raises(LabelError, match="label 0: expected one of the classes"):
        TableAttack(TABLE)(target, TEXT, "maybe")
    with pytest.raises(LabelError, match="2 texts but 1 labels"):
        list(TableAttack(TABLE).run(target, [TEXT, TEXT], ["pos"]))
    with pytest.raises(InputError, match="empty"):
        TableAttack(TABLE)(target, " ", "pos")
    with pytest.raises(ConfigError, match="max_queries"):
        TableAttack(TABLE, max_queries=0)
    with pytest.raises(ConfigError, match="together"):
        list(TableAttack(TABLE).run(target, [TEXT], ["pos"], together=0))


def test_a_target_that_gives_no_probabilities_is_refused() -> None:
    class Broken(KeywordTarget):
        def query(self, texts: object, draw: int = 0) -> np.ndarray:  # type: ignore[type-arg, override]
            return np.full((len(texts), 2), np.nan)  # type: ignore[arg-type]

    with pytest.raises(InputError, match="add up to 1"):
        TableAttack(TABLE)(Broken(WEIGHTS), TEXT, "pos")
