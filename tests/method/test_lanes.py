"""Groups on several threads at a time: the same results, nothing left behind."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rsmi.config import RsmiConfig
from rsmi.method.inference import find_masks, infer
from rsmi.method.lanes import Lanes, each, open_lanes
from rsmi.method.tokens import by_length
from rsmi.method.voting import Ballot, collect_votes
from rsmi.seeds import derive
from tiny import some_texts

TEXTS = some_texts(24, 4, 14, seed=5)


@pytest.fixture
def two_threads():
    own = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(own)


@pytest.fixture
def narrow(monkeypatch, two_threads):
    """Lanes from the first tokens on, and a record of who ran what."""
    monkeypatch.setattr("rsmi.method.lanes._LEAST_TOKENS", 1)


def shared(t, value):
    return replace(t.encoder, stages=replace(t.encoder.stages, shared=value))


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra"])
def test_masks_and_votes_are_those_of_one_lane(family, tiny_of, narrow):
    t = tiny_of(family, 3)
    rows, config = t.rows(TEXTS), RsmiConfig(num_masks=2, num_candidates=4, saliency_samples=2)
    keys = [derive(i) for i in range(len(rows))]
    ballots = [Ballot(row, ((1,), (2,), ()), (key, key + 1, key + 2)) for row, key in zip(rows, keys, strict=True)]
    several = t.smoothed(token_budget=300)
    one = replace(several, encoder=shared(t, False))
    assert several.lanes(t.encoder, [len(row) for row in rows], 300).count == 2
    for own, other in zip(find_masks(several, config, rows, keys), find_masks(one, config, rows, keys), strict=True):
        assert (own.top, own.pool) == (other.top, other.pool)
        np.testing.assert_allclose(own.saliency, other.saliency, rtol=1e-3, atol=1e-6)
    for own, other in zip(collect_votes(several, ballots), collect_votes(one, ballots), strict=True):
        np.testing.assert_allclose(own.logits, other.logits, rtol=1e-3, atol=1e-4)
        assert own.ballots.tolist() == other.ballots.tolist()


def test_decisions_are_those_of_one_lane(tiny_of, narrow):
    t = tiny_of("bert")
    rows, config = t.rows(TEXTS), RsmiConfig(num_masks=1, second_votes=20)
    keys = [derive(i) for i in range(len(rows))]
    several = t.smoothed(token_budget=200)
    one = replace(several, encoder=shared(t, False))
    decisions = [infer(own, config, rows, keys) for own in (several, one)]
    for own, other in zip(*decisions, strict=True):
        assert own.decision.first_votes.tolist() == other.decision.first_votes.tolist()
        assert own.decision.winner == other.decision.winner


def test_a_model_in_training_mode_is_asked_without_dropout_and_left_as_it_was(tiny_of, narrow):
    t = tiny_of("bert")
    rows, config = t.rows(TEXTS), RsmiConfig(num_masks=2, num_candidates=4)
    keys = [derive(i) for i in range(len(rows))]
    expected = find_masks(t.smoothed(token_budget=300), config, rows, keys)
    t.model.train()
    try:
        found = find_masks(t.smoothed(token_budget=300), config, rows, keys)
        assert all(module.training for module in t.model.modules())
    finally:
        t.model.eval()
    assert [own.pool for own in found] == [own.pool for own in expected]


@given(
    lengths=st.lists(st.integers(1, 300), min_size=1, max_size=60),
    budget=st.integers(1, 3000),
    threads=st.integers(1, 64),
)
def test_groups_stay_within_the_budget_of_all_lanes_together(lengths, budget, threads):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch, "get_num_threads", lambda: threads)
        lanes = open_lanes(lengths, budget)
    assert lanes.count >= 1
    assert lanes.count * lanes.threads <= threads
    assert lanes.count * lanes.token_budget <= budget
    groups = list(by_length(lengths, lanes.token_budget))
    if lanes.count > 1:  # no row is too long for its share
        assert all(len(group) * max(lengths[i] for i in group) <= lanes.token_budget for group in groups)


def test_equal_rows_are_shared_out_evenly(two_threads):
    lanes = open_lanes([45] * 41, 2048)
    assert (lanes.count, lanes.threads) == (2, 1)
    assert [len(group) for group in by_length([45] * 41, lanes.token_budget)] == [21, 20]


def test_little_work_is_not_shared_out(two_threads):
    assert open_lanes([45] * 5, 2048) == Lanes(2048)
    assert open_lanes([], 2048) == Lanes(2048)


def test_results_come_in_order_from_threads_that_have_their_share(two_threads):
    before = torch.get_num_threads()
    seen = set()

    def ask(number):
        time.sleep(0.01 * (4 - number))
        seen.add((threading.current_thread().name, torch.get_num_threads()))
        return number

    assert each(ask, range(4), Lanes(100, 2, 1)) == [0, 1, 2, 3]
    assert {threads for _, threads in seen} == {1}
    assert len(seen) == 2
    assert torch.get_num_threads() == before
    later = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [before]


def test_an_error_is_raised_when_nothing_runs_any_more(two_threads):
    running = []

    def ask(number):
        if number == 0:
            raise ValueError("broken")
        running.append(number)
        time.sleep(0.1)
        running.remove(number)

    with pytest.raises(ValueError, match="broken"):
        each(ask, range(6), Lanes(100, 2, 1))
    assert running == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_opens_lanes_of_its_own(two_threads):
    each(abs, [1, 2], Lanes(100, 2, 1))
    child = os.fork()
    if child == 0:
        os._exit(0 if each(abs, [-1, -2], Lanes(100, 2, 1)) == [1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0
