"""Attacks from inside a certificate: they find what is false, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keyword_model import NEGATIVE, POSITIVE, keyword_texts, smoothed_classifier
from rsmi import CertifyConfig, RsmiClassifier
from rsmi.data import TextDataset
from rsmi.errors import DataError
from rsmi.evaluation.audit import SmoothedTarget, TellingWords, audit_records
from rsmi.evaluation.certifying import Certified, CertifiedAccuracy, certify_to_file, read_certificates
from rsmi.method.substitution import SynonymTable
from toy import FAILED

TEXTS, LABELS = keyword_texts(6, seed=4)
DATA = TextDataset(name="toy", split="test", texts=tuple(TEXTS), labels=tuple(LABELS), source="a test")
FEW = {"selection_samples": 20, "estimation_samples": 200, "failure_prob": 0.01}
# a positive word mostly stays positive; replaced by its negative one, which has no synonyms, it stays negative
TABLE = SynonymTable.from_dict({p: [n, *POSITIVE[:3]] for p, n in zip(POSITIVE, NEGATIVE, strict=True)})


def victim(kind: str) -> RsmiClassifier:
    return smoothed_classifier(kind, TABLE)


def audited(*arguments, **settings) -> list[Certified]:
    return [own for few in audit_records(*arguments, together=2, **settings) for own in few]


def certified(kind: str) -> tuple[RsmiClassifier, CertifyConfig, list[Certified]]:
    classifier, settings = victim(kind), CertifyConfig(kind=kind, **FEW)
    made = classifier.certify(TEXTS, **settings.to_dict())
    return classifier, settings, [Certified(gold=g, certificate=c) for g, c in zip(LABELS, made, strict=True)]


@pytest.mark.parametrize("kind", ["l2-hidden", "l2-embedding"])
def test_a_radius_that_is_too_large_is_found_out(kind):
    classifier, settings, records = certified(kind)
    sound = audited(classifier, settings, records)
    assert all(own.audits for own in sound if own.certificate.radius > 0)
    assert CertifiedAccuracy.of(sound).broken == 0
    for own in sound:
        assert all(each.distance < own.certificate.radius for each in own.audits)
    inflated = [
        replace(own, certificate=replace(own.certificate, radius=60 * own.certificate.radius)) for own in records
    ]
    assert CertifiedAccuracy.of(audited(classifier, settings, inflated)).broken >= 4


@pytest.mark.parametrize("kind", ["l0-mask", "edit", "synonym"])
def test_too_many_words_are_found_out(kind):
    classifier, settings, records = certified(kind)
    assert CertifiedAccuracy.of(audited(classifier, settings, records, telling=DATA)).broken == 0
    inflated = [replace(own, certificate=replace(own.certificate, radius=8)) for own in records]
    if kind == "synonym":  # covers() counts by the bounds
        inflated = [
            replace(own, certificate=replace(own.certificate, p_lower=2.0, p_upper_other=-2.0)) for own in inflated
        ]
    found = audited(classifier, settings, inflated, telling=DATA)
    assert CertifiedAccuracy.of(found).broken >= (1 if kind == "synonym" else 2)
    for own in found:
        for each in own.audits:
            assert each.adversarial != own.certificate.text
            assert own.certificate.covers(each.adversarial)


def test_texts_of_other_attacks_are_asked_about_where_they_are_covered():
    classifier, settings, records = certified("l0-mask")
    records = [replace(own, certificate=replace(own.certificate, radius=1)) for own in records]
    words = TEXTS[0].split()
    near, far = " ".join(["film", *words[1:]]), " ".join(["film"] * len(words))
    given = [replace(FAILED, original=TEXTS[0], adversarial=text) for text in (near, far, TEXTS[0])]
    found = audited(classifier, settings, records, inside=False, found=given)
    assert [each.adversarial for each in found[0].audits] == [near]
    assert found[0].audits[0].attack == FAILED.attack
    assert not any(own.audits for own in found[1:])
    again = audited(classifier, settings, found, inside=False, found=given)
    assert again[0].audits == found[0].audits  # not once more


def test_telling_words_are_those_of_one_class():
    words = TellingWords.of(DATA.texts, DATA.labels, count=5).words
    assert {"good", "bad", "love", "hate", "joy", "bore", "great", "poor", "fine", "dull"} & set(words)
    assert len(words) <= 10


def test_the_smoothed_target_answers_with_shares_even_of_nothing():
    classifier, settings, _ = certified("l0-mask")
    from rsmi.certify import open_smoothing

    target = SmoothedTarget(open_smoothing(classifier.engine(), settings), classifier.classes_, draws=10)
    shares = target.query([TEXTS[0], ""])
    assert shares.shape == (2, 2)
    assert shares.sum(1).tolist() == [1.0, 1.0]
    assert (target.query([TEXTS[0]], draw=0) == shares[:1]).all()


def test_an_interrupted_run_goes_on_to_the_same_file(tmp_path):
    settings = CertifyConfig(kind="l2-hidden", **FEW)
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    list(certify_to_file(victim("l2-hidden"), DATA, whole, settings, {"model": {"name": "m", "fingerprint": "f"}}))
    lines = whole.read_text().splitlines(keepends=True)
    cut.write_text("".join(lines[:3]) + lines[3][:40])
    with pytest.raises(DataError, match="half-written"):
        read_certificates(cut)
    resumed = certify_to_file(victim("l2-hidden"), DATA, cut, settings, {"model": {"name": "m", "fingerprint": "f"}})
    assert len(list(resumed)) == 6
    assert cut.read_text() == whole.read_text()
    header, records = read_certificates(whole)
    assert header["certify"]["kind"] == "l2-hidden"
    assert [records[i].gold for i in range(6)] == LABELS
    other = CertifyConfig(kind="l2-hidden", **{**FEW, "estimation_samples": 300})
    with pytest.raises(DataError, match="other certify"):
        list(certify_to_file(victim("l2-hidden"), DATA, whole, other, {"model": {"name": "m", "fingerprint": "f"}}))
    whole.write_text("".join(lines[:3]))
    with pytest.raises(DataError, match="4 are missing"):
        read_certificates(whole)
    whole.write_text("".join([*lines[:3], "{}\n"]))
    with pytest.raises(DataError, match="line 4"):
        read_certificates(whole)


def test_certified_accuracy_counts():
    _, _, records = certified("l2-hidden")
    records[0] = replace(records[0], certificate=replace(records[0].certificate, label=None, radius=0.0))
    records[1] = replace(records[1], gold="pos" if LABELS[1] == "neg" else "neg")
    counted = CertifiedAccuracy.of(records)
    assert (counted.abstained, counted.wrong, counted.total) == (1, 1, 6)
    assert len(counted.radii) == 4
    assert counted.at(0.0).count == 4
    assert counted.at(1e9).count == 0
    assert counted.to_dict()["certified"]["count"] == 4
