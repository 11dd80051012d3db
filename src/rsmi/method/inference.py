"""The whole of inference for a set of texts: saliency, masks, votes, decision, each stage batched over all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, TypeAlias

import numpy as np

from rsmi.config import RsmiConfig
from rsmi.memory import return_free_memory
from rsmi.method.decision import Array, Decision, decide, decide_sequentially, step_one_suffices
from rsmi.method.encoder import evaluating
from rsmi.method.lanes import each
from rsmi.method.masking import sample_positions, top_positions
from rsmi.method.noise import has_prefix
from rsmi.method.saliency import BACKWARD_COST, embedding_gradient
from rsmi.method.stopping import SequentialTest, VotesWanted, until_gate, until_won
from rsmi.method.tokens import Encoded, by_length, distinct
from rsmi.method.voting import Ballot, Prefixes, Smoothed, Votes, collect_votes
from rsmi.seeds import derive

_MakeBallot: TypeAlias = Callable[[int, str, Sequence[tuple[int, ...]], slice], Ballot]
_ROUND = 8  # votes a text still open asks for at a time under the sequential rule


@dataclass(frozen=True, slots=True)
class Masks:
    """Where a text may be masked."""

    saliency: Array
    """(tokens,); zeros where masks do not follow the gradient."""
    top: tuple[int, ...]
    """Masked in every copy of step one; empty where each copy draws its own mask."""
    pool: tuple[int, ...]
    """Positions that random masks are drawn from."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The decision about a text and the masks behind it."""

    decision: Decision
    masks: Masks


Detail: TypeAlias = Literal["label", "probabilities", "votes"]
"""What an outcome must tell. The less, the fewer copies need voting: those are left out that could not change it."""

Redraw: TypeAlias = Callable[[int, Sequence[int]], Sequence[Encoded]]
"""(place of a row, keys of its copies) -> one row a copy, its words replaced at random."""


def is_random(config: RsmiConfig) -> bool:
    """Whether answers under these settings depend on random draws."""
    draws_masks = config.masking == "random" or (config.masking == "gradient" and config.two_step)
    return draws_masks or config.draws_words or config.noise_std > 0 or config.embedding_noise_std > 0


def infer(
    smoothed: Smoothed,
    config: RsmiConfig,
    rows: Sequence[Encoded],
    keys: Sequence[int],
    redraw: Redraw | None = None,
    detail: Detail = "votes",
) -> list[Outcome]:
    """Decide about every row. A row's outcome depends on its own key only, not on the rows around it.

    The winner is the same whatever the detail; below `votes` some of the votes, below `probabilities` their shares, are
    those of fewer copies.
    """
    places, which = distinct((row.identity, key) for row, key in zip(rows, keys, strict=True))
    if redraw is None and len(places) < len(rows):  # equal ones agree to the last bit
        found = infer(smoothed, config, [rows[i] for i in places], [keys[i] for i in places], None, detail)
        return [found[number] for number in which]
    masks = find_masks(smoothed, config, rows, keys)

    def ballot(place: int, step: str, wanted: Sequence[tuple[int, ...]], part: slice) -> Ballot:
        copies = tuple(derive(keys[place], step, copy) for copy in range(part.start, part.stop))
        drawn = () if redraw is None else tuple(redraw(place, copies))
        return Ballot(rows[place], tuple(wanted[part]), copies, drawn)

    if config.stop == "sequential":
        decisions = _decide_sequentially(smoothed, config, ballot, keys, masks)
    else:
        decisions = _decide_in_two_steps(smoothed, config, ballot, keys, masks, detail)
    return [Outcome(decision, own) for decision, own in zip(decisions, masks, strict=True)]


def find_masks(smoothed: Smoothed, config: RsmiConfig, rows: Sequence[Encoded], keys: Sequence[int]) -> list[Masks]:
    """Find where each row may be masked: at its most salient tokens, anywhere, or nowhere."""
    if config.masking != "gradient":
        pools = [row.maskable_positions if config.masking == "random" else () for row in rows]
        return [Masks(np.zeros(len(row)), (), pool) for row, pool in zip(rows, pools, strict=True)]
    lengths = [len(row) * config.saliency_samples for row in rows]
    lanes = smoothed.lanes(smoothed.encoder, lengths, max(1, smoothed.token_budget // BACKWARD_COST))
    groups = list(by_length(lengths, lanes.token_budget))

    def salient(group: Sequence[int]) -> list[Masks]:
        return _salient(smoothed, config, [rows[i] for i in group], [keys[i] for i in group])

    with evaluating(smoothed.encoder.model):  # before the lanes: none may switch what others are running
        found = dict(zip(chain(*groups), chain(*each(salient, groups, lanes)), strict=True))
    return [found[i] for i in range(len(rows))]


def _salient(smoothed: Smoothed, config: RsmiConfig, rows: Sequence[Encoded], keys: Sequence[int]) -> list[Masks]:
    batch, samples = smoothed.batch(rows), config.saliency_samples
    draws = [derive(key, "saliency", draw) for key in keys for draw in range(samples)]
    source = smoothed.source(draws, batch.repeat(samples).lengths)
    gradient = embedding_gradient(smoothed.encoder, smoothed.plan, batch, source, samples)
    saliency = gradient.saliency(batch.maskable)
    pools = top_positions(saliency, batch.maskable, config.num_candidates)
    values = saliency.double().cpu().numpy()
    return_free_memory()
    return [
        Masks(own[: len(row)], pool[: config.num_masks], pool)
        for row, own, pool in zip(rows, values, pools, strict=True)
    ]


def _decide_in_two_steps(
    smoothed: Smoothed,
    config: RsmiConfig,
    ballot: _MakeBallot,
    keys: Sequence[int],
    masks: Sequence[Masks],
    detail: Detail,
) -> list[Decision]:
    first_masks = {i: _first_masks(config, own, key) for i, (key, own) in enumerate(zip(keys, masks, strict=True))}
    lengths = [len(own.saliency) for own in masks]
    first = _vote(smoothed, config, ballot, "first", first_masks, lengths, _step_one(config, detail))
    undecided = [
        i
        for i, votes in first.items()
        if config.two_step and not step_one_suffices(votes, config.first_votes, config.stop_confidence)
    ]
    second_masks = {i: _drawn_masks(config, masks[i], keys[i], "second", config.second_votes) for i in undecided}
    last_step = _last_step(config, config.second_votes, detail)
    second = _vote(smoothed, config, ballot, "second", second_masks, lengths, last_step)
    return [decide(first[i], second.get(i), config.aggregation) for i in range(len(keys))]


def _step_one(config: RsmiConfig, detail: Detail) -> VotesWanted:
    if not config.two_step:
        return _last_step(config, config.first_votes, detail)
    if detail == "votes":
        return lambda counts: config.first_votes - sum(counts)
    winner_only = detail == "label" and config.aggregation == "vote"
    return lambda counts: until_gate(counts, config.first_votes, config.stop_confidence, winner_only)


def _last_step(config: RsmiConfig, votes: int, detail: Detail) -> VotesWanted:
    if detail == "label" and config.aggregation == "vote":
        return lambda counts: until_won(counts, votes)
    return lambda counts: votes - sum(counts)


def _prefixes(smoothed: Smoothed, config: RsmiConfig) -> Prefixes | None:
    """Return what remembers the states of rows, unless every copy is a row of its own."""
    return Prefixes(smoothed) if has_prefix(smoothed.encoder, smoothed.plan) and not config.draws_words else None


def _vote(
    smoothed: Smoothed,
    config: RsmiConfig,
    ballot: _MakeBallot,
    step: str,
    masks: Mapping[int, Sequence[tuple[int, ...]]],
    lengths: Sequence[int],
    wanted: VotesWanted,
) -> dict[int, Votes]:
    """Let the copies of every text vote until no further one is wanted.

    A round may ask for more than that; what comes after the last vote wanted is not looked at.
    """
    none = [0] * int(smoothed.encoder.model.config.num_labels)
    votes: dict[int, Votes] = {}
    asking = dict.fromkeys(masks, wanted(none))
    prefixes = _prefixes(smoothed, config) if any(asking[i] < len(masks[i]) for i in asking) else None
    while asking:
        starts = {i: len(votes[i].logits) if i in votes else 0 for i in asking}
        least = smoothed.least_copies(sum(lengths[i] for i in asking))
        stops = {i: min(starts[i] + max(asking[i], least), len(masks[i])) for i in asking}
        parts = [ballot(i, step, masks[i], slice(starts[i], stops[i])) for i in asking]
        for i, answer in zip(asking, collect_votes(smoothed, parts, prefixes), strict=True):
            votes[i] = _cut(votes[i].followed_by(answer) if i in votes else answer, starts[i], wanted)
        asking = {i: more for i in asking if (more := wanted(votes[i].counts.tolist())) > 0}
    return votes


def _cut(votes: Votes, known: int, wanted: VotesWanted) -> Votes:
    """Leave out votes after the one that made further ones unnecessary, looking from vote `known` on."""
    counts = votes.first(known).counts.tolist()
    for number, choice in enumerate(votes.ballots[known:].tolist(), start=known + 1):
        counts[choice] += 1
        if wanted(counts) == 0:
            return votes.first(number)
    return votes


def _decide_sequentially(
    smoothed: Smoothed, config: RsmiConfig, ballot: _MakeBallot, keys: Sequence[int], masks: Sequence[Masks]
) -> list[Decision]:
    """Vote until the test is done. Every copy draws its mask anew, since the test needs votes of one distribution."""
    num_classes = int(smoothed.encoder.model.config.num_labels)
    cap, error = config.first_votes + config.second_votes, 1 - config.stop_confidence
    tests = [SequentialTest(num_classes, error, cap) for _ in keys]
    drawn_masks = [_drawn_masks(config, own, key, "sequential", cap) for key, own in zip(keys, masks, strict=True)]
    drawn, wanted = 0, SequentialTest.first_chance(num_classes, error, cap)
    prefixes = _prefixes(smoothed, config)
    while undecided := [i for i, test in enumerate(tests) if not test.done]:
        least = smoothed.least_copies(sum(len(masks[i].saliency) for i in undecided))
        part = slice(drawn, min(cap, drawn + max(wanted, least)))
        votes = collect_votes(smoothed, [ballot(i, "sequential", drawn_masks[i], part) for i in undecided], prefixes)
        for i, own in zip(undecided, votes, strict=True):
            tests[i].count(own.ballots.tolist())
        drawn, wanted = part.stop, _ROUND
    return [decide_sequentially(test) for test in tests]


def _first_masks(config: RsmiConfig, masks: Masks, key: int) -> list[tuple[int, ...]]:
    if config.masking == "gradient":
        return [masks.top] * config.first_votes
    return _drawn_masks(config, masks, key, "first", config.first_votes)


def _drawn_masks(config: RsmiConfig, masks: Masks, key: int, step: str, copies: int) -> list[tuple[int, ...]]:
    return sample_positions(masks.pool, config.num_masks, copies, derive(key, step, "masks"))
