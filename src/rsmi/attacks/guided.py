"""`GradientGuided`: the rules of a word attack, for searches that look into the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from rsmi.attacks.base import Attack
from rsmi.attacks.catalogue import make_attack
from rsmi.attacks.constraints import Option, as_options
from rsmi.attacks.steps import Steps
from rsmi.attacks.substitution import WordSubstitution
from rsmi.attacks.victim import Game, Victim
from rsmi.attacks.whitebox import GradientView, Loss, engine_of
from rsmi.attacks.words import Words
from rsmi.defense import Target
from rsmi.errors import ConfigError

_VIEWS: WeakKeyDictionary[Victim, GradientView] = WeakKeyDictionary()
"""One view a run, which all inputs of the run share, so that their questions are answered in full batches."""


class GradientGuided(Attack):
    """A word substitution that follows the gradient of the target, which must give its model away.

    Passes through the model that the attacker runs by itself are no queries: only what is asked of the target counts.

    Args:
        rules: The word attack, or its name, whose candidates, constraints and words left alone hold here, too, so that
            the texts found can be compared with its own. Its ranking and its search are not used.
        num_draws: Draws of a randomised target's masks and noise that losses and gradients are averaged over.
        loss: What is maximised.
        own_settings: See `Attack`.
        **settings: See `Attack`.
    """

    def __init__(
        self,
        *,
        rules: WordSubstitution | str,
        num_draws: int,
        loss: Loss,
        own_settings: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        require_positive(num_draws=num_draws)
        rules = _as_rules(rules)
        own = {"rules": rules.settings, "num_draws": num_draws, **(own_settings or {})}
        super().__init__(own_settings=own, resources=rules.resources, **settings)
        self.rules = rules
        self.num_draws = num_draws
        self.loss = loss

    def prepare(self, target: Target) -> None:
        """Refuse a target that does not give its model away."""
        engine_of(target)

    def view(self, victim: Victim) -> GradientView:
        """Return the model of a run."""
        if victim not in _VIEWS:
            _VIEWS[victim] = GradientView(engine_of(victim.target), self.loss)
        return _VIEWS[victim]

    def proposals(self, game: Game, current: Words) -> Steps[list[tuple[int, list[Option]]]]:
        """Return each place that may change with its candidates, on which no constraint was tried yet."""
        found = []
        for index in self.rules.free_places(game, current):
            word = current.words[index]
            words = yield from self.rules.candidates.options(current, index, game.key)
            if options := as_options([other for other in dict.fromkeys(words) if other != word]):
                found.append((index, options))
        return found

    def allowed(self, game: Game, current: Words, index: int, options: Sequence[Option]) -> Steps[list[Option]]:
        """Return the candidates that satisfy every constraint at a place of `current`."""
        kept = list(options)
        for constraint in self.rules.constraints:
            kept = yield from constraint.keep(game.original, current, index, kept)
        return kept


def _as_rules(rules: WordSubstitution | str) -> WordSubstitution:
    attack = make_attack(rules) if isinstance(rules, str) else rules
    if not isinstance(attack, WordSubstitution):
        raise ConfigError(f"rules: expected a word attack, such as textfooler or pwws, got {rules!r}")
    return attack


def require_positive(**counts: int) -> None:
    """Refuse counts below 1."""
    for name, value in counts.items():
        if value < 1:
            raise ConfigError(f"{name}: expected 1 or more, got {value}")
