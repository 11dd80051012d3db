"""HotFlip (Ebrahimi et al. 2018) on words: the gradient says which replacement hurts most, and few are asked about.

Unlike the paper: words come from a lexicon and keep the meaning, instead of any character or any nearby word embedding;
the gradient is that of the defended model, averaged over draws of its masks and noise; of the replacements that the
gradient finds best, the one with the highest loss averaged over the same draws is taken, not that of the best estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import numpy as np
from torch import Tensor

from rsmi.attacks.constraints import Option
from rsmi.attacks.guided import GradientGuided, require_positive
from rsmi.attacks.spelling import Spelling, token_places
from rsmi.attacks.steps import Steps, ask
from rsmi.attacks.substitution import WordSubstitution
from rsmi.attacks.victim import Array, Game
from rsmi.attacks.whitebox import GradientView, Loss, Margin, Question, Slope, cross_entropy
from rsmi.attacks.words import Words
from rsmi.errors import ConfigError
from rsmi.records import TextInput
from rsmi.seeds import derive

LossName = Literal["cross-entropy", "margin"]
_LOSSES: dict[LossName, Loss] = {"cross-entropy": cross_entropy, "margin": Margin(np.inf)}


@dataclass(frozen=True, slots=True)
class _Move:
    estimate: float
    """Gain of the loss, to first order."""
    index: int
    option: Option


@dataclass(frozen=True, slots=True)
class _State:
    words: Words
    loss: float
    """Averaged over the draws of the step that found it."""
    fooled: bool


class HotFlip(GradientGuided):
    """Replaces the word, by the word, that the gradient of the defended model says will raise its loss the most.

    In each step the `num_queried` most promising replacements of the whole text are asked about. Where none fools the
    target, the search goes on from those of highest expected loss; where none even raises that, the next most promising
    ones are asked about, until there are no more. No word is changed twice.

    A step costs one gradient for each text of the beam and one loss for each text asked about, each of `num_draws`
    passes, which are not counted as queries.

    Args:
        rules: The word attack, or its name, whose candidates, constraints and words left alone hold here, too.
        beam_width: Texts the search goes on from after each step; 1 is greedy.
        num_queried: Texts asked about at a time for each text of the beam.
        num_draws: Draws of a randomised target's masks and noise that losses and gradients are averaged over.
        loss: `cross-entropy` of the true class, or the `margin` in logits by which another class leads it.
        **settings: See `Attack`.
    """

    name = "hotflip"

    def __init__(
        self,
        *,
        rules: WordSubstitution | str = "textfooler",
        beam_width: int = 1,
        num_queried: int = 8,
        num_draws: int = 10,
        loss: LossName = "cross-entropy",
        **settings: Any,
    ) -> None:
        require_positive(beam_width=beam_width, num_queried=num_queried)
        if loss not in _LOSSES:
            raise ConfigError(f"loss: expected {' or '.join(_LOSSES)}, got {loss!r}")
        own = {"beam_width": beam_width, "num_queried": num_queried, "loss": loss}
        super().__init__(rules=rules, num_draws=num_draws, loss=_LOSSES[loss], own_settings=own, **settings)
        self.beam_width, self.num_queried = beam_width, num_queried

    def search(self, game: Game) -> Steps[TextInput]:
        """Climb the expected loss, one word a step."""
        view = self.view(game.victim)
        spelling = Spelling(view.encode)
        num_draws = self.num_draws if game.victim.target.randomised else 1
        beam = [game.original]
        for step in count():
            keys = tuple(derive(game.key, "draws", step, draw) for draw in range(num_draws))
            slopes = yield from ask(view.slopes, [Question(words.text, game.gold, keys) for words in beam])
            found: dict[str, _State] = {}
            for words, slope in zip(beam, slopes, strict=True):
                moves = yield from self._moves(game, view, spelling, words, slope)
                for state in (yield from self._followers(game, view, words, slope, moves, keys)):
                    if state.fooled:
                        return state.words.text
                    found[state.words.joined] = state
            if not found:
                break
            best = sorted(found.values(), key=lambda state: -state.loss)
            beam = [state.words for state in best[: self.beam_width]]
        return beam[0].text

    def _moves(
        self, game: Game, view: GradientView, spelling: Spelling, words: Words, slope: Slope
    ) -> Steps[list[_Move]]:
        """Return all replacements of one word, the most promising first."""
        (row,) = view.encode([words.text])
        places = token_places(row, words)
        gradient = slope.gradient.mean(0)
        moves = []
        for index, options in (yield from self.proposals(game, words)):
            own = places[index]
            if not own:  # beyond the tokens that the target reads
                continue
            spelled = spelling.tokens(words, index, [option.word for option in options])
            gains = first_order(view.embeddings, gradient[list(own)], [row.ids[place] for place in own], spelled)
            moves += [_Move(gain, index, option) for gain, option in zip(gains.tolist(), options, strict=True)]
        return sorted(moves, key=lambda move: (-move.estimate, move.index, move.option.word))

    def _followers(
        self,
        game: Game,
        view: GradientView,
        words: Words,
        slope: Slope,
        moves: Sequence[_Move],
        keys: tuple[int, ...],
    ) -> Steps[list[_State]]:
        """Return the texts one replacement away that raise the expected loss; of those that fool, the best alone."""
        before = float(slope.losses.mean())
        start = 0
        while start < len(moves) and not game.over:
            nexts: list[Words] = []
            while len(nexts) < self.num_queried and start < len(moves):
                stop = start + self.num_queried - len(nexts)
                nexts += yield from self._made(game, words, moves[start:stop])
                start = stop
            scores = yield from game.ask([other.text for other in nexts])
            asked = nexts[: len(scores)]
            losses = yield from ask(view.losses, [Question(other.text, game.gold, keys) for other in asked])
            states = [
                _State(other, float(values.mean()), bool(wrong))
                for other, values, wrong in zip(asked, losses, scores.wrong, strict=True)
            ]
            if fooling := [state for state in states if state.fooled]:
                return [max(fooling, key=lambda state: state.loss)]  # the likeliest to fool it under other draws, too
            if better := [state for state in states if state.loss > before]:
                return better
        return []

    def _made(self, game: Game, words: Words, moves: Sequence[_Move]) -> Steps[list[Words]]:
        """Return the texts that some moves lead to, as far as the constraints allow them."""
        made = []
        for index in dict.fromkeys(move.index for move in moves):
            options = [move.option for move in moves if move.index == index]
            for option in (yield from self.allowed(game, words, index, options)):
                made.append(words.with_word(index, option.word))
        return made


def first_order(table: Tensor, gradient: Tensor, own: Sequence[int], others: Sequence[Sequence[int]]) -> Array:
    """Return how much the loss grows, to first order, when the tokens of a word become those of another one.

    Token by token, where both have as many. Otherwise every token of the word is moved to the mean embedding of the
    other word's tokens. A replacement without tokens gains nothing.

    Args:
        table: Word embeddings, (vocabulary, width).
        gradient: Of the loss at the tokens of the word, (tokens, width).
        own: Ids of these tokens.
        others: Ids of each replacement's tokens.
    """
    ids = sorted({*own, *(token for other in others for token in other)})
    at = {token: place for place, token in enumerate(ids)}
    products = (table[ids].float() @ gradient.float().T).double().cpu().numpy()  # (ids, tokens of the word)
    before = sum(products[at[token], place] for place, token in enumerate(own))
    gains = np.zeros(len(others))
    for number, other in enumerate(others):
        if not other:
            continue
        rows = products[[at[token] for token in other]]
        after = np.trace(rows) if len(other) == len(own) else rows.mean(0).sum()
        gains[number] = after - before
    return gains
