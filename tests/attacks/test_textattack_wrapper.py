"""TextAttack as a guest; what needs the package itself runs only in its own environment (benchmarks/parity)."""

from __future__ import annotations

import json
import random
import sys
from collections import OrderedDict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attack_toys import LinearVictim, encode
from rsmi.attacks.catalogue import make_attack
from rsmi.attacks.textattack import TextAttackRecipe
from rsmi.attacks.textattack_nltk import nltk_data_folder
from rsmi.attacks.textattack_offline import GuestResources, load_textattack
from rsmi.attacks.textattack_wrapper import TextAttackVictim, as_input, recipe, recipe_names
from rsmi.errors import ConfigError, InputError, MissingResourceError, UnsupportedModelError

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "textattack.json").read_text(encoding="utf-8"))
TEXT = "A wonderful, funny movie!"

needs_textattack = pytest.mark.skipif(find_spec("textattack") is None, reason="textattack has its own environment")


class Fixed:
    """Answers every text with the same row, and remembers what it was asked."""

    randomised = uses_gradients = False
    classes_ = np.array(["a", "b"])

    def __init__(self, row: list[float]) -> None:
        self.row = row
        self.asked: list[Any] = []

    def query(self, texts: list[Any], draw: int = 0) -> np.ndarray:
        self.asked += texts
        return np.array([self.row] * len(texts))


class WithGradients(LinearVictim):
    """A toy that can be asked for gradients: word by word, as large as the word is long."""

    asked = ""

    def token_gradients(self, text: str) -> tuple[list[str], np.ndarray]:
        self.asked = text
        tokens = [f"##{word}" for word in text.lower().replace(",", "").replace("!", "").split()]
        return tokens, np.array([[float(len(token))] for token in tokens])


def test_rows_add_up_to_one_closer_than_textattack_asks() -> None:
    rows = TextAttackVictim(Fixed([0.7004, 0.3003]))(["x", "y"])
    assert rows.dtype == np.float32
    assert np.abs(rows.astype(np.float64).sum(1) - 1).max() < 1e-6
    assert rows[0, 0] == pytest.approx(0.7004 / 1.0007, abs=1e-7)


@pytest.mark.parametrize("row", [[0.7, 0.2], [1.2, -0.2], [float("nan"), 1.0], [2.0, -3.0]])
def test_rows_that_are_no_probabilities_are_refused(row: list[float]) -> None:
    with pytest.raises(InputError, match=r"rows of probabilities from Fixed\.query"):
        TextAttackVictim(Fixed(row))(["x"])


def test_rows_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"shape \(1, 2\) from Fixed.query, got \(1, 3\)"):
        TextAttackVictim(Fixed([0.2, 0.3, 0.5]))(["x"])


def test_pairs_and_blank_texts_reach_the_target_as_they_are() -> None:
    target = Fixed([0.5, 0.5])
    TextAttackVictim(target)([("first", ""), ("", "second")])
    TextAttackVictim(target)([""])
    assert target.asked == [("first", ""), ("", "second"), ""]


def test_tokens_and_gradients_come_from_the_target() -> None:
    victim = TextAttackVictim(WithGradients(**GOLDEN["victim"]))
    assert victim.tokenize([TEXT], strip_prefix=True) == [["a", "wonderful", "funny", "movie"]]
    assert victim.get_grad(TEXT)["gradient"].tolist() == [[3.0], [11.0], [7.0], [7.0]]


def test_a_target_without_gradients_says_so() -> None:
    with pytest.raises(UnsupportedModelError, match="expected a target with token_gradients"):
        TextAttackVictim(Fixed([0.5, 0.5])).get_grad("x")


def test_a_pair_carries_the_names_of_its_columns() -> None:
    assert as_input("x") == "x"
    assert as_input(("x", "y"), ("premise", "hypothesis")) == OrderedDict(premise="x", hypothesis="y")


def test_without_textattack_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textattack", None)
    with pytest.raises(MissingResourceError, match=r"rsmi\[textattack\]"):
        recipe("pwws", Fixed([0.5, 0.5]))
    with pytest.raises(MissingResourceError, match=r"rsmi\[textattack\]"):
        make_attack("textattack:pwws")


def test_the_nltk_folder_is_written_once_and_writable_by_nobody_else(tmp_path: Path) -> None:
    folder = nltk_data_folder(tmp_path, stopwords=["the", "a"])
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert (folder / "corpora/stopwords/english").read_text() == "a\nthe\n"
    assert {"data.noun", "lexnames", "en-ptb.map"} <= {path.name for path in files}
    assert not [path for path in (folder, *folder.rglob("*")) if path.stat().st_mode & 0o022]
    written = {path: path.stat().st_mtime_ns for path in files}
    assert nltk_data_folder(tmp_path, stopwords=["a", "the"]) == folder
    assert written == {path: path.stat().st_mtime_ns for path in files}
    assert nltk_data_folder(tmp_path, stopwords=["a"]) != folder
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> GuestResources:
    """Vectors, encoder and NLTK data of the golden results."""
    rows = np.array([row["vector"] for row in GOLDEN["vectors"]], dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    return GuestResources(
        words=[row["word"] for row in GOLDEN["vectors"]],
        vectors=rows,
        neighbours=distances.argsort(axis=1, kind="stable")[:, :51],
        encode=encode,
        nltk_data=nltk_data_folder(tmp_path_factory.mktemp("nltk")),
    )


@needs_textattack
@pytest.mark.parametrize("name", ["textfooler", "pwws"])
def test_a_recipe_does_what_it_did_when_the_golden_results_were_written(name: str, resources: GuestResources) -> None:
    attack = recipe(name, LinearVictim(**GOLDEN["victim"]), resources)
    wanted = [row for row in GOLDEN["results"] if row["attack"] == name and row["max_queries"] is None]
    assert len(wanted) == len(GOLDEN["inputs"])
    for row in wanted[::3]:
        item = GOLDEN["inputs"][row["input"]]
        text = item["text"] if isinstance(item["text"], str) else tuple(item["text"])
        number = GOLDEN["victim"]["classes"].index(item["label"])
        result = attack.attack(as_input(text, tuple(item["columns"])), number)
        assert type(result).__name__ == row["outcome"] + "AttackResult"
        found = result.perturbed_result
        assert found.attacked_text.tokenizer_input == (
            row["final"] if isinstance(row["final"], str) else tuple(row["final"])
        )
        assert result.num_queries == row["queries"]
        assert float(found.score) == pytest.approx(row["final_score"], abs=2e-6)


@needs_textattack
def test_a_budget_is_kept(resources: GuestResources) -> None:
    attack = recipe("deepwordbug", LinearVictim(**GOLDEN["victim"]), resources, max_queries=5)
    assert attack.attack(TEXT, 2).num_queries <= 5


@needs_textattack
def test_a_long_name_is_the_same_recipe_as_a_short_one(resources: GuestResources) -> None:
    victim = LinearVictim(**GOLDEN["victim"])
    assert str(recipe("pwws-ren-2019", victim, resources)) == str(recipe("pwws", victim, resources))
    assert {"a2t", "a2t-yoo-2021", "textfooler-jin-2019"} <= set(recipe_names(resources.nltk_data))


@needs_textattack
def test_a_recipe_that_ranks_by_gradient_asks_the_target_for_it(resources: GuestResources) -> None:
    with pytest.raises(UnsupportedModelError, match="a2t-yoo-2021: expected a target with token_gradients"):
        recipe("a2t-yoo-2021", LinearVictim(**GOLDEN["victim"]), resources)
    target = WithGradients(**GOLDEN["victim"])
    recipe("a2t-yoo-2021", target, resources).attack(TEXT, 2)
    assert target.asked == TEXT.removesuffix("!")  # TextAttack ends the text with its last word


@needs_textattack
@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("textfooler", MissingResourceError, "word vectors"),
        ("bae", MissingResourceError, "a masked language model"),
        ("alzantot", MissingResourceError, "only TextAttack itself can fetch"),
        ("hotflip", UnsupportedModelError, "cannot build hotflip"),
        ("seq2sick", UnsupportedModelError, "against classifiers"),
        ("nonsense", ConfigError, "expected one of TextAttack's recipes"),
    ],
)
def test_what_is_missing_is_named(name: str, error: type[Exception], message: str, resources: GuestResources) -> None:
    given = resources if name in ("hotflip", "seq2sick") else GuestResources(nltk_data=resources.nltk_data)
    with pytest.raises(error, match=message):
        recipe(name, LinearVictim(**GOLDEN["victim"]), given)


@needs_textattack
def test_textattack_itself_is_left_as_it_was(resources: GuestResources) -> None:
    textattack = load_textattack(resources.nltk_data)
    module = sys.modules["textattack.attack_recipes.textfooler_jin_2019"]
    before = (module.UniversalSentenceEncoder, textattack.shared.WordEmbedding.counterfitted_GLOVE_embedding)
    recipe("textfooler", LinearVictim(**GOLDEN["victim"]), resources)
    assert before == (module.UniversalSentenceEncoder, textattack.shared.WordEmbedding.counterfitted_GLOVE_embedding)


@needs_textattack
@pytest.mark.parametrize(("name", "budget"), [("textfooler", None), ("pwws", 30), ("textfooler", 30)])
def test_a_recipe_as_one_of_our_attacks_gives_golden_records(
    name: str, budget: int | None, resources: GuestResources
) -> None:
    attack = TextAttackRecipe(name, guest=resources, max_queries=budget)
    target = LinearVictim(**GOLDEN["victim"])
    wanted = [row for row in GOLDEN["results"] if row["attack"] == name and row["max_queries"] == budget]
    for row in wanted[1::3]:
        item = GOLDEN["inputs"][row["input"]]
        text = item["text"] if isinstance(item["text"], str) else tuple(item["text"])
        ((_, record),) = attack.run(target, [text], [item["label"]], columns=tuple(item["columns"]))
        assert record.attack == f"textattack:{name}"
        assert record.outcome == {"Successful": "succeeded", "Failed": "failed", "Skipped": "skipped"}[row["outcome"]]
        assert record.adversarial == (row["final"] if isinstance(row["final"], str) else tuple(row["final"]))
        assert record.queries == row["queries"]


@needs_textattack
def test_a_recipe_that_draws_at_random_repeats_itself_and_leaves_the_global_state_alone(
    resources: GuestResources,
) -> None:
    attack = TextAttackRecipe("deepwordbug", guest=resources)
    target = LinearVictim(**GOLDEN["victim"])
    before = (random.getstate(), np.random.get_state()[1].tolist())
    first, second = (attack(target, TEXT, "positive", seed=1) for _ in range(2))
    assert first == second
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    others = {attack(target, TEXT, "positive", seed=seed).adversarial for seed in range(8)}
    assert len(others) > 1
