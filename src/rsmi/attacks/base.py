"""`Attack`: checks, counts and re-scores; an attack itself writes only its search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, final

from rsmi.attacks.steps import Steps, ask, run_together
from rsmi.attacks.victim import Game, Victim
from rsmi.attacks.words import Words, words_changed
from rsmi.defense import Target
from rsmi.errors import ConfigError, LabelError
from rsmi.method.inputs import as_texts
from rsmi.records import AttackRecord, Label, TextInput
from rsmi.seeds import derive

TOGETHER = 16
"""Inputs attacked side by side: enough to fill the batches of a model on two cores."""


class Attack(ABC):
    """Searches for a text the target gets wrong.

    Args:
        max_queries: Most questions an input may cost, the first one included; None for no limit.
        fresh_draws: How often a success against a randomised target is asked about again under other draws.
        own_settings: What else a result depends on, for the record of the run.
        resources: Names of the lexicons and models used, for the report.
    """

    name: ClassVar[str]

    def __init__(
        self,
        *,
        max_queries: int | None = None,
        fresh_draws: int = 20,
        own_settings: Mapping[str, Any] | None = None,
        resources: Mapping[str, str] | None = None,
    ) -> None:
        if max_queries is not None and max_queries < 1:
            raise ConfigError(f"max_queries: expected 1 or more, or None, got {max_queries}")
        if fresh_draws < 0:
            raise ConfigError(f"fresh_draws: expected 0 or more, got {fresh_draws}")
        self.max_queries = max_queries
        self.fresh_draws = fresh_draws
        self.resources = dict(resources or {})
        shared = {"name": self.name, "max_queries": max_queries, "fresh_draws": fresh_draws}
        self.settings = {**shared, **(own_settings or {})}

    @final
    def __call__(self, target: Target, text: TextInput, label: Label, *, seed: int = 0) -> AttackRecord:
        """Attack one text, unless the target already gets it wrong."""
        ((_, record),) = self.run(target, [text], [label], seed=seed)
        return record

    @final
    def run(
        self,
        target: Target,
        texts: Sequence[TextInput],
        labels: Sequence[Label],
        *,
        seed: int = 0,
        together: int = TOGETHER,
        columns: tuple[str, ...] = (),
        only: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, AttackRecord]]:
        """Attack texts and yield each place with its record, as they are done (not in order).

        Args:
            target: What is attacked.
            texts: Texts or pairs.
            labels: Their true classes.
            seed: For the attack's own draws; a record depends on it and its own input, never on the other inputs.
            together: Inputs attacked side by side; the records are the same whatever it is, but for the last digits of
                scores, which depend on the shape of a batch.
            columns: Names of the two columns of a pair: attacks leave a `premise` alone.
            only: Places to attack; by default all.
        """
        if together < 1:
            raise ConfigError(f"together: expected 1 or more, got {together}")
        inputs = as_texts(texts)
        if len(inputs) != len(labels):
            raise LabelError(f"expected one label for each text, got {len(inputs)} texts but {len(labels)} labels")
        victim = Victim(target)
        golds = [victim.class_number(label, f"label {place}") for place, label in enumerate(labels)]
        self.prepare(target)
        places = range(len(inputs)) if only is None else only
        plays = (
            (
                place,
                self._play(
                    victim, inputs[place], golds[place], derive(seed, self.name, *_parts(inputs[place])), columns
                ),
            )
            for place in places
        )
        return run_together(plays, together)

    def prepare(self, target: Target) -> None:  # noqa: B027 - most attacks need nothing but answers
        """Get ready for a target; an attack that needs more than its answers checks here whether it offers that."""

    @abstractmethod
    def search(self, game: Game) -> Steps[TextInput]:
        """Return the best adversarial text found within the budget; `game.ask` is how to ask the victim."""

    def _play(
        self, victim: Victim, text: TextInput, gold: int, key: int, columns: tuple[str, ...]
    ) -> Steps[AttackRecord]:
        game = Game(victim, Words.of(text), gold, key, columns, self.max_queries)
        game.start = yield from game.ask([text])
        skipped = bool(game.start.wrong[0])
        found = text if skipped else (yield from self.search(game))
        found, end = yield from game.judge(found)  # an attack cannot claim a success it never asked about
        fooled = bool(end.wrong[0]) and not skipped
        draws = self.fresh_draws if fooled and victim.target.randomised else 0
        fresh = yield from ask(victim.fresh_scores, [(found, draw) for draw in range(1, draws + 1)])
        return AttackRecord(
            attack=self.name,
            original=text,
            adversarial=found,
            label=victim.classes[gold],
            outcome="skipped" if skipped else "succeeded" if fooled else "failed",
            label_before=victim.classes[game.start.winners[0]],
            label_after=victim.classes[end.winners[0]],
            gold_before=1 - float(game.start.loss[0]),
            gold_after=1 - float(end.loss[0]),
            queries=game.queries,
            budget_hit=game.over and not fooled,
            num_words=len(game.original),
            words_changed=words_changed(game.original, Words.of(found)),
            fresh_draws=draws,
            fresh_flips=sum(int(row.argmax()) != gold for row in fresh),
        )


def _parts(text: TextInput) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text
