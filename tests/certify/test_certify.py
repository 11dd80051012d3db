"""Certificates of real models: what is drawn, what is read, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from keyword_model import SMOOTHED, keyword_texts, smoothed_classifier
from rsmi import RsmiClassifier, RsmiConfig, TrainConfig
from rsmi.certify import Certificate, CertifyConfig, certify_texts, embedding, hidden, lower_bound, open_smoothing
from rsmi.certify.embedding import EmbeddingSmoothing
from rsmi.certify.hidden import HiddenSmoothing
from rsmi.certify.wordwise import MaskedWords
from rsmi.errors import InputError, NotCertifiable
from rsmi.method import engine as engine_module
from rsmi.method import tokens
from rsmi.method import words as words_module
from rsmi.method.noise import NoisePlan
from rsmi.method.substitution import SynonymTable
from rsmi.method.voting import Ballot, collect_votes
from rsmi.seeds import derive
from tiny import WORDS, save_tiny
from toy import LABELS, TEXTS

TEXT, OTHER = keyword_texts(2, seed=3)[0]
SYNONYMS = SynonymTable.from_dict({"good": ["great"], "great": ["good"], "bad": ["poor"], "poor": ["bad"]})
FEW = {"selection_samples": 20, "estimation_samples": 100, "failure_prob": 0.01}


def victim(kind: str, **settings: object) -> RsmiClassifier:
    return smoothed_classifier(kind, SYNONYMS, **settings)


@pytest.mark.parametrize("kind", SMOOTHED)
def test_a_certificate_tells_what_was_drawn(kind):
    classifier = victim(kind)
    (found,) = classifier.certify([TEXT], kind=kind, **FEW)
    assert isinstance(found, Certificate)
    assert found.label == classifier.predict([TEXT])[0]
    assert sum(found.counts.values()) == 100
    assert found.samples == 120
    assert found.p_lower == lower_bound(found.counts[found.label], 100, 0.01)
    assert found.p_upper_other == 1 - found.p_lower
    assert found.covers(TEXT) is True or found.radius == 0
    assert found.num_words == len(TEXT.split())
    read = Certificate.from_dict(found.to_dict())
    assert read == found
    assert classifier.attach(read, **FEW).covers(TEXT) == found.covers(TEXT)
    with pytest.raises(NotCertifiable, match="attach"):
        read.covers(TEXT)


@pytest.mark.parametrize("kind", SMOOTHED)
def test_a_certificate_depends_on_its_own_text_alone(kind):
    texts = keyword_texts(5, seed=8)[0]
    much = {"embedding_noise_std": 0.4} if kind == "l2-embedding" else {"noise_std": 1.5}
    together = victim(kind, **much).certify(texts, kind=kind, **FEW)
    alone = [victim(kind, **much).certify([text], kind=kind, **FEW)[0] for text in texts]
    assert together == alone
    other = victim(kind, **much)
    other.seed = 1
    assert [own.counts for own in other.certify(texts, kind=kind, **FEW)] != [own.counts for own in together]


class Held:
    """A lock that knows whether it is held."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


@pytest.mark.parametrize("masking", ["none", "in-noise"])
@pytest.mark.parametrize("kind", SMOOTHED)
def test_a_tokenizer_is_asked_by_one_thread_at_a_time(kind, masking, monkeypatch):
    classifier, lock, calls = victim(kind, num_masks=1), Held(), []

    def encode(*given):
        assert lock.depth > 0
        calls.append(given)
        return tokens.encode(*given)

    monkeypatch.setattr(engine_module, "encode", encode)
    monkeypatch.setattr(words_module, "encode", encode)
    engine = replace(classifier.engine(), lock=lock)
    settings = CertifyConfig(kind=kind, masking=masking, **FEW)
    (found,) = certify_texts(engine, [TEXT], ["neg", "pos"], settings)
    found.covers(OTHER)
    if kind.startswith("l2"):
        smoothing = open_smoothing(engine, settings)
        smoothing.votes_moved(TEXT, 0.1 * smoothing.slope(TEXT, 0, None, [1, 2]), [3, 4])
    assert calls
    assert lock.depth == 0


@pytest.mark.parametrize("masking", ["none", "in-noise"])
@pytest.mark.parametrize("family", ["bert", "roberta", "t5", "modernbert", "albert", "electra"])
def test_nothing_but_the_noisy_embeddings_is_read(family, masking, tmp_path):
    """Two words with the same embedding are the same text to a classifier that sees only noisy embeddings."""
    folder = save_tiny(family, tmp_path / family)
    config = RsmiConfig(
        noise_std=0.2, noise_layers=1, masking="none", embedding_noise_std=0.3, max_length=32, num_masks=1
    )
    classifier = RsmiClassifier.from_pretrained(folder, config, classes=["a", "b"], seed=0)
    classifier.fit(["good joy", "bad bore"] * 2, ["a", "b"] * 2, TrainConfig(epochs=1, dev_fraction=0.0))
    engine = classifier.engine()
    one, two = "a good film and a warm end", "a good plot and a warm end"
    (row,), (other,) = engine.encode([one]), engine.encode([two])
    place = next(i for i, (a, b) in enumerate(zip(row.ids, other.ids, strict=True)) if a != b)
    smoothing = EmbeddingSmoothing(engine, CertifyConfig(kind="l2-embedding", masking=masking))
    keys = {(0, 0): list(range(40))}
    table = engine.loaded.encoder.model.get_input_embeddings().weight
    with torch.no_grad():
        table[other.ids[place]] = table[row.ids[place]]
    assert smoothing.distance(one, two) == 0
    first, second = (smoothing.votes([text], keys)[0, 0].tolist() for text in (one, two))
    assert first == second


def test_the_noise_has_the_stated_spread_and_is_drawn_for_every_copy(monkeypatch):
    classifier = victim("l2-embedding", embedding_noise_std=0.25)
    smoothing = EmbeddingSmoothing(classifier.engine(), CertifyConfig(kind="l2-embedding"))
    seen = []
    original = embedding.noisy_logits

    def spy(encoder, plan, batch, source, shift=None):
        assert plan.embedding_std == 0  # not once more
        seen.append(shift + encoder.model.get_input_embeddings()(batch.input_ids))
        return original(encoder, plan, batch, source, shift)

    monkeypatch.setattr(embedding, "noisy_logits", spy)
    smoothing.votes([TEXT], {(0, 0): list(range(400))})
    with torch.no_grad():
        clean = smoothing._states(classifier.engine().encode([TEXT]))
    noise = (torch.cat(seen) - clean).double()
    assert noise.std() == pytest.approx(0.25, rel=0.01)
    assert abs(float(noise.mean())) < 0.01
    flat = noise.flatten(1)
    shared = torch.corrcoef(flat[:100]).fill_diagonal_(0)
    assert shared.abs().max() < 6 / flat.shape[1] ** 0.5


def test_hidden_noise_has_the_stated_spread_at_the_layer(monkeypatch):
    classifier = victim("l2-hidden", noise_std=0.4, noise_layers=(0, 1))
    smoothing = HiddenSmoothing(classifier.engine(), CertifyConfig())
    seen = []
    original = hidden.logits_after_noise

    def spy(encoder, plan, state, read, source, tokens):
        seen.append(state.detach())
        return original(encoder, plan, state, read, source, tokens)

    monkeypatch.setattr(hidden, "logits_after_noise", spy)
    smoothing.votes([TEXT], {(0, 0): list(range(200))})
    with torch.no_grad():
        clean = smoothing._states(classifier.engine().encode([TEXT]))
    assert (torch.cat(seen) - clean).std() == pytest.approx(0.4, rel=0.01)


def test_votes_are_those_of_the_ordinary_path():
    """The share of votes agrees with copies as `predict` draws them, within four standard errors."""
    for kind in ("l2-hidden", "l2-embedding"):
        classifier = victim(kind, noise_std=0.9, embedding_noise_std=0.3 if kind == "l2-embedding" else 0.0)
        engine, n = classifier.engine(), 1500
        smoothing = open_smoothing(engine, CertifyConfig(kind=kind))
        own = (smoothing.votes([TEXT], {(0, 0): [derive(1, i) for i in range(n)]})[0, 0] == 1).mean()
        (row,) = engine.encode([TEXT])
        ballot = Ballot(row, ((),) * n, tuple(derive(2, i) for i in range(n)))
        usual = collect_votes(engine.smoothed, [ballot])[0].counts[1] / n
        assert 0.02 < usual < 0.98
        assert abs(own - usual) < 4 * (usual * (1 - usual) * 2 / n) ** 0.5


def test_noise_after_later_layers_does_not_enter_the_radius():
    one = victim("l2-hidden", noise_std=0.1, noise_layers=(0,)).certify([TEXT], **FEW)[0]
    two = victim("l2-hidden", noise_std=0.1, noise_layers=(0, 1)).certify([TEXT], **FEW)[0]
    assert one.counts == two.counts  # all votes for one class
    assert one.radius == two.radius


def test_all_masks_must_agree_and_pay_for_their_number():
    classifier = victim("l2-hidden")
    (plain,) = classifier.certify([TEXT], **FEW)
    (every,) = classifier.certify([TEXT], masking="all-masks", **FEW)
    masks = len(TEXT.split())
    assert every.samples > plain.samples
    assert every.radius < plain.radius
    assert every.abstained or every.p_lower <= lower_bound(100, 100, 0.01 / masks)
    many = victim("l2-hidden", num_masks=3, num_candidates=5)
    long = " ".join(WORDS[:28])
    with pytest.raises(NotCertifiable, match="too many"):
        many.certify([long], masking="all-masks", **FEW)


def test_one_text_that_no_mask_saves_is_not_certified():
    certified = victim("l2-hidden").certify(keyword_texts(12, seed=1)[0], masking="all-masks", **FEW)
    assert {own.abstained for own in certified} == {True, False}


@pytest.mark.parametrize("bound", ["bonferroni", "sequential"])
def test_other_bounds(bound):
    wanted = {"radius": 0.05} if bound == "sequential" else {}
    (found,) = victim("l2-hidden").certify([TEXT], bound=bound, **wanted, **FEW)
    (usual,) = victim("l2-hidden").certify([TEXT], **FEW)
    assert 0 < found.radius <= usual.radius
    assert found.samples <= usual.samples


def test_a_wanted_radius_ends_the_drawing():
    few = {**FEW, "estimation_samples": 1000}
    (whole,) = victim("l2-hidden").certify([TEXT], **few)
    (cut,) = victim("l2-hidden").certify([TEXT], radius=0.05, **few)
    assert cut.samples < whole.samples
    assert whole.radius > cut.radius >= 0.05
    (far,) = victim("l2-hidden").certify([TEXT], radius=100.0, **few)
    assert far.samples == 20 or far.radius < 100


def test_covers_measures_each_in_its_own_space():
    swapped = TEXT.split()
    swapped[0] = "film" if swapped[0] != "film" else "movie"
    near, longer = " ".join(swapped), TEXT + " film"
    in_hidden, in_words = (victim(k).certify([TEXT], kind=k, **FEW)[0] for k in ("l2-hidden", "l2-embedding"))
    for own in (in_hidden, in_words):
        assert own.covers(longer) is None
        assert own.covers(near) is False  # farther than so small a radius
        assert replace(own, radius=1e6).covers(near) is True
        assert replace(own, label=None).covers(TEXT) is False
    masked = replace(victim("l0-mask").certify([TEXT], kind="l0-mask", **FEW)[0], radius=1, label="pos")
    assert (masked.covers(near), masked.covers(longer)) == (True, None)
    edit = replace(victim("edit").certify([TEXT], kind="edit", **FEW)[0], radius=1, label="pos")
    assert (edit.covers(near), edit.covers(longer), edit.covers(longer + " end")) == (True, True, False)
    pair = replace(edit, text=(TEXT, "film"))
    assert pair.covers((TEXT, "movie")) is True
    assert pair.covers(TEXT) is None


def test_covers_of_synonyms():
    classifier = victim("synonym")
    own = replace(
        classifier.certify(["a good film"], kind="synonym", **FEW)[0], label="pos", p_lower=0.99, p_upper_other=0.01
    )
    assert own.covers("a great film") is True
    assert own.covers("a bad film") is False
    assert own.covers("a good, film") is None
    assert replace(own, p_lower=0.5, p_upper_other=0.5).covers("a great film") is False
    assert own.certified_substitutions(SYNONYMS).words == int(own.radius)
    with pytest.raises(NotCertifiable, match="another one"):
        own.certified_substitutions(SynonymTable.from_dict({"good": ["bad"]}))


def test_substitutions_within_an_embedding_radius():
    classifier = victim("l2-embedding")
    table = SynonymTable.from_dict({"good": ["great", "fine"], "film": ["movie"]})
    (own,) = classifier.certify(["a good film"], kind="l2-embedding", **FEW)
    smoothing = open_smoothing(classifier.engine(), CertifyConfig(kind="l2-embedding"))
    far = [
        max(smoothing.distance("a good film", f"a {word} film") for word in ("great", "fine")),
        smoothing.distance("a good film", "a good movie"),
    ]
    both = (far[0] ** 2 + far[1] ** 2) ** 0.5
    for radius, words in ((min(far) / 2, 0), (max(far) * 1.001, 1), (both * 1.001, 2), (both * 0.999, 1)):
        found = replace(own, radius=radius).certified_substitutions(table)
        assert found == (words, 1.0, 0)
    assert smoothing.distance("a good film", "a great movie") <= both * 1.001
    with pytest.raises(NotCertifiable, match="hidden states"):
        victim("l2-hidden").certify([TEXT], **FEW)[0].certified_substitutions(table)


def test_the_joint_radius_needs_noise_inside():
    smoothing = MaskedWords(victim("l0-mask").engine(), CertifyConfig(kind="l0-mask"))
    own = victim("l0-mask").certify([TEXT], kind="l0-mask", **FEW)[0]
    with pytest.raises(NotCertifiable, match="embedding_noise_std"):
        smoothing.joint_radius(own, 1)
    noisy = MaskedWords(victim("l0-mask", embedding_noise_std=0.1).engine(), CertifyConfig(kind="l0-mask"))
    with pytest.raises(NotCertifiable, match="l0-mask"):
        victim("edit").certify([TEXT], kind="edit", **FEW)[0].joint_radius(1)
    assert replace(own, p_lower=0.99).attached(noisy).joint_radius(0) > 0
    assert noisy.joint_radius(replace(own, p_lower=0.99), 0) > noisy.joint_radius(replace(own, p_lower=0.99), 1) >= 0


@pytest.mark.parametrize(
    ("kind", "settings", "match"),
    [
        ("l2-hidden", {"noise_std": 0.0}, "no noise"),
        ("l2-hidden", {"embedding_noise_std": 0.1}, "first state is random"),
        ("l2-embedding", {"embedding_noise_std": 0.0, "noise_std": 0.1}, "no noise at its word embeddings"),
        ("l0-mask", {"word_mask_rate": 0.0}, "--variant ranmask"),
        ("edit", {"word_deletion_rate": 0.0}, "--variant deletion"),
        ("synonym", {"substitution": False}, "do not replace words"),
        ("l2-hidden", {"aggregation": "logit-average"}, "unbounded"),
    ],
)
def test_what_cannot_be_certified_says_why(kind, settings, match):
    with pytest.raises(NotCertifiable, match=match):
        victim(kind, **settings).certify([TEXT], kind=kind, **FEW)


def test_models_that_cannot_be_run_from_a_layer_on_are_refused(tiny_folder):
    config = RsmiConfig(noise_std=0.2, noise_layers=1, masking="none", max_length=32)
    for family in ("t5", "albert"):
        classifier = RsmiClassifier.from_pretrained(tiny_folder(family), config, classes=["a", "b"], seed=0)
        classifier.fit(["good joy", "bad bore"] * 2, ["a", "b"] * 2, TrainConfig(epochs=1, dev_fraction=0.0))
        with pytest.raises(NotCertifiable, match="l2-embedding"):
            classifier.certify([TEXT])


def test_noise_after_the_last_layer_only_leaves_no_masks_in_it():
    classifier = victim("l2-hidden", noise_layers=(1,))
    assert classifier.certify([TEXT], **FEW)[0].label is not None
    with pytest.raises(NotCertifiable, match="after the last layer"):
        classifier.certify([TEXT], masking="in-noise", **FEW)


def test_half_precision_is_refused():
    half = victim("l2-hidden")
    half._loaded.encoder.model.to(torch.bfloat16)
    with pytest.raises(NotCertifiable, match="float32"):
        half.certify([TEXT], **FEW)


def test_bad_texts_and_abstentions():
    classifier = victim("l2-hidden")
    with pytest.raises(InputError, match="text 1 is empty"):
        classifier.certify([TEXT, " "], **FEW)
    more = {**FEW, "estimation_samples": 400}
    drowned = victim("l2-hidden", noise_std=30.0).certify(keyword_texts(6, seed=2)[0], **more)
    abstained = [own for own in drowned if own.abstained]
    assert abstained
    assert all(own.radius == 0 and own.label is None and own.covers(own.text) is False for own in abstained)
    assert min(own.samples for own in drowned) < 420  # hopeless ones end early


def test_masks_inside_uniform_masks_read_the_masked_text_only():
    """P11: with RSMI's own masks inside, a hidden word still changes nothing."""
    classifier = victim("l0-mask", word_mask_rate=0.9, noise_std=0.1)
    smoothing = MaskedWords(classifier.engine(), CertifyConfig(kind="l0-mask", masking="in-noise"))
    words = TEXT.split()
    keys = {(0, 0): list(range(60))}
    first = smoothing.votes([TEXT], keys)[0, 0]
    from rsmi.method.words import draw_hidden

    unseen = np.array([0 in draw_hidden(len(words), 0.9, derive(key, "words")) for key in keys[0, 0]])
    other = " ".join(["never" if words[0] != "never" else "love", *words[1:]])
    second = smoothing.votes([other], keys)[0, 0]
    assert unseen.any()
    assert (first[unseen] == second[unseen]).all()


def test_training_for_a_certificate(tmp_path: Path):
    folder = save_tiny("bert", tmp_path / "base", num_layers=2, dropout=0.0)
    config = RsmiConfig.variant("ranmask", word_mask_rate=0.4, max_length=32)
    settings = TrainConfig(method="finetune", epochs=8, learning_rate=2e-3, batch_size=8, dev_fraction=0.0)
    classifier = RsmiClassifier(str(folder), config, settings, seed=0).fit(TEXTS, LABELS)
    classifier.save_pretrained(tmp_path / "trained")
    loaded = RsmiClassifier.from_pretrained(tmp_path / "trained", seed=0)
    assert loaded.config_.word_mask_rate == 0.4
    found = loaded.certify(TEXTS[:8], kind="l0-mask", **FEW)
    assert sum(own.label == label for own, label in zip(found, LABELS, strict=False)) >= 7
    assert loaded.randomised
    assert (loaded.predict(TEXTS[:8]) == np.array(LABELS[:8])).mean() >= 7 / 8
    assert loaded.engine().plan == NoisePlan((), 0.0)
