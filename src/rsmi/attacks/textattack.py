"""`TextAttackRecipe`: a recipe of TextAttack as one of our attacks, with our lexicons, models, counts and records."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import RandomState

from rsmi.attacks.base import Attack
from rsmi.attacks.steps import Steps
from rsmi.attacks.textattack_nltk import nltk_data_folder
from rsmi.attacks.textattack_offline import GuestResources, require_textattack
from rsmi.attacks.textattack_wrapper import as_input, needs_of, recipe
from rsmi.attacks.victim import Array, Game
from rsmi.attacks.whitebox import Differentiable, GradientView, Question, cross_entropy, engine_of
from rsmi.defense import Target
from rsmi.errors import InputError
from rsmi.records import TextInput
from rsmi.resources.masked_lm import MaskedLM
from rsmi.resources.sentence import SentenceEncoder
from rsmi.resources.vectors import WordVectors
from rsmi.seeds import derive, generator, global_state_kept

_DRAWS = 8  # that gradients of a randomised target are averaged over


class TextAttackRecipe(Attack):
    """Runs a recipe of TextAttack, which has to be installed (extra `textattack`, an environment of its own).

    Thresholds are TextAttack's own, also where our sentence encoder stands in for another one. Inputs are attacked one
    after another.

    Args:
        recipe: Its name, such as `textbugger` or `textfooler-jin-2019`.
        guest: Lexicons and models for it; by default ours, as far as the recipe needs them.
        options: Further arguments of the recipe.
        **settings: See `Attack`.
    """

    name = "textattack"

    def __init__(
        self,
        recipe: str,
        *,
        guest: GuestResources | None = None,
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.name = f"textattack:{recipe}"  # type: ignore[misc]
        options = dict(options or {})
        super().__init__(own_settings={"options": options}, **settings)
        self._recipe, self._options = recipe, options
        self._guest = guest or _our_resources(recipe)
        self._asker: _Asker | None = None
        self._attack: Any = None

    def prepare(self, target: Target) -> None:
        """Build the recipe for a target."""
        self._asker = _Asker(target)
        self._attack = recipe(self._recipe, self._asker, self._guest, max_queries=self.max_queries, **self._options)

    def search(self, game: Game) -> Steps[TextInput]:
        """Let TextAttack search; it asks by itself, so there is nothing to wait for."""
        yield from ()
        if self._asker is None:
            raise RuntimeError("prepare comes before search")
        self._asker.game = game
        with global_state_kept():
            _seed_global_state(game.key)  # some recipes draw from it
            try:
                result = self._attack.attack(as_input(game.original.text, game.columns), game.gold)
            except (AssertionError, IndexError, KeyError, StopIteration) as error:
                raise InputError(
                    f"TextAttack's {self._recipe} stopped at {str(game.original.text)[:80]!r} with {error!r}; "
                    "leave this text out"
                ) from error
        game.queries = result.num_queries
        found: TextInput = result.perturbed_result.attacked_text.tokenizer_input
        return found


class _Asker:
    """The target of a game, as TextAttack's victim: what it answers is known to the game."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.game: Game | None = None
        if callable(getattr(target, "token_gradients", None)):
            self.token_gradients = target.token_gradients  # type: ignore[attr-defined]
        elif isinstance(target, Differentiable):
            self.token_gradients = self._gradients

    @property
    def classes_(self) -> Array:
        return self.target.classes_

    @property
    def randomised(self) -> bool:
        return self.target.randomised

    @property
    def uses_gradients(self) -> bool:
        return self.target.uses_gradients

    def query(self, texts: Sequence[TextInput], draw: int = 0) -> Array:
        """Ask what the game does not know yet; TextAttack counts, so the game does not."""
        if self.game is None or draw:
            return self.target.query(texts, draw)
        return self.game.answers_now(texts)

    def _gradients(self, text: TextInput) -> tuple[list[str], Array]:
        """Return the tokens of a text and the gradient of the defended model's loss there, averaged over draws."""
        if self.game is None:
            raise RuntimeError("prepare comes before search")
        view = GradientView(engine_of(self.target), cross_entropy)
        draws = _DRAWS if self.target.randomised else 1
        keys = tuple(derive(self.game.key, "gradient", draw) for draw in range(draws))
        (slope,) = view.slopes([Question(text, self.game.gold, keys)])
        (row,) = view.encode([text])
        tokens: list[str] = view.engine.loaded.tokenizer.convert_ids_to_tokens(list(row.ids))
        return tokens, slope.gradient.mean(0).cpu().numpy()


class _Neighbours:
    """Rows of neighbours, each looked up when TextAttack asks for it."""

    def __init__(self, vectors: WordVectors) -> None:
        self._vectors = vectors
        self._numbers = {word: number for number, word in enumerate(vectors.words)}

    def __getitem__(self, number: int) -> list[int]:
        near = self._vectors.neighbours(self._vectors.words[number])
        return [number, *(self._numbers[word] for word, _ in near)]


def _our_resources(name: str) -> GuestResources:
    require_textattack()  # before anything is written
    nltk_data = nltk_data_folder()
    needs = needs_of(name, nltk_data)
    vectors = WordVectors.open() if "vectors" in needs else None
    masked_lm = MaskedLM.open() if "masked_lm" in needs else None
    return GuestResources(
        words=None if vectors is None else vectors.words,
        vectors=None if vectors is None else vectors.vectors,
        neighbours=None if vectors is None else _Neighbours(vectors),
        encode=SentenceEncoder.open() if "encoder" in needs else None,
        masked_lm=None if masked_lm is None else masked_lm.model,
        masked_lm_tokenizer=None if masked_lm is None else masked_lm.tokenizer,
        nltk_data=nltk_data,
    )


def _seed_global_state(key: int) -> None:
    random.setstate(random.Random(key).getstate())
    np.random.set_state(RandomState(key % 2**32).get_state())
    torch.set_rng_state(generator(key).get_state())
