"""GBDA (Guo et al. 2021): a distribution over texts, made adversarial by gradient descent, then drawn from.

Unlike the paper: the options of a place are its word and what the lexicon and the constraints allow there, instead of
the whole vocabulary, so that results are substitutions comparable with other word attacks; only replacements of as many
tokens as the word are used, so that relaxed and real texts line up; the penalty is the expected share of words changed
instead of BERTScore and perplexity; the loss is that of the defended model, under another draw of its masks and noise
for every sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rsmi.attacks.constraints import as_options
from rsmi.attacks.guided import GradientGuided, require_positive
from rsmi.attacks.spelling import Spelling, token_places
from rsmi.attacks.steps import Steps, ask
from rsmi.attacks.substitution import WordSubstitution
from rsmi.attacks.victim import Game
from rsmi.attacks.whitebox import GradientView, Margin, Question
from rsmi.attacks.words import Words
from rsmi.errors import ConfigError
from rsmi.method.tokens import Encoded
from rsmi.records import TextInput
from rsmi.seeds import derive, generator

_START = 0.9  # probability of a place's own word at first; the paper's initial weight of 15 comes to 0.99
_ASKED_TOGETHER = 8  # texts asked about before looking whether one fooled the target
_TINY = 1e-20  # Gumbel noise of a uniform draw of exactly 0 would be infinite


@dataclass(frozen=True, slots=True)
class Slot:
    """A word that may change."""

    index: int
    """Its place among the words."""
    words: tuple[str, ...]
    """Itself, then what may stand there."""
    places: tuple[int, ...]
    """Its places among the tokens."""
    spelled: tuple[tuple[int, ...], ...]
    """Ids of each word's tokens, as many as `places`."""


class Relaxation:
    """Log-probabilities of the words of each slot -> relaxed texts, as shifts of the original's word embeddings.

    Args:
        slots: What may change.
        table: Word embeddings, (vocabulary, width).
        num_tokens: Tokens of the text.
        num_words: Words of the text.
        penalty: Weight of the expected share of words changed.
        learning_rate: Of Adam.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        table: Tensor,
        num_tokens: int,
        num_words: int,
        penalty: float,
        learning_rate: float,
    ) -> None:
        self._num_tokens, self._num_words, self._penalty = num_tokens, num_words, penalty
        device, widest = table.device, max(len(slot.words) for slot in slots)
        ids = [[word[place] for word in slot.spelled] for slot in slots for place in range(len(slot.places))]
        with torch.inference_mode(False):  # a caller's inference mode would forbid gradients
            sizes = torch.tensor([len(slot.words) for slot in slots], device=device)
            self._absent = torch.arange(widest, device=device) >= sizes.unsqueeze(1)  # (slots, words)
            padded = torch.tensor([[*row, *[row[0]] * (widest - len(row))] for row in ids], device=device)
            embeddings = table[padded].float()
            self._moves = embeddings - embeddings[:, :1]  # (tokens that may change, words, width); 0 for the own word
            self._slot_of = torch.tensor([i for i, slot in enumerate(slots) for _ in slot.places], device=device)
            self._places = torch.tensor([place for slot in slots for place in slot.places], device=device)
            weights = torch.zeros(self._absent.shape, device=device)
            weights[:, 0] = (_START / (1 - _START) * (sizes - 1)).log()
            self._weights = weights.requires_grad_()
            self._adam = torch.optim.Adam([self._weights], lr=learning_rate)

    def probabilities(self) -> Tensor:
        """Return the distribution of each slot, (slots, words)."""
        return self._masked().softmax(-1)

    def sample(self, num_samples: int, rng: torch.Generator) -> Tensor:
        """Return relaxed texts, (samples, tokens, width), drawn by the Gumbel-softmax at temperature 1."""
        with torch.inference_mode(False), torch.enable_grad():
            uniform = torch.rand((num_samples, *self._absent.shape), generator=rng).to(self._weights)
            gumbel = -(-(uniform + _TINY).log() + _TINY).log()
            soft = (self._masked() + gumbel).softmax(-1)[:, self._slot_of]  # (samples, tokens that may change, words)
            moved = torch.einsum("stw,twd->std", soft, self._moves)
            shift = moved.new_zeros(num_samples, self._num_tokens, moved.shape[-1])
            return shift.index_add(1, self._places, moved)

    def ascend(self, shift: Tensor, gradient: Tensor) -> None:
        """Take a step towards a higher loss, averaged over the samples, and fewer changed words.

        Args:
            shift: What `sample` returned.
            gradient: Of each sample's loss at it.
        """
        with torch.inference_mode(False), torch.enable_grad():
            changed = (1 - self.probabilities()[:, 0]).sum() / self._num_words
            gain = (shift * gradient.to(shift)).sum() / len(shift)
            (self._weights.grad,) = torch.autograd.grad(self._penalty * changed - gain, self._weights)
            self._adam.step()

    def choices(self, num_samples: int, rng: torch.Generator) -> list[tuple[int, ...]]:
        """Draw a word for each slot; the likeliest choice is one of the draws.

        Returns:
            The distinct draws that change something, those with the fewest changes first.
        """
        with torch.no_grad():
            probabilities = self.probabilities().cpu()
        cumulated = probabilities.cumsum(-1)
        uniform = torch.rand((num_samples - 1, len(probabilities), 1), generator=rng) * cumulated[:, -1:]
        drawn = (cumulated <= uniform).sum(-1).tolist()
        distinct = dict.fromkeys([tuple(probabilities.argmax(-1).tolist()), *map(tuple, drawn)])
        return sorted((own for own in distinct if any(own)), key=lambda own: sum(word > 0 for word in own))

    def _masked(self) -> Tensor:
        return self._weights.masked_fill(self._absent, -torch.inf)


class GBDA(GradientGuided):
    """Descends on a distribution over words for every place at once, then asks about texts drawn from it.

    The texts drawn are asked about in order of their changed words, a few at a time, until one fools the target. Each
    replacement in them satisfied the constraints when it was put in, from left to right; one that did not is left out.

    The descent costs `num_steps` gradients of `num_draws` passes, which are not counted as queries.

    Args:
        rules: The word attack, or its name, whose candidates, constraints and words left alone hold here, too.
        num_steps: Steps of Adam (the paper: 100, from a distribution that starts further away).
        num_draws: Relaxed texts in each step, each under a draw of its own of the target's masks and noise.
        num_samples: Texts drawn from the final distribution, the most that are asked about.
        kappa: Lead of a wrong class, in logits, beyond which nothing more is gained.
        penalty: Weight of the expected share of words changed, against the lead in logits.
        learning_rate: Of Adam.
        **settings: See `Attack`.
    """

    name = "gbda"

    def __init__(
        self,
        *,
        rules: WordSubstitution | str = "textfooler",
        num_steps: int = 50,
        num_draws: int = 10,
        num_samples: int = 100,
        kappa: float = 5.0,
        penalty: float = 1.0,
        learning_rate: float = 0.3,
        **settings: Any,
    ) -> None:
        require_positive(num_steps=num_steps, num_samples=num_samples)
        if not (kappa >= 0 and penalty >= 0 and learning_rate > 0):
            got = f"{kappa}, {penalty} and {learning_rate}"
            raise ConfigError(f"expected kappa and penalty of 0 or more and a positive learning_rate, got {got}")
        own = {
            "num_steps": num_steps,
            "num_samples": num_samples,
            "kappa": kappa,
            "penalty": penalty,
            "learning_rate": learning_rate,
        }
        super().__init__(rules=rules, num_draws=num_draws, loss=Margin(kappa), own_settings=own, **settings)
        self.num_steps, self.num_samples = num_steps, num_samples
        self.penalty, self.learning_rate = penalty, learning_rate

    def search(self, game: Game) -> Steps[TextInput]:
        """Descend, draw, ask."""
        view = self.view(game.victim)
        (row,) = view.encode([game.original.text])
        slots = yield from self._slots(game, view, row)
        if not slots:
            return game.original.text
        relaxed = Relaxation(slots, view.embeddings, len(row), len(game.original), self.penalty, self.learning_rate)
        for step in range(self.num_steps):
            shift = relaxed.sample(self.num_draws, generator(derive(game.key, "gumbel", step)))
            keys = tuple(derive(game.key, "draws", step, draw) for draw in range(self.num_draws))
            question = Question(game.original.text, game.gold, keys, shift.detach())
            (slope,) = yield from ask(view.slopes, [question])
            relaxed.ascend(shift, slope.gradient)
        drawn = relaxed.choices(self.num_samples, generator(derive(game.key, "samples")))
        return (yield from self._best(game, slots, drawn))

    def _slots(self, game: Game, view: GradientView, row: Encoded) -> Steps[list[Slot]]:
        """Return the words that the target reads and that may change, with replacements of as many tokens."""
        spelling = Spelling(view.encode)
        places = token_places(row, game.original)
        slots = []
        for index, options in (yield from self.proposals(game, game.original)):
            word, own = game.original.words[index], tuple(row.ids[place] for place in places[index])
            spelled = spelling.tokens(game.original, index, [option.word for option in options])
            fitting = {
                option.word: ids
                for option, ids in zip(options, spelled, strict=True)
                if own and len(ids) == len(own) and len(option.pieces) == 1
            }
            kept = yield from self.allowed(game, game.original, index, as_options(list(fitting)))
            if kept:
                words = tuple(option.word for option in kept)
                slots.append(Slot(index, (word, *words), places[index], (own, *(fitting[other] for other in words))))
        return slots

    def _best(self, game: Game, slots: Sequence[Slot], drawn: Sequence[tuple[int, ...]]) -> Steps[TextInput]:
        """Return the first text in the order drawn that fools the target, else the one that came nearest."""
        nearest, highest = game.original, game.start.loss[0]
        seen = {game.original.joined}
        for start in range(0, len(drawn), _ASKED_TOGETHER):
            made: list[Words] = []
            for chosen in drawn[start : start + _ASKED_TOGETHER]:
                words = yield from self._put(game, slots, chosen)
                if words.joined not in seen:  # constraints may make two draws the same
                    made.append(words)
                    seen.add(words.joined)
            made.sort(key=lambda words: len(words.modified))
            scores = yield from game.ask([words.text for words in made])
            fooling = [words for words, wrong in zip(made, scores.wrong, strict=False) if wrong]
            if fooling:
                return fooling[0].text
            if len(scores) and scores.loss.max() > highest:
                nearest, highest = made[int(np.argmax(scores.loss))], scores.loss.max()
            if game.over:
                break
        return nearest.text

    def _put(self, game: Game, slots: Sequence[Slot], chosen: Sequence[int]) -> Steps[Words]:
        """Put the chosen words in, from left to right, as far as the constraints allow it."""
        words = game.original
        for slot, number in zip(slots, chosen, strict=True):
            if number > 0:
                options = as_options([slot.words[number]])
                for option in (yield from self.allowed(game, words, slot.index, options)):
                    words = words.with_word(slot.index, option.word)
        return words
