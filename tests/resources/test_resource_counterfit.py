from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rsmi.errors import ConfigError
from rsmi.resources.counterfit import CounterfitConfig, counterfit, gradients, make_terms, objective


def unit_rows(count, width, seed=0):
    rows = np.random.default_rng(seed).standard_normal((count, width))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def drawn_pairs(words, count, seed):
    rng = np.random.default_rng(seed)
    return [tuple(words[int(k)] for k in rng.choice(len(words), 2, replace=False)) for _ in range(count)]


@pytest.fixture
def problem():
    """Words, vectors that have moved, and the three sums: some constraints are met, some are not."""
    words = [f"w{i}" for i in range(40)]
    start = unit_rows(40, 5)
    config = CounterfitConfig(repel_weight=0.3, attract_weight=0.2, attract_margin=0.4, radius=0.4)
    terms = make_terms(words, start, drawn_pairs(words, 60, 1), drawn_pairs(words, 50, 2), config)
    moved = start + 0.3 * unit_rows(40, 5, seed=3)
    return words, moved / np.linalg.norm(moved, axis=1, keepdims=True), terms


def test_the_gradient_is_that_of_the_objective(problem):
    _, unit, terms = problem
    gradient, _ = gradients(unit, terms)
    assert all(len(term.pairs) > 0 for term in terms)
    for i in range(0, 40, 3):
        for k in range(5):
            steps = []
            for sign in (1, -1):
                moved = unit.copy()
                moved[i, k] += sign * 1e-6
                steps.append(objective(moved / np.linalg.norm(moved, axis=1, keepdims=True), terms))
            assert (steps[0] - steps[1]) / 2e-6 == pytest.approx(gradient[i, k], abs=1e-7)


def test_the_gradient_is_that_of_autograd(problem):
    _, unit, terms = problem
    vectors = torch.tensor(unit, requires_grad=True)
    loss = torch.zeros((), dtype=torch.float64)
    for term in terms:
        first, second = torch.tensor(term.pairs.astype(np.int64)).T
        distances = 1 - torch.nn.functional.cosine_similarity(vectors[first], vectors[second])
        loss = loss + term.weight * (term.sign * (distances - torch.as_tensor(term.margin))).clamp(min=0).sum()
    loss.backward()
    assert loss.item() == pytest.approx(objective(unit, terms))
    assert np.allclose(vectors.grad.numpy(), gradients(unit, terms)[0], atol=1e-12)


def test_a_step_moves_each_word_by_the_mean_of_its_unmet_constraints():
    words = [f"w{i}" for i in range(30)]
    start = unit_rows(30, 4)
    synonyms, antonyms = drawn_pairs(words, 40, 1), drawn_pairs(words, 30, 2)
    config = CounterfitConfig(repel_weight=0.3, attract_weight=0.2, preserve_weight=0.1, radius=0.5, epochs=3)
    got = counterfit(words, start * 7, synonyms, antonyms, config)

    # the authors' loop over pairs, each pair in both directions
    index = {word: i for i, word in enumerate(words)}
    apart = {tuple(sorted((index[a], index[b]))) for a, b in antonyms}
    together = {tuple(sorted((index[a], index[b]))) for a, b in synonyms} - apart
    near = {(j, i): 1 - start[i] @ start[j] for i in range(30) for j in range(i) if 1 - start[i] @ start[j] < 0.5}
    assert apart & near.keys()
    near = {pair: distance for pair, distance in near.items() if pair not in apart}
    now = start.copy()
    for _ in range(3):
        moves = {i: [] for i in range(30)}
        for pairs, weight, unmet in (
            (apart, -0.3, lambda d, _: d < 1.0),
            (together, 0.2, lambda d, _: d > 0.0),
            (near, 0.1, lambda d, pair: d > near[pair]),
        ):
            for pair in pairs:
                for i, j in (pair, pair[::-1]):
                    cosine = now[i] @ now[j]
                    if unmet(1 - cosine, pair):
                        moves[i].append(-weight * (cosine * now[i] - now[j]))
        now = np.array([row + (np.mean(moves[i], axis=0) if moves[i] else 0) for i, row in enumerate(now)])
        now /= np.linalg.norm(now, axis=1, keepdims=True)
    assert len(near) > 20
    assert np.allclose(got, now, atol=1e-6)


def test_one_step_by_hand():
    # two synonyms at a right angle: the gradient of each is minus the other one, so a step of k2 = 0.5 moves
    # (1, 0) to (1, 0.5) and (0, 1) to (0.5, 1); scaled to length 1 their cosine is 2 * 0.5 / 1.25
    config = CounterfitConfig(attract_weight=0.5, epochs=1)
    got = counterfit(["a", "b"], np.eye(2), [("a", "b")], [], config)
    length = math.sqrt(1.25)
    assert np.allclose(got, [[1 / length, 0.5 / length], [0.5 / length, 1 / length]])
    assert got[0] @ got[1] == pytest.approx(0.8)


def test_synonyms_come_near_antonyms_go_past_the_margin_and_the_rest_stays():
    def at(degrees, depth=0.0):
        angle = math.radians(degrees)
        return [math.cos(angle), math.sin(angle), depth]

    words = ["cheap", "inexpensive", "expensive", "river", "stream", "lone"]
    vectors = np.array([at(0), at(80), at(-15), at(180, 0.2), at(183, 0.2), [0.0, 0.0, 1.0]])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    antonyms = [("cheap", "expensive"), ("expensive", "cheap")]
    got = counterfit(words, vectors, [("cheap", "inexpensive")], antonyms, CounterfitConfig(epochs=40))
    distance = 1 - got @ got.T
    before = 1 - vectors @ vectors.T
    assert before[0, 1] > 0.8
    assert distance[0, 1] < 0.2
    assert before[0, 2] < 0.04
    assert distance[0, 2] > 1.0  # the margin
    assert distance[3, 4] == pytest.approx(before[3, 4], abs=1e-6)
    assert np.allclose(got[5], vectors[5])


def test_neighbours_that_are_in_no_list_follow():
    words = ["film", "movie", "films"]
    vectors = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.99, 0.0, 0.14]])
    pulled = [("film", "movie")]
    kept = counterfit(words, vectors, pulled, [])
    alone = counterfit(words, vectors, pulled, [], CounterfitConfig(preserve_weight=0.0))
    assert kept[0] @ kept[2] > alone[0] @ alone[2] + 0.1


def test_a_pair_in_both_lists_counts_as_antonyms_and_unknown_words_are_left_out():
    words, vectors = ["a", "b", "c"], unit_rows(3, 4)
    pair = [("a", "b")]
    wanted = counterfit(words, vectors, [], pair)
    assert (counterfit(words, vectors, [*pair, ("b", "a"), ("a", "zzz"), ("c", "c")], pair) == wanted).all()


def test_the_result_is_the_same_each_time():
    words, vectors = [f"w{i}" for i in range(50)], unit_rows(50, 6)
    pairs = drawn_pairs(words, 80, 1), drawn_pairs(words, 20, 2)
    assert (counterfit(words, vectors, *pairs) == counterfit(words, vectors, *pairs)).all()


@pytest.mark.parametrize("name", ["repel_weight", "radius", "epochs"])
def test_settings_out_of_range_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name}: expected 0 or more, got -1"):
        CounterfitConfig(**{name: -1})
    with pytest.raises(ConfigError, match=f"{name}: expected 0 or more, got nan"):
        CounterfitConfig(**{name: math.nan})
