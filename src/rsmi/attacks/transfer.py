"""An attack on a stand-in for the target, whose finds are then shown to the target itself."""

from __future__ import annotations

from rsmi.attacks.base import Attack
from rsmi.attacks.steps import Steps
from rsmi.attacks.victim import Game, Victim
from rsmi.defense import Target
from rsmi.errors import LabelError
from rsmi.records import TextInput


class Transfer(Attack):
    """Searches on a surrogate that is easier to attack. The record counts the questions to the target alone.

    Args:
        inner: The attack on the surrogate.
        surrogate: What it attacks: a target with the same classes.
    """

    def __init__(self, inner: Attack, surrogate: Target) -> None:
        self.name = inner.name  # type: ignore[misc]
        super().__init__(
            max_queries=inner.max_queries,
            fresh_draws=inner.fresh_draws,
            own_settings={**inner.settings, "transfer": True},
            resources=inner.resources,
        )
        self.inner = inner
        self._victim = Victim(surrogate)

    def prepare(self, target: Target) -> None:
        """Check that both have the same classes."""
        if self._victim.classes != tuple(target.classes_.tolist()):
            raise LabelError(
                f"expected a surrogate with the target's classes {target.classes_.tolist()}, got one with "
                f"{list(self._victim.classes)}"
            )
        self.inner.prepare(self._victim.target)

    def search(self, game: Game) -> Steps[TextInput]:
        """Return what fools the surrogate, or came nearest to it."""
        own = Game(self._victim, game.original, game.gold, game.key, game.columns, self.max_queries)
        own.start = yield from own.ask([game.original.text])
        return game.original.text if own.start.wrong[0] else (yield from self.inner.search(own))
