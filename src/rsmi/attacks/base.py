"""`Attack`: checks, counts and re-scores; an attack itself writes only its search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, final

from rsmi.attacks.steps import Steps, ask, run_together
from rsmi.attacks.victim import Game, Scores, Victim, ask_each
from rsmi.attacks.words import Words, words_changed
from rsmi.defense import Target
from rsmi.errors import ConfigError, LabelError
from rsmi.method.inputs import as_texts
from rsmi.records import AttackRecord, Label, TextInput
from rsmi.seeds import derive

TOGETHER = 16
"""Inputs attacked side by side: enough to fill the batches of a model on two cores."""
FRESH = 1_000_000
"""Draws from this number on are kept for asking again about what was found."""
_TRY = 10_000
"""Draws that a try may use before those of the next one."""


class Redrawn:
    """A target whose draws are counted from another number on."""

    def __init__(self, target: Target, first_draw: int) -> None:
        self.target, self.first_draw = target, first_draw
        self.classes_, self.randomised, self.uses_gradients = target.classes_, target.randomised, target.uses_gradients
        self.redraws = bool(getattr(target, "redraws", False))

    def query(self, texts: Sequence[TextInput], draw: int = 0) -> Any:
        """Ask the target under its own number of the draw."""
        return self.target.query(texts, self.first_draw + draw)

    def query_each(self, texts: Sequence[TextInput], draws: Sequence[int]) -> Any:
        """Ask the same, each text under a draw of its own."""
        return ask_each(self.target, texts, [self.first_draw + draw for draw in draws])

    def engine(self, draw: int = 0) -> Any:
        """Return the model behind the target, for attacks that differentiate it."""
        return self.target.engine(self.first_draw + draw) if hasattr(self.target, "engine") else None


class Attack(ABC):
    """Searches for a text the target gets wrong.

    Args:
        max_queries: Most questions an input may cost, the first one included; None for no limit.
        fresh_draws: How often a success against a randomised target is asked about again under other draws.
        tries: How often an input that withstood is attacked again, each time under other draws of a randomised target.
        own_settings: What else a result depends on, for the record of the run.
        resources: Names of the lexicons and models used, for the report.
    """

    name: ClassVar[str]

    def __init__(
        self,
        *,
        max_queries: int | None = None,
        fresh_draws: int = 20,
        tries: int = 1,
        own_settings: Mapping[str, Any] | None = None,
        resources: Mapping[str, str] | None = None,
    ) -> None:
        if max_queries is not None and max_queries < 1:
            raise ConfigError(f"max_queries: expected 1 or more, or None, got {max_queries}")
        if fresh_draws < 0:
            raise ConfigError(f"fresh_draws: expected 0 or more, got {fresh_draws}")
        if tries < 1:
            raise ConfigError(f"tries: expected 1 or more, got {tries}")
        self.max_queries = max_queries
        self.fresh_draws = fresh_draws
        self.tries = tries
        self.resources = dict(resources or {})
        shared = {"name": self.name, "max_queries": max_queries, "fresh_draws": fresh_draws, "tries": tries}
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
        deployed: Target | None = None,
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
            deployed: What is asked again about a success, where the attacker sees it through something else.
        """
        if together < 1:
            raise ConfigError(f"together: expected 1 or more, got {together}")
        inputs = as_texts(texts)
        if len(inputs) != len(labels):
            raise LabelError(f"expected one label for each text, got {len(inputs)} texts but {len(labels)} labels")
        tries = self.tries if target.randomised else 1  # another try would end in the same way
        victims = [Victim(Redrawn(target, number * _TRY) if number else target) for number in range(tries)]
        judge = Victim(Redrawn(target if deployed is None else deployed, FRESH))
        golds = [victims[0].class_number(label, f"label {place}") for place, label in enumerate(labels)]
        self.prepare(target)
        places = range(len(inputs)) if only is None else only
        plays = (
            (
                place,
                self._play(
                    victims,
                    judge,
                    inputs[place],
                    golds[place],
                    self._key(seed, inputs[place]),
                    columns,
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

    def _key(self, seed: int, text: TextInput) -> int:
        return derive(seed, self.name, *((text,) if isinstance(text, str) else text))

    def _play(
        self,
        victims: Sequence[Victim],
        judge: Victim,
        text: TextInput,
        gold: int,
        key: int,
        columns: tuple[str, ...],
    ) -> Steps[AttackRecord]:
        first, queries = Scores.none(), 0
        for attempt, victim in enumerate(victims):
            budget = None if self.max_queries is None else self.max_queries - queries
            game = Game(victim, Words.of(text), gold, derive(key, attempt) if attempt else key, columns, budget)
            game.start = yield from game.ask([text])
            first = game.start if attempt == 0 else first
            wrong = bool(game.start.wrong[0])
            found = text if wrong else (yield from self.search(game))
            found, end = yield from game.judge(found)  # an attack cannot claim a success it never asked about
            queries += game.queries
            if end.wrong[0] or (self.max_queries is not None and queries >= self.max_queries):
                break
        skipped = bool(first.wrong[0])
        fooled = bool(end.wrong[0]) and not skipped
        draws = self.fresh_draws if fooled and judge.target.randomised else 0
        fresh = yield from ask(judge.drawn_scores, [(found, draw) for draw in range(draws)])
        return AttackRecord(
            attack=self.name,
            original=text,
            adversarial=found,
            label=victim.classes[gold],
            outcome="skipped" if skipped else "succeeded" if fooled else "failed",
            label_before=victim.classes[first.winners[0]],
            label_after=victim.classes[end.winners[0]],
            gold_before=1 - float(first.loss[0]),
            gold_after=1 - float(end.loss[0]),
            queries=queries,
            budget_hit=game.over and not fooled,
            num_words=len(game.original),
            words_changed=words_changed(game.original, Words.of(found)),
            fresh_draws=draws,
            fresh_flips=sum(int(row.argmax()) != gold for row in fresh),
            confidence_before=float(first.confidence[0]),
            tries=attempt + 1,
        )
