"""Any target as a victim of TextAttack, and any recipe of TextAttack with our lexicons and models in it."""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rsmi.attacks.textattack_offline import GuestResources, injected, load_textattack, needs
from rsmi.attacks.victim import Array, ask_target
from rsmi.defense import Target
from rsmi.errors import ConfigError, UnsupportedModelError
from rsmi.records import TextInput


class TextAttackVictim:
    """A target as TextAttack asks it: what it calls a model wrapper.

    Args:
        target: Whatever answers queries. For recipes that rank words by gradient it needs a further method
            `token_gradients(text) -> (tokens, gradients of shape (tokens, dimensions))`.
        max_length: Words of a text that such a recipe considers.
    """

    def __init__(self, target: Target, *, max_length: int = 512) -> None:
        self.model = target  # under this name TextAttack looks for the model
        self.max_length = max_length

    def __call__(self, text_input_list: Sequence[TextInput], **_ignored: Any) -> Array:
        """Return probabilities, (texts, classes) in float32.

        Rows are scaled to add up to 1: to rows that miss it by 1e-6 TextAttack would apply a softmax, a second one.
        """
        rows = ask_target(self.model, text_input_list)
        scaled: Array = (rows / rows.sum(1, keepdims=True)).astype(np.float32)
        return scaled

    def get_grad(self, text_input: TextInput) -> dict[str, Any]:
        """Return the gradient at each token, for recipes that rank words by it."""
        tokens, gradients = self._gradients(text_input)
        return {"ids": tokens, "gradient": gradients}

    def tokenize(self, inputs: Sequence[TextInput], strip_prefix: bool = False) -> list[list[str]]:
        """Return the tokens that `get_grad` speaks of."""
        rows = [list(self._gradients(text)[0]) for text in inputs]
        for mark in ("##", "\u0120", "__") if strip_prefix else ():  # the marks TextAttack strips, too
            rows = [[token.replace(mark, "") for token in row] for row in rows]
        return rows

    def _gradients(self, text: TextInput) -> tuple[Sequence[str], Array]:
        if not _offers_gradients(self.model):
            raise UnsupportedModelError(_no_gradients(self.model))
        tokens, gradients = self.model.token_gradients(text)  # type: ignore[attr-defined]
        return tokens, np.asarray(gradients)


def recipe(
    name: str,
    target: Target,
    resources: GuestResources | None = None,
    *,
    max_queries: int | None = None,
    batch_size: int = 32,
    **options: Any,
) -> Any:
    """Build a recipe of TextAttack as it is, but for its lexicons and models, which come from `resources`.

    Args:
        name: As TextAttack's own command line calls it (`textfooler`, `pwws`, `a2t`), or by its module
            (`textfooler-jin-2019`).
        target: What is attacked; a model wrapper of TextAttack is taken as it is.
        resources: Stand-ins for downloads.
        max_queries: Most queries an input may cost; None for no limit.
        batch_size: Texts asked about at once.
        options: Further arguments of the recipe itself, such as `mlm=True` for `a2t`.

    Returns:
        A `textattack.Attack`; `attack.attack(as_input(text), class_number)` attacks one text.

    Raises:
        MissingResourceError: If TextAttack, or something the recipe needs, is missing.
        UnsupportedModelError: If the recipe needs more of the target than answers.
        ConfigError: If there is no such recipe.
    """
    resources = resources or GuestResources()
    textattack = load_textattack(resources.nltk_data, downloads=resources.downloads)
    kind = _found(textattack, name)
    wrapper = textattack.models.wrappers.ModelWrapper
    wrapper.register(TextAttackVictim)
    victim = target if isinstance(target, wrapper) else TextAttackVictim(target)
    with injected(sys.modules[kind.__module__], resources), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TextAttack warns of any model class it does not know
        try:
            attack = kind.build(victim, **options)
        except (AttributeError, TypeError, ValueError) as error:  # it looks for a model of its own kind
            raise UnsupportedModelError(
                f"TextAttack cannot build {name} for {type(target).__name__}: {error}"
            ) from error
    goal = attack.goal_function
    if not isinstance(goal, textattack.goal_functions.ClassificationGoalFunction):
        raise UnsupportedModelError(
            f"expected a recipe against classifiers, got {name}, whose goal is {type(goal).__name__}"
        )
    if not attack.is_black_box and isinstance(victim, TextAttackVictim) and not _offers_gradients(target):
        raise UnsupportedModelError(f"{name}: {_no_gradients(target)}")
    goal.batch_size = batch_size
    goal.query_budget = float("inf") if max_queries is None else max_queries
    return attack


def recipe_names(nltk_data: Path | None = None) -> tuple[str, ...]:
    """Return the names `recipe` takes, short ones and long ones: `a2t` and `a2t-yoo-2021`."""
    return tuple(sorted(_recipes(load_textattack(nltk_data))))


def needs_of(name: str, nltk_data: Path | None = None) -> frozenset[str]:
    """Return which of `vectors`, `encoder` and `masked_lm` a recipe may want."""
    return needs(sys.modules[_found(load_textattack(nltk_data), name).__module__])


def as_input(text: TextInput, columns: tuple[str, ...] = ()) -> str | OrderedDict[str, str]:
    """Return a text or pair as `Attack.attack` takes it; `columns` names the two texts of a pair."""
    if isinstance(text, str):
        return text
    return OrderedDict(zip(columns or ("text", "text_pair"), text, strict=True))


def _recipes(textattack: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for short, path in textattack.attack_args.ATTACK_RECIPE_NAMES.items():
        kind = getattr(textattack.attack_recipes, path.rpartition(".")[2])
        found |= {short: kind, kind.__module__.rpartition(".")[2].replace("_", "-"): kind}
    return found


def _found(textattack: Any, name: str) -> Any:
    recipes = _recipes(textattack)
    if name not in recipes:
        raise ConfigError(f"expected one of TextAttack's recipes {', '.join(sorted(recipes))}, got {name!r}")
    return recipes[name]


def _offers_gradients(target: object) -> bool:
    return callable(getattr(target, "token_gradients", None))


def _no_gradients(target: object) -> str:
    return (
        f"expected a target with token_gradients(text), by which this recipe ranks words, got {type(target).__name__}; "
        "choose a recipe that only asks for answers, such as textfooler"
    )
