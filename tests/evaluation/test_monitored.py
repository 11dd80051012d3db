"""How well attacks are told from clean texts: curves known by hand, weights, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from command import rsmi
from keyword_model import keyword_classifier, keyword_texts
from report_runs import record, run, write
from rsmi.errors import DataError
from rsmi.evaluation.monitoring import Seen, check_unseen, fit, fitted_on, judge, look_again
from rsmi.evaluation.runs import Run
from rsmi.method.monitoring import FITTED_ON, WEIGHTS, Signals, Weights

EQUAL = Weights(intercept=0.0, disagreement=1.0, escalation=1.0, concentration=1.0)


def seen(place: int, attacked: bool, *values: float) -> Seen:
    disagreement, escalation, concentration = values
    own = Signals(disagreement=disagreement, escalation=escalation, concentration=concentration)
    return Seen(place, attacked, own)


def drawn(count: int, seed: int = 0, shift: float = 0.2) -> list[Seen]:
    """Inputs with a clean and an attacked text each, of which the latter disagree more."""
    rng = np.random.default_rng(seed)
    return [
        seen(place, attacked, min(1, rng.random() * 0.7 + shift * attacked), float(rng.random() < 0.5), rng.random())
        for place in range(count)
        for attacked in (False, True)
    ]


def test_a_signal_that_separates_has_an_area_of_one_and_one_that_does_not_of_a_half():
    texts = [
        seen(i, attacked, 0.2 + 0.5 * attacked, 1.0, 0.1 * attacked + 0.1 * (i % 2))
        for i in range(20)
        for attacked in (False, True)
    ]
    found = {own.score: own for own in judge(texts, EQUAL)}
    assert list(found) == ["under_attack", "disagreement", "escalation", "concentration"]
    sure, none = found["disagreement"], found["escalation"]
    assert (sure.auc, sure.low, sure.high, sure.caught) == (1.0, 1.0, 1.0, 1.0)
    assert (none.auc, none.low, none.high, none.caught) == (0.5, 0.5, 0.5, 0.0)
    # clean 0.0 or 0.1, attacked 0.1 or 0.2, a half each: of four pairs three are won and one is a tie
    assert found["concentration"].auc == pytest.approx(0.875)
    assert (sure.clean, sure.attacked) == (20, 20)
    assert sure.points[0] == (0.0, 0.0)
    assert sure.points[-1] == (1.0, 1.0)


def test_the_area_is_that_of_sklearn_and_its_interval_holds_it():
    texts = drawn(150)
    attacked = [own.attacked for own in texts]
    for own in judge(texts, EQUAL):
        scores = [
            EQUAL.score(t.signals) if own.score == "under_attack" else getattr(t.signals, own.score) for t in texts
        ]
        assert own.auc == pytest.approx(roc_auc_score(attacked, scores))
        assert own.low < own.auc < own.high


def test_intervals_are_as_wide_as_samples_differ():
    """Standard deviation of the area over 60 samples against that which one interval says: within a third."""
    areas = []
    for seed in range(60):
        texts = drawn(60, seed)
        areas.append(roc_auc_score([own.attacked for own in texts], [own.signals.disagreement for own in texts]))
    own = judge(drawn(60, 1000), EQUAL)[1]
    assert (own.high - own.low) / (2 * 1.96) == pytest.approx(np.std(areas), rel=1 / 3)


def test_curves_repeat_under_a_seed_and_do_not_touch_the_global_state():
    texts = drawn(30)
    before = np.random.get_state()[1].copy()
    assert judge(texts, EQUAL, seed=3) == judge(texts, EQUAL, seed=3)
    assert judge(texts, EQUAL, seed=3) != judge(texts, EQUAL, seed=4)
    assert np.array_equal(np.random.get_state()[1], before)


def test_fitted_weights_are_those_of_a_logistic_regression():
    texts = drawn(400)
    features = np.array([[*own.signals.to_dict().values()] for own in texts])
    labels = np.array([own.attacked for own in texts])
    found = fit(texts)
    theirs = LogisticRegression(C=1 / (1e-2 * len(texts))).fit(features, labels)
    ours = [found.disagreement, found.escalation, found.concentration]
    assert ours[0] == pytest.approx(theirs.coef_[0][0], abs=0.02)
    assert ours[2] == pytest.approx(theirs.coef_[0][2], abs=0.02)
    assert found.disagreement > 1
    by_name = {own.score: own.auc for own in judge(texts, found)}
    assert by_name["under_attack"] >= max(by_name.values()) - 0.01


def test_fitted_weights_never_reward_agreement():
    found = fit([replace(own, attacked=not own.attacked) for own in drawn(200)])
    assert found.disagreement == 0.0
    assert found.escalation >= 0.0


def test_few_attacked_texts_count_as_much_as_many_clean_ones():
    texts = [own for own in drawn(300) if not own.attacked or own.place < 30]
    found = fit(texts)
    mean = {
        attacked: np.mean([found.score(own.signals) for own in texts if own.attacked is attacked])
        for attacked in (True, False)
    }
    assert mean[False] < 0.5 < mean[True]


def test_weights_are_not_judged_on_the_texts_they_were_fitted_on():
    one, same, other_data, other_model = run("sf"), run("fs", attack="pwws"), run("sfs"), run("sf", model="other")
    known = fitted_on([one, same])
    assert len(known) == 1
    for again in (one, same):
        with pytest.raises(DataError, match="than the weights were fitted on; got the same"):
            check_unseen([other_data, again], known)
    check_unseen([other_data, other_model], known)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """A classifier with a folder, and an attack on it that put a word of the other side into texts."""
    folder = tmp_path_factory.mktemp("attacked")
    classifier = keyword_classifier("rsmi", noise_std=0.3)
    classifier.save_pretrained(folder / "model")
    texts, labels = keyword_texts(16, seed=9)
    records = []
    for place, (text, label) in enumerate(zip(texts, labels, strict=True)):
        other = "hate bad" if label == "pos" else "love good"
        outcome = "-" if place == 3 else "f" if place % 4 == 1 else "s"
        changed = " ".join([*text.split()[:-2], other]) if outcome != "-" else text
        records.append(record(outcome, place, original=text, adversarial=changed, label=label))
    header = {"model": {"name": "m", "fingerprint": classifier.fingerprint, "config": {}}, "model_seed": 0}
    plain = run("", records=records)
    own = replace(plain, header={**plain.header, **header})
    return folder / "model", own, write(own, folder)


def test_originals_answered_right_and_texts_that_fooled_the_model_are_looked_at(attacked):
    _, own, _ = attacked
    classifier = keyword_classifier("rsmi", noise_std=0.3)
    classifier.seed = 1
    found = look_again(classifier, own)
    successes = [place for place, each in enumerate(own.records) if each.outcome == "succeeded"]
    assert [text.place for text in found if text.attacked] == successes
    assert [text.place for text in found if not text.attacked] == [place for place in range(16) if place != 3]
    assert len([text for text in look_again(classifier, own, "attempted") if text.attacked]) == 15
    expected = classifier.explain([own.records[successes[0]].adversarial])[0]
    assert next(text for text in found if text.attacked).signals.escalation == float(expected.escalated)


def test_records_of_another_model_and_runs_without_a_success_are_refused(attacked):
    _, own, _ = attacked
    with pytest.raises(DataError, match="expected records of the model given"):
        look_again(keyword_classifier("rsmi"), run("sf"))
    failed = replace(own, records=tuple(replace(each, outcome="failed") for each in own.records))
    with pytest.raises(DataError, match="no attack came to anything"):
        look_again(keyword_classifier("rsmi"), failed)


def test_the_command_writes_numbers_a_page_and_a_figure(attacked, tmp_path, monkeypatch, capfd):
    model, own, file = attacked
    code, stdout, stderr = rsmi(monkeypatch, capfd, "analyse", "monitoring", model, file, "--out", tmp_path / "roc")
    assert code == 0, stderr
    assert stdout.count("textfooler, paper, toy test") == 4
    values = json.loads((tmp_path / "roc.json").read_text())
    assert values["weights"] == WEIGHTS.to_dict()
    assert values["model"]["fingerprint"] == own.fingerprint
    (only,) = values["runs"]
    assert only["fresh_draws"] is True
    assert [each["score"] for each in only["signals"]] == [
        "under_attack",
        "disagreement",
        "escalation",
        "concentration",
    ]
    assert all(0 <= each["low"] <= each["auc"] <= each["high"] <= 1 for each in only["signals"])
    page = (tmp_path / "roc.md").read_text()
    assert "roc.svg" in page
    assert f"{only['signals'][0]['auc']:.3f}" in page
    picture = ElementTree.fromstring((tmp_path / "roc.svg").read_text())
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert f"AUC {only['signals'][0]['auc']:.2f}" in "".join(picture.itertext())


def test_weights_are_fitted_written_and_refused_on_the_same_texts(attacked, tmp_path, monkeypatch, capfd):
    model, own, file = attacked
    weights = tmp_path / "weights.json"
    words = ("analyse", "monitoring", model, file, "--fit", weights, "--draws", 2, "--json")
    code, stdout, stderr = rsmi(monkeypatch, capfd, *words)
    assert code == 0, stderr
    assert json.loads(stdout) == json.loads(weights.read_text())["weights"]
    classifier = keyword_classifier("rsmi", noise_std=0.3)
    texts = []
    for classifier.seed in (1, 2):
        texts += look_again(classifier, own)
    assert json.loads(stdout) == fit(texts).to_dict()
    words = ("analyse", "monitoring", model, file, "--weights", weights)
    code, _, stderr = rsmi(monkeypatch, capfd, *words)
    assert code == 1
    assert "than the weights were fitted on" in stderr.splitlines()[-1]
    header = {**own.header, "data": {**own.header["data"], "fingerprint": "another sample"}}
    (tmp_path / "other").mkdir()
    other = write(replace(own, header=header), tmp_path / "other")
    code, stdout, stderr = rsmi(
        monkeypatch, capfd, "analyse", "monitoring", model, other, "--weights", weights, "--json"
    )
    assert code == 0, stderr
    assert json.loads(stdout)["weights"] == json.loads(weights.read_text())["weights"]


@pytest.mark.parametrize("content", ["", "{}", '{"weights": {"x": 1}, "fitted_on": []}', "[]"])
def test_weights_that_cannot_be_read_are_one_error(attacked, tmp_path, monkeypatch, capfd, content):
    model, _, file = attacked
    (tmp_path / "weights.json").write_text(content)
    code, _, stderr = rsmi(
        monkeypatch, capfd, "analyse", "monitoring", model, file, "--weights", tmp_path / "weights.json"
    )
    assert code == 1
    assert "expected weights as --fit writes them" in stderr


def test_the_weights_in_use_are_those_that_were_fitted_and_are_not_judged_on_their_texts():
    folder = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "monitoring"
    values = json.loads((folder / "weights.json").read_text(encoding="utf-8"))
    assert values["weights"] == WEIGHTS.to_dict()
    assert values["fitted_on"] == [dict(own) for own in FITTED_ON]
    dev = Run.read(folder / "mr-dev-pwws.jsonl")
    assert dev.header["data"]["split"] == "dev"
    with pytest.raises(DataError, match="than the weights were fitted on"):
        check_unseen([dev], FITTED_ON)
