"""The library against the paper's Algorithm 1 written out naively: one padded copy at a time, plain autograd."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from scipy.stats import binom, chi2_contingency
from torch.nn.functional import cross_entropy

from rsmi.config import RsmiConfig
from rsmi.method.inference import infer
from rsmi.method.noise import row_noise
from rsmi.seeds import derive
from tiny import Tiny, some_texts

FAMILIES = ("bert", "roberta", "t5")
NOISE_LAYERS, MAX_LENGTH, RUNS = (0, 1), 14, 400
STD = {"bert": 0.35, "roberta": 0.35, "t5": 0.8}
CONFIG = RsmiConfig(noise_layers=NOISE_LAYERS, num_masks=2, num_candidates=5, first_votes=5, second_votes=5)
REJECT = 1e-4
"""Below this p-value two samples are called different; some fifty comparisons are made."""


class Naive:
    """RSMI's prediction as the paper lists it, with the choices of "Ours" in the table of ambiguities."""

    def __init__(self, t: Tiny, std: float, seed: int) -> None:
        self.tokenizer, self.model, self.std = t.tokenizer, t.model, std
        self.random = np.random.default_rng(seed)
        self.torch_random = torch.Generator().manual_seed(seed)
        if t.family == "t5":
            stack = t.model.transformer
            self.layers, self.tables = stack.encoder.block, [stack.encoder.embed_tokens, stack.decoder.embed_tokens]
            self.mask_id = t.tokenizer.convert_tokens_to_ids("<extra_id_0>")
        else:
            body = getattr(t.model, t.family)
            self.layers, self.tables = body.encoder.layer, [body.embeddings.word_embeddings]
            self.mask_id = t.tokenizer.mask_token_id

    def forward(self, ids, attention, given_noise=None):
        handles = []
        for number in NOISE_LAYERS:

            def add(_layer, _args, output, number=number):
                hidden = output[0] if isinstance(output, tuple) else output
                if given_noise is None:
                    noise = torch.randn(hidden.shape, generator=self.torch_random)
                else:
                    noise = given_noise(number, hidden.shape)
                hidden = hidden + self.std * noise
                return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

            handles.append(self.layers[number].register_forward_hook(add))
        logits = self.model(input_ids=ids, attention_mask=attention).logits
        for handle in handles:
            handle.remove()
        return logits

    def saliency(self, ids, attention, given_noise=None):
        """Norm of the gradient of the loss of the predicted class at every word embedding."""
        words = self.tables[0](ids).detach().requires_grad_()
        given = [words]
        if len(self.tables) == 2:  # the decoder reads the start token, then the same words one place later
            start = self.tables[1](torch.zeros_like(ids[:, :1])).detach()
            given.append(torch.cat([start, words[:, :-1]], 1))
        handles = [
            table.register_forward_hook(lambda _t, _a, _o, value=value: value)
            for table, value in zip(self.tables, given, strict=True)
        ]
        logits = self.forward(ids, attention, given_noise)
        for handle in handles:
            handle.remove()
        self.model.zero_grad()
        cross_entropy(logits, logits.argmax(-1)).backward()
        self.model.zero_grad()
        return words.grad[0].norm(dim=-1).numpy()

    def candidates(self, text, given_noise=None):
        inputs = self.tokenizer(text, padding="max_length", max_length=MAX_LENGTH, truncation=True, return_tensors="pt")
        ids, attention = inputs["input_ids"], inputs["attention_mask"]
        saliency = self.saliency(ids, attention, given_noise)
        specials = set(self.tokenizer.all_special_ids)
        free = [i for i, token in enumerate(ids[0].tolist()) if token not in specials]
        ranked = sorted(free, key=lambda i: -saliency[i])
        return ids, attention, ranked[: CONFIG.num_candidates]

    def vote(self, ids, attention, positions):
        masked = ids.clone()
        for position in positions:
            masked[0, position] = self.mask_id
        with torch.inference_mode():
            return int(self.forward(masked, attention).argmax())

    def predict(self, text):
        """-> (class, votes of step one, votes of step two or None)."""
        ids, attention, top = self.candidates(text)
        first = np.zeros(2, dtype=int)
        for _ in range(CONFIG.first_votes):
            first[self.vote(ids, attention, top[: CONFIG.num_masks])] += 1
        if binom.cdf(first.max(), CONFIG.first_votes, 0.5) >= CONFIG.stop_confidence:
            return int(first.argmax()), first, None
        second = np.zeros(2, dtype=int)
        for _ in range(CONFIG.second_votes):
            masks = self.random.choice(top, min(CONFIG.num_masks, len(top)), replace=False)
            second[self.vote(ids, attention, masks.tolist())] += 1
        return int(second.argmax()), first, second


def ours(t: Tiny, text: str, std: float, runs: int = RUNS, seed: int = 0, config: RsmiConfig = CONFIG):
    (row,) = t.rows([text], MAX_LENGTH)
    keys = [derive("parity", seed, i) for i in range(runs)]
    decisions = [o.decision for o in infer(t.smoothed(std, NOISE_LAYERS), config, [row] * runs, keys)]
    return [(d.winner, d.first_votes, d.second_votes) for d in decisions]


def tables(results) -> dict[str, np.ndarray]:
    """Counts over runs, which are independent: votes of one run are not, they share a saliency."""
    first = np.bincount([first[0] for _, first, _ in results], minlength=CONFIG.first_votes + 1)
    second = np.bincount([s[0] for _, _, s in results if s is not None], minlength=CONFIG.second_votes + 1)
    final = np.bincount([2 * (second is not None) + winner for winner, _, second in results], minlength=4)
    return {"first votes": first, "second votes": second, "decision and escalation": final}


def p_value(one: np.ndarray, two: np.ndarray) -> float:
    """Chi-square test of homogeneity, with neighbouring rare categories joined."""
    if not one.sum() or not two.sum():
        return 1.0
    joined, waiting = [], np.zeros(2)
    for pair in np.stack([one, two], 1):
        waiting = waiting + pair
        if waiting.sum() >= 20:
            joined.append(waiting)
            waiting = np.zeros(2)
    if joined:
        joined[-1] = joined[-1] + waiting
    return float(chi2_contingency(np.array(joined).T, correction=False).pvalue) if len(joined) > 1 else 1.0


def is_mixed(counts: dict[str, np.ndarray]) -> bool:
    """Whether votes differ from run to run, some runs escalate and some do not, and both classes win."""
    first = counts["first votes"]
    final = counts["decision and escalation"]
    escalated = final[2:].sum() / final.sum()
    wins = final.reshape(2, 2).sum(0) / final.sum()
    return bool((first / first.sum() > 0.05).sum() >= 4 and 0.4 < escalated < 0.93 and wins.min() > 0.15)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """One small copy at a time: a second thread only costs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def samples(tiny_of):
    """Family -> (model, [(text, counts of the naive runs)]) for the first texts whose votes are mixed."""

    @cache
    def draw(family: str, texts: int = 1, seed: int = 11):
        t = tiny_of(family, num_layers=2)
        mixed = []
        for text in some_texts(60, 6, 11, seed=seed):
            if len(mixed) < texts and is_mixed(tables(ours(t, text, STD[family], 100, seed=1))):
                mixed.append(text)
        assert len(mixed) == texts
        naive = Naive(t, STD[family], seed=0)
        return t, [(text, tables([naive.predict(text) for _ in range(RUNS)])) for text in mixed]

    return draw


@pytest.mark.parametrize("family", FAMILIES)
def test_without_noise_masks_and_answers_are_the_papers(family, tiny_of):
    t = tiny_of(family, num_layers=2)
    naive = Naive(t, 0.0, seed=0)
    answers = set()
    for text in some_texts(15, 1, 11, seed=4):
        (outcome,) = infer(t.smoothed(0.0, NOISE_LAYERS), CONFIG, t.rows([text], MAX_LENGTH), [3])
        assert outcome.masks.pool == tuple(naive.candidates(text)[2])
        assert outcome.masks.top == outcome.masks.pool[:2]
        winner, first, second = naive.predict(text)
        assert outcome.decision.winner == winner
        assert outcome.decision.first_votes.tolist() == first.tolist()
        assert second is None
        assert outcome.decision.second_votes is None
        answers.add(winner)
    assert answers == {0, 1}


@pytest.mark.parametrize("family", FAMILIES)
def test_with_the_same_saliency_noise_masks_are_the_papers(family, tiny_of):
    t = tiny_of(family, num_layers=2)
    naive = Naive(t, STD[family], seed=0)
    differing = 0
    for key, text in enumerate(some_texts(15, 6, 11, seed=5)):
        rows = t.rows([text], MAX_LENGTH)
        (outcome,) = infer(t.smoothed(STD[family], NOISE_LAYERS), CONFIG, rows, [key])
        noise = row_noise([derive(key, "saliency", 0)], [len(rows[0])])
        assert outcome.masks.pool == tuple(naive.candidates(text, noise)[2])
        differing += outcome.masks.pool != tuple(naive.candidates(text)[2])
    assert differing > 5  # other noise, other masks: the agreement is no accident


@pytest.mark.parametrize(
    ("family", "texts", "seed"),
    [
        ("bert", 1, 11),
        ("roberta", 1, 11),
        ("t5", 1, 11),
        *(pytest.param(family, 3, 12, marks=pytest.mark.slow) for family in FAMILIES),
    ],
)
def test_votes_decisions_and_escalations_are_distributed_as_the_papers(family, texts, seed, samples):
    t, drawn = samples(family, texts, seed)
    for text, expected in drawn:
        got = tables(ours(t, text, STD[family]))
        assert is_mixed(expected), (text, expected)
        assert is_mixed(got), (text, got)
        for name, counts in expected.items():
            assert p_value(counts, got[name]) > REJECT, (text, name, counts, got[name])


# Wrong masks move these distributions too little for a few hundred runs; the exact comparisons above notice them.
WRONG = {
    "half the noise": (0.5, {}),
    "three times the noise": (3.0, {}),
    "the authors' default gate": (1.0, {"stop_confidence": 0.70}),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mistake", WRONG)
def test_the_comparison_would_notice(family, mistake, samples):
    t, drawn = samples(family, 1, 11)
    factor, settings = WRONG[mistake]
    config = RsmiConfig.from_dict({**CONFIG.to_dict(), **settings})
    smallest = min(
        p_value(counts, tables(ours(t, text, factor * STD[family], config=config))[name])
        for text, expected in drawn
        for name, counts in expected.items()
    )
    assert smallest < REJECT
